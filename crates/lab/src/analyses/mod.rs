//! Analyses: each asks one question of the paper and answers with claims and figures.
//! To add one: a file with a `ROW`, and a line in [`ANALYSES`].

mod bfgs_is_dfp;
mod causal_newton;
mod compact_theorem;
mod constructed;
mod convergence;
pub mod emergence;
mod forgetting;
mod gd_is_geometric;
mod gd_step_size;
pub mod interventions;
mod known_algorithms;
mod moments;
mod newest_pair;
mod newton_boundary;
mod operations;
mod reference;
mod relu_heads;
mod span;
mod steps_to_accuracy;
mod test_column;
mod theorem;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::claims::{Claim, Findings};
use crate::error::{Error, Result, hint};
use crate::figure::{Figure, HeatmapPanel, Panel, Table};
use crate::learner::{Learner, Trajectory};
use crate::matching::Matching;
use crate::prompts::{Prompts, Task};
use crate::seed::Seed;
use crate::similarity::Heatmap;
use crate::solvers;
use crate::stats::{Estimate, mean};
use crate::steps::Steps;

/// One row of the registry of analyses.
pub struct Analysis {
    /// Row of the acceptance table: `F26`, `E1`.
    pub id: &'static str,
    /// A headline.
    pub title: &'static str,
    /// What it does and why, a paragraph.
    pub summary: &'static str,
    /// Runs it.
    pub run: fn(&Lab) -> Result<Outcome>,
}

/// What an analysis returns.
#[derive(Default)]
pub struct Outcome {
    /// In reading order.
    pub claims: Vec<Claim>,
    /// In reading order.
    pub figures: Vec<Figure>,
    /// In reading order.
    pub tables: Vec<Table>,
}

/// Every analysis, in the order of the report.
pub const ANALYSES: &[Analysis] = &[
    convergence::ROW,
    forgetting::ROW,
    known_algorithms::ROW,
    newton_boundary::ROW,
    relu_heads::ROW,
    moments::ERRATUM,
    bfgs_is_dfp::ROW,
    gd_is_geometric::ROW,
    test_column::ROW,
    gd_step_size::ROW,
    theorem::ROW,
    compact_theorem::ROW,
    operations::SUM,
    operations::ROW,
    causal_newton::ROW,
    moments::ROW,
    span::ROW,
    steps_to_accuracy::ROW,
    newest_pair::ROW,
    reference::ROW,
];

/// Finds analyses by id, case aside; all of them when none is named.
pub fn select(ids: &[String]) -> Result<Vec<&'static Analysis>> {
    for id in ids {
        if !ANALYSES.iter().any(|a| a.id.eq_ignore_ascii_case(id)) {
            let hint = hint(id, ANALYSES.iter().map(|a| a.id));
            return Err(Error::UnknownName { kind: "analysis", name: id.clone(), hint });
        }
    }
    let wanted = |a: &&Analysis| ids.is_empty() || ids.iter().any(|id| a.id.eq_ignore_ascii_case(id));
    Ok(ANALYSES.iter().filter(wanted).collect())
}

/// Runs one analysis and times it.
pub fn run(analysis: &Analysis, lab: &Lab) -> Result<Findings> {
    let start = Instant::now();
    let outcome = (analysis.run)(lab)?;
    Ok(Findings {
        analysis: analysis.id.to_string(),
        title: analysis.title.to_string(),
        summary: analysis.summary.to_string(),
        claims: outcome.claims,
        figures: outcome.figures,
        tables: outcome.tables,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Dimension of the paper's problems.
pub const DIM: usize = 20;
/// Points per prompt: 40 pairs and a query.
pub const POINTS: usize = 41;
/// Pairs read at the last position.
pub const LAST: usize = POINTS - 1;

/// The bench on which analyses work: a seed, a number of prompts, and what was computed already.
pub struct Lab {
    /// From which everything follows.
    pub seed: Seed,
    /// Prompts per evaluation.
    pub count: usize,
    prompts: Mutex<HashMap<String, Arc<Prompts>>>,
    trajectories: Mutex<HashMap<String, Arc<Trajectory>>>,
}

impl Lab {
    /// An empty bench.
    pub fn new(seed: Seed, count: usize) -> Lab {
        Lab { seed, count, prompts: Mutex::default(), trajectories: Mutex::default() }
    }

    /// The evaluation prompts of linear regression (d=20, 41 points) under an input law.
    pub fn prompts(&self, inputs: &str) -> Result<Arc<Prompts>> {
        let task = Task::new("linear", inputs, DIM, POINTS)?;
        let mut known = self.prompts.lock().expect("no analysis panics while holding it");
        let sampled = known.entry(inputs.to_string());
        Ok(sampled.or_insert_with(|| Arc::new(task.sample(self.seed, "eval", 0, self.count))).clone())
    }

    /// The trajectory of an algorithm on [`Lab::prompts`], computed once.
    pub fn trajectory(&self, learner: &str, inputs: &str, steps: &Steps) -> Result<Arc<Trajectory>> {
        let key = format!("{learner} | {inputs} | {steps}");
        if let Some(known) = self.trajectories.lock().expect("as above").get(&key) {
            return Ok(known.clone());
        }
        let found = Arc::new(solvers::build(learner)?.trajectory(&*self.prompts(inputs)?, steps)?);
        self.trajectories.lock().expect("as above").insert(key, found.clone());
        Ok(found)
    }

    /// Mean squared error over d (the paper's normalised error) after `t` pairs at a step.
    pub fn error(&self, trajectory: &Trajectory, prompts: &Prompts, step: u64, t: usize) -> Estimate {
        let scale = 1.0 / prompts.dim() as f64;
        let errors: Vec<f64> =
            trajectory.squared_errors(prompts, step, t).iter().map(|e| e * scale).collect();
        mean(self.seed, &errors)
    }
}

/// An algorithm by its text; analyses only name algorithms that exist.
fn solver(text: &str) -> Result<Box<dyn Learner>> {
    solvers::build(text)
}

/// A heat-map with its best matches as a panel.
pub fn heatmap_panel(title: &str, map: &Heatmap, matching: &Matching) -> Panel {
    let rows = map.b.steps.len();
    Panel::Heatmap(HeatmapPanel {
        title: title.to_string(),
        x_label: map.a.label(),
        y_label: map.b.label(),
        x_steps: map.a.steps.as_slice().to_vec(),
        y_steps: map.b.steps.as_slice().to_vec(),
        values: (0..rows).map(|j| map.mean.column(j).to_vec()).collect(),
        value_label: map.label.to_string(),
        best: matching.best.clone(),
        best_interval: matching.intervals(),
        floor: Some(map.floor()),
    })
}
