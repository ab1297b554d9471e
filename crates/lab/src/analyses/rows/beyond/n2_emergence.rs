//! N2: when does it appear? Layers against Newton over the checkpoints of one training run.

use std::sync::Arc;

use crate::analyses::Outcome;
use crate::analyses::kit::prelude::*;
use crate::compare::matching::Matching;
use crate::data::seed::Seed;
use crate::findings::{Figure, Table};
use crate::networks::models::checkpoints::{FITTED, RECORDED};
use crate::stats::{RESAMPLES, interval};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N2",
    order: 20,
    title: "When in training do the layers begin to match Newton's steps?",
    summary: "The maps of layers against Newton's steps at about twenty checkpoints of one training run, from its \
              first steps to its end. Not in the paper, which looks at finished networks.",
    needs: &["r1-along"],
    run,
    ..Analysis::BEYOND
}];

/// Newton step from which a network's last layer counts as second-order: no dozen of gradient steps is as good.
const FAR: u64 = 10;

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let prompts = lab.sample(&ISOTROPIC.data)?.head(RECORDED, POINTS);
    let checkpoints = measure(&lab.checkpoints("r1-along")?, &prompts, lab.seed)?;
    let (first, end) = (&checkpoints[0], &checkpoints[checkpoints.len() - 1]);
    note.claim("begins", first.found.last_step(), AtMost(2.0))
        .says("Newton step that the last layer matches at the first checkpoint");
    note.claim("ends", end.found.last_step(), AtLeast(15.0))
        .says("Newton step that the last layer matches at the end of training");
    note.claim("share", share_until(&checkpoints, FAR), Bound::None).says(format!(
        "Share of all training steps after which the last layer first matches Newton step {FAR} or more"
    ));
    let Outcome { figures, tables, .. } = shown("r1-along", &checkpoints);
    note.paste(figures, tables);
    Ok(())
}

/// Share of the training steps after which the last layer matches Newton step `far` or more, between checkpoints on a line over the
/// logarithm of training steps; all checkpoints under the same resampled prompts. Infinite where none does.
fn share_until(checkpoints: &[Checkpoint], far: u64) -> Estimate {
    let all = checkpoints.last().map_or(f64::NAN, |end| end.step as f64);
    let first = |last_steps: &dyn Fn(&Matching) -> &[f64]| {
        let matched = |at: &Checkpoint| last_steps(&at.found.matching).last().map_or(f64::NAN, |s| *s);
        let far = far as f64;
        let Some(i) = checkpoints.iter().position(|at| matched(at) >= far) else { return f64::INFINITY };
        let here = &checkpoints[i];
        let Some(before) = i.checked_sub(1).map(|i| &checkpoints[i]) else { return here.step as f64 / all };
        let share = (far - matched(before)) / (matched(here) - matched(before));
        before.step as f64 * (here.step as f64 / before.step as f64).powf(share) / all
    };
    let (low, high) =
        interval((0..RESAMPLES).map(|r| first(&|matching| &matching.resampled_interpolated[r])).collect());
    Estimate { value: first(&|matching| &matching.interpolated), low, high }
}

/// Maps that are shown, out of all checkpoints.
const MAPS: usize = 5;

/// A network after some of its training.
pub struct Checkpoint {
    /// Training steps taken.
    pub step: u64,
    /// Layers against Newton's steps.
    pub found: Comparison,
    /// Mean squared error of the last layer over all positions, on held-out prompts.
    pub loss: Estimate,
}

/// Compares every checkpoint of a training run with Newton on some prompts, which `seed` resamples.
pub fn measure(
    checkpoints: &[(u64, Arc<dyn Learner>)],
    prompts: &Prompts,
    seed: Seed,
) -> Result<Vec<Checkpoint>> {
    let newton = solver("newton")?.trajectory(prompts, &Steps::range(0, 30))?;
    let of = |(step, network): &(u64, Arc<dyn Learner>)| {
        let layers = network.trajectory(prompts, &network.default_steps())?;
        let losses = squares(&layers, prompts, layers.steps.last());
        let losses: Vec<f64> = losses.iter().map(|sum| sum / prompts.points() as f64).collect();
        let loss = mean(seed, &losses);
        let found = Comparison::of_errors(&layers, &newton, prompts)?.named("network").resampled(seed);
        Ok(Checkpoint { step: *step, found, loss })
    };
    checkpoints.iter().map(of).collect()
}

/// What training did to the last layer, in a sentence.
pub fn answer(checkpoints: &[Checkpoint]) -> String {
    let (first, end) = (&checkpoints[0], &checkpoints[checkpoints.len() - 1]);
    let last = |at: &Checkpoint| at.found.step_text(at.found.matching.a.last());
    let similarity = end.found.matching.similarity.last().copied().unwrap_or(f64::NAN);
    format!(
        "The last layer matches Newton step {} after {} training steps and step {} after {} (SimE {similarity:.4} there).",
        last(first),
        first.step,
        last(end),
        end.step
    )
}

/// The measured checkpoints of a network as figures and a table.
pub fn shown(name: &str, checkpoints: &[Checkpoint]) -> Outcome {
    let layers = checkpoints[0].found.matching.a.as_slice();
    let last = layers.len() - 1;
    let caption = format!(
        "{name}, {} checkpoints of one training run, {} prompts; read-outs fitted to {FITTED} prompts at each.",
        checkpoints.len(),
        checkpoints[0].found.map.prompts()
    );
    let over = |label: &str, value: &dyn Fn(&Checkpoint) -> f64| {
        Series::new(label, checkpoints.iter().map(|at| (at.step as f64, value(at))).collect()).markers()
    };
    let banded = |label: &str, value: fn(&Checkpoint) -> Estimate| {
        Series::estimates(label, checkpoints.iter().map(|at| (at.step as f64, value(at))))
    };
    let matched = layers.iter().enumerate().map(|(i, &layer)| {
        let grade = i as f64 / (layers.len() - 1).max(1) as f64;
        over(&format!("layer {layer}"), &|at| at.found.best_step(layer)).grade(grade)
    });
    let panel = |title: &str, y: &str, series: Vec<Series>| {
        LinesPanel::new(Axis::log10("training step"), Axis::linear(y), series).titled(title)
    };
    let curves = [
        panel("Best match of each layer", "Newton step", matched.collect()),
        panel(
            "Last layer",
            "SimE with its best match",
            vec![banded("last layer", |at| at.found.last_similarity())],
        ),
        panel("Last layer", "held-out mean loss", vec![banded("loss", |at| at.loss)]),
    ];
    // the steps are log-spaced, and what happens happens late
    let chosen = checkpoints[checkpoints.len() - MAPS.min(checkpoints.len())..].iter();
    let maps = chosen.map(|at| at.found.panel(&format!("step {}", at.step)));
    let banded_caption = format!("{caption} The last layer has 95 % bands.");
    let outlined = format!("{caption} Outlined: best match of each layer.");
    let figures = vec![
        Figure::new("emergence", "Best-matching Newton steps over training", banded_caption, curves),
        Figure::new("emergence-maps", "Layers against Newton's steps, as training goes on", outlined, maps),
    ];
    let columns = ["training step".to_string()]
        .into_iter()
        .chain(layers.iter().map(|layer| format!("layer {layer}")))
        .chain(["SimE of the last layer".to_string(), "mean loss".to_string()]);
    let rows = checkpoints.iter().map(|at| {
        let steps = layers.iter().map(|&layer| at.found.step_text(layer));
        let measured = [at.found.matching.similarity[last], at.loss.value].map(|value| format!("{value:.4}"));
        [at.step.to_string()].into_iter().chain(steps).chain(measured).collect()
    });
    let title = "Best Newton step of each layer, as training goes on";
    let table = Table::new("emergence", title, caption, columns, rows);
    Outcome { claims: vec![], figures, tables: vec![table] }
}
