//! When does it appear? Layers against Newton over the checkpoints of one training run.

use std::sync::Arc;

use crate::analyses::kit::lab::Lab;
use crate::analyses::kit::setting::ISOTROPIC;
use crate::analyses::{Analysis, Outcome, POINTS, heatmap_panel};
use crate::compare::matching::{Matching, best_match};
use crate::compare::similarity::{Heatmap, Metric, View, of_errors};
use crate::data::prompts::Prompts;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke, Table};
use crate::learners::Learner;
use crate::learners::steps::Steps;
use crate::networks::models::checkpoints::{FITTED, RECORDED};
use crate::registry::Id;
use crate::solvers;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N2",
    order: 20,
    title: "When it appears: layers against Newton during training",
    summary: "The maps of layers against Newton's steps at about twenty moments of one training run, from its first steps to \
              its end. Not in the paper, which looks at finished networks.",
    needs: &["r1-along"],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::BEYOND
}];

/// Newton step from which a network's last layer counts as second-order: no dozen of gradient steps is as good.
const FAR: u64 = 10;

fn run(lab: &Lab) -> Result<Outcome> {
    let prompts = lab.sample(&ISOTROPIC.data)?.head(RECORDED, POINTS);
    let moments = measure(&lab.moments("r1-along")?, &prompts)?;
    let mut outcome = shown("r1-along", &moments);
    let last = |m: &Moment| m.matching.step_for(m.matching.a.last());
    let step = |m: &Moment| last(m).map_or(f64::NAN, |s| s as f64);
    let (first, end) = (&moments[0], &moments[moments.len() - 1]);
    let far = moments.iter().find(|m| last(m).is_some_and(|s| s >= FAR));
    outcome.claims = vec![
        Claim::new(
            "N2.begins",
            Kind::Reference,
            "Newton step that the last layer matches at the first checkpoint",
            step(first),
            Bound::AtMost(2.0),
        )
        .figure("emergence"),
        Claim::new(
            "N2.ends",
            Kind::Reference,
            "Newton step that the last layer matches at the end of training",
            step(end),
            Bound::AtLeast(15.0),
        )
        .figure("emergence"),
        Claim::new(
            "N2.share",
            Kind::Reference,
            format!("Share of all training steps after which the last layer first matches Newton step {FAR} or more"),
            far.map_or(f64::NAN, |m| m.step as f64) / end.step as f64,
            Bound::None,
        )
        .figure("emergence"),
    ];
    Ok(outcome)
}

/// Maps that are shown, out of all checkpoints.
const MAPS: usize = 5;

/// A network at one moment of its training.
pub struct Moment {
    /// Training steps taken.
    pub step: u64,
    /// Layers against Newton's steps.
    pub map: Heatmap,
    /// Each layer's best match.
    pub matching: Matching,
    /// Mean squared error of the last layer over all positions, on held-out prompts.
    pub loss: f64,
}

/// Compares every moment of a training run with Newton on some prompts.
pub fn measure(moments: &[(u64, Arc<dyn Learner>)], prompts: &Prompts) -> Result<Vec<Moment>> {
    let newton = solvers::build("newton")?.trajectory(prompts, &Steps::range(0, 24))?;
    let of = |(step, network): &(u64, Arc<dyn Learner>)| {
        let layers = network.trajectory(prompts, &network.default_steps())?;
        let mut map = of_errors(&layers, &newton, prompts, View::default(), Metric::Cosine)?;
        map.a.learner = Id { name: "network".into(), given: Default::default() };
        let last = layers.errors(prompts, layers.steps.len() - 1);
        let loss = last.iter().map(|e| e * e).sum::<f64>() / last.len() as f64;
        Ok(Moment { step: *step, matching: best_match(&map), map, loss })
    };
    moments.iter().map(of).collect()
}

/// The measured moments of a network as figures and a table.
pub fn shown(name: &str, moments: &[Moment]) -> Outcome {
    let layers = moments[0].matching.a.as_slice().to_vec();
    let caption = format!(
        "{name}, {} checkpoints of one training run, {} prompts; read-outs fitted to {FITTED} prompts at each.",
        moments.len(),
        moments[0].map.prompts()
    );
    let over = |label: &str, value: &dyn Fn(&Moment) -> f64| {
        let points = moments.iter().map(|m| (m.step as f64, value(m))).collect();
        Series::new(label, points).stroke(Stroke::LineMarkers)
    };
    let matched = layers.iter().enumerate().map(|(i, &layer)| {
        let step = |m: &Moment| m.matching.step_for(layer).map_or(f64::NAN, |s| s as f64);
        over(&layer.to_string(), &step).grade(i as f64 / (layers.len() - 1).max(1) as f64)
    });
    let last = layers.len() - 1;
    let x = || Axis::new("training step", Scale::Log10);
    let panel = |title: &str, y: Axis, series| {
        Panel::Lines(LinesPanel { title: title.into(), x: x(), y, series, references: vec![] })
    };
    let curves = Figure {
        id: "emergence".into(),
        title: "When layers begin to match Newton's steps".into(),
        caption: caption.clone(),
        panels: vec![
            panel("Best match of each layer", Axis::new("Newton step", Scale::Linear), matched.collect()),
            panel(
                "Last layer",
                Axis::new("SimE with its best match", Scale::Linear),
                vec![over("last layer", &|m| m.matching.similarity[last])],
            ),
            panel(
                "Last layer",
                Axis::new("held-out mean loss", Scale::Linear),
                vec![over("loss", &|m| m.loss)],
            ),
        ],
    };
    let shown = MAPS.min(moments.len());
    // the steps are log-spaced, and what happens happens late
    let chosen = moments[moments.len() - shown..].iter();
    let maps = Figure {
        id: "emergence-maps".into(),
        title: "Layers against Newton's steps, as training goes on".into(),
        caption: format!("{caption} Outlined: best match of each layer."),
        panels: chosen.map(|m| heatmap_panel(&format!("step {}", m.step), &m.map, &m.matching)).collect(),
    };
    let mut columns = vec!["training step".to_string()];
    columns.extend(layers.iter().map(|layer| format!("layer {layer}")));
    columns.extend(["SimE of the last layer".to_string(), "mean loss".to_string()]);
    let row = |m: &Moment| {
        let steps = layers.iter().map(|&l| m.matching.step_for(l).map_or("none".into(), |s| s.to_string()));
        let mut row = vec![m.step.to_string()];
        row.extend(steps);
        row.extend([format!("{:.4}", m.matching.similarity[last]), format!("{:.4}", m.loss)]);
        row
    };
    let table = Table {
        id: "emergence".into(),
        title: "Best Newton step of each layer, as training goes on".into(),
        caption,
        columns,
        rows: moments.iter().map(row).collect(),
    };
    Outcome { claims: vec![], figures: vec![curves, maps], tables: vec![table] }
}
