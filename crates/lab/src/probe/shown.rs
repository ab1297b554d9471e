//! What the layers of an opened network look like: beside Newton's steps, without parts, over its training.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::{Fit, HeldOut, LoadedProbe};
use crate::Progress;
use crate::analyses::ablations::Ablations;
use crate::analyses::{Outcome, emergence};
use crate::compare::Comparison;
use crate::data::seed::Seed;
use crate::error::Result;
use crate::findings::Findings;
use crate::findings::numbers::counted;
use crate::learners::Learner;
use crate::learners::steps::Steps;
use crate::networks::experiment::{Experiment, TaskSpec};
use crate::networks::models::checkpoints;
use crate::solvers;

/// One layer beside Newton's steps.
pub struct LayerLook {
    /// From 0, the embedding.
    pub layer: usize,
    /// Its read-out on held-out prompts.
    pub found: HeldOut,
    /// A read-out fitted in another way, on the same prompts.
    pub other: Option<HeldOut>,
    /// Newton's step that is most similar.
    pub newton: Option<u64>,
    /// The similarity there.
    pub similarity: f64,
}

/// An opened network, layer by layer.
pub struct LayerTable<'a> {
    opened: &'a LoadedProbe,
    /// Layers 0 to L.
    pub layers: Vec<LayerLook>,
}

fn fit_of(opened: &LoadedProbe) -> &Fit {
    opened.probed.fitted().expect("opened networks have fitted read-outs")
}

impl<'a> LayerTable<'a> {
    /// Compares every layer with Newton on `count` prompts; `other` is the same network under other read-outs.
    pub fn new(opened: &'a LoadedProbe, other: Option<&LoadedProbe>, count: usize) -> Result<LayerTable<'a>> {
        let (task, probed) = (&opened.task, &opened.probed);
        let task = task.build()?;
        let prompts = task.sample(Seed(opened.seed), "eval", 0, count);
        let newton = solvers::build("newton")?.trajectory(&prompts, &Steps::range(0, 24))?;
        let layers = probed.trajectory(&prompts, &Steps::range(0, probed.layers() as u64))?;
        let against = Comparison::of_errors(&layers, &newton, &prompts)?;
        let look = |layer: usize| LayerLook {
            layer,
            found: fit_of(opened).layers[layer],
            other: other.map(|other| fit_of(other).layers[layer]),
            newton: against.step_for(layer as u64),
            similarity: against.matching.similarity[layer],
        };
        Ok(LayerTable { opened, layers: (0..=probed.layers()).map(look).collect() })
    }

    /// As lines of text.
    pub fn text(&self) -> String {
        let (opened, fit) = (self.opened, fit_of(self.opened));
        let TaskSpec { function, inputs, dim, points } = &opened.task;
        let targets = match &*fit.targets {
            "labels" => "labels".to_string(),
            best => format!("what {best} predicts, the mean of the label given the prompt"),
        };
        let mut text = format!(
            "{}: {function} of {inputs} inputs, {}, {}\n",
            opened.probed.id(),
            counted(*dim, "dimension", "dimensions"),
            counted(*points, "point", "points")
        );
        let mut line = |line: String| writeln!(text, "{line}").expect("text grows");
        line(format!("read-outs fitted to {targets}, on {} prompts: {}", fit.prompts, fit.why));
        if let Some(path) = &opened.saved {
            line(format!("(fitted before, from {})", path.display()));
        }
        let compared = self.layers.iter().any(|look| look.other.is_some());
        let more = if compared { "  least squares" } else { "" };
        line(format!("layer   mean loss  error/d at t={:<4}  Newton    SimE{more}", points - 1));
        for LayerLook { layer, found, other, newton, similarity } in &self.layers {
            let step = newton.map_or("none".into(), |step| step.to_string());
            let other =
                other.map_or(String::new(), |o| format!("  {:>9.4} {:.3e}", o.mean_loss, o.last_error));
            let (mean, error) = (found.mean_loss, found.last_error);
            line(format!("{layer:>5} {mean:>11.4}  {error:>17.3e} {step:>7}  {similarity:>6.4}{other}"));
        }
        let HeldOut { mean_loss, last_error } = fit.trained;
        line(format!("trained read-out on the same {} held-out prompts:", fit.held_out));
        line(format!("{:>5} {mean_loss:>11.4}  {last_error:>17.3e}", self.layers.len() - 1));
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let held_out =
            |found: &HeldOut| json!({"mean_loss": found.mean_loss, "last_error_over_d": found.last_error});
        let layer = |look: &LayerLook| {
            json!({
                "layer": look.layer,
                "mean_loss": look.found.mean_loss,
                "last_error_over_d": look.found.last_error,
                "newton_step": look.newton,
                "sime": look.similarity,
                "least_squares": look.other.as_ref().map(held_out),
            })
        };
        let (opened, fit) = (self.opened, fit_of(self.opened));
        json!({
            "network": opened.probed.id().to_string(),
            "task": opened.task,
            "unfinished": opened.unfinished,
            "notes": opened.notes,
            "fit": {
                "method": fit.method, "raw": fit.raw, "targets": fit.targets, "prompts": fit.prompts, "why": fit.why,
                "held_out": fit.held_out, "saved": opened.saved,
            },
            "trained": held_out(&fit.trained),
            "layers": self.layers.iter().map(layer).collect::<Vec<_>>(),
        })
    }
}

/// What becomes of a network without each of its layers and heads, on `count` prompts.
pub fn without_parts(opened: &LoadedProbe, count: usize, progress: Progress) -> Result<Findings> {
    let title = format!("Which layers and heads does {} need?", opened.probed.id());
    let found = Ablations::measure(opened, count, progress)?;
    let notes = opened.notes.clone();
    Ok(Findings { answer: found.answer(), notes, ..findings("interventions", title, found.shown()) })
}

/// The layers of a run at the checkpoints that were kept along its training, on `count` prompts.
pub fn over_training(run: &Path, count: usize, progress: Progress) -> Result<Findings> {
    let task = Experiment::read(&run.join("plan.toml"))?.task;
    let checkpoints = checkpoints::of(run, progress)?;
    let task = task.build()?;
    let measured = emergence::measure(&checkpoints, &task.sample(Seed(0), "eval", 0, count), Seed(0))?;
    let name = run.display().to_string();
    let title = format!("When in training do the layers of {name} begin to match Newton's steps?");
    let answer = emergence::answer(&measured);
    Ok(Findings { answer, ..findings("emergence", title, emergence::shown(&name, &measured)) })
}

fn findings(analysis: &str, title: String, outcome: Outcome) -> Findings {
    let Outcome { claims, figures, tables } = outcome;
    let summary = tables[0].caption.clone();
    Findings { analysis: analysis.into(), title, summary, claims, figures, tables, ..Findings::default() }
}
