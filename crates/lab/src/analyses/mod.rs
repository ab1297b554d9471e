//! Analyses: each asks one question of the paper and answers with claims and figures.
//! To add one: a file with a `ROW`, and a line in [`ANALYSES`].

pub mod bench;
mod bfgs_is_dfp;
mod causal_newton;
mod compact_theorem;
mod compared;
mod constructed;
mod convergence;
pub mod emergence;
mod error_maps;
mod forgetting;
mod gd_is_geometric;
mod gd_step_size;
mod ill_conditioned;
pub mod interventions;
mod known_algorithms;
mod layer_errors;
mod log_steps;
mod miniature;
mod moments;
mod network_span;
mod newest_pair;
mod newton_boundary;
mod noisy;
mod online;
mod operations;
mod other_measures;
mod over_layers;
mod over_pairs;
mod preconditioning;
mod progression;
mod prompt_layout;
mod quasi_newton;
mod reference;
mod relu_heads;
mod seeds;
mod shown;
mod span;
mod steps_to_accuracy;
pub(crate) mod study;
mod table_one;
mod test_column;
mod theorem;
mod told_apart;
mod two_layer_tasks;
mod variants;
mod weight_maps;
mod widths;

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::compare::matching::Matching;
use crate::compare::similarity::Heatmap;
use crate::error::{Error, Result, hint};
use crate::findings::claims::{Claim, Findings};
use crate::findings::figure::{Figure, HeatmapPanel, Panel, Table};
use crate::learners::Learner;
use crate::networks::models;
use crate::solvers;

pub use bench::Lab;

/// One row of the registry of analyses.
pub struct Analysis {
    /// Row of the acceptance table: `F26`, `E1`.
    pub id: &'static str,
    /// A headline.
    pub title: &'static str,
    /// What it does and why, a paragraph.
    pub summary: &'static str,
    /// Networks it needs, by name (see [`crate::networks::models`]).
    pub needs: &'static [&'static str],
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
    prompt_layout::ROW,
    convergence::ROW,
    layer_errors::ROW,
    error_maps::ROW,
    ill_conditioned::ROW,
    forgetting::ROW,
    online::ROW,
    online::LSTM_ROW,
    widths::ROW,
    table_one::ROW,
    table_one::LSTM_ROW,
    progression::ROW,
    progression::LSTM_ROW,
    told_apart::ROW,
    weight_maps::ROW,
    log_steps::ROW,
    quasi_newton::ROW,
    quasi_newton::CG,
    over_layers::ROW,
    over_pairs::ROW,
    layer_errors::SKEWED_ROW,
    error_maps::SKEWED_ROW,
    weight_maps::SKEWED_ROW,
    quasi_newton::SKEWED_ROW,
    noisy::ROW,
    two_layer_tasks::RELU,
    two_layer_tasks::TANH,
    error_maps::ONE_HEAD_ROW,
    weight_maps::ONE_HEAD_ROW,
    error_maps::DEEP_ROW,
    layer_errors::DEEP_ROW,
    known_algorithms::ROW,
    network_span::ROW,
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
    other_measures::DISTANCE,
    other_measures::OWN_READ_OUT,
    other_measures::LEAST_SQUARES,
    ill_conditioned::HARDLY_HURT,
    variants::WIDER_LSTM,
    variants::RELU_ATTENTION,
    preconditioning::ROW,
    seeds::ROW,
    emergence::ROW,
    interventions::ROW,
    miniature::ROW,
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

/// Rows that ask a network for induced weights or for every layer once more: minutes, where others take seconds.
const LATE: [&str; 7] = ["F9", "F13", "F14", "F17", "F23", "F27", "Q5"];

/// The order of computing: what needs no network first, what takes minutes last, so that there is soon something to read.
pub fn cheap_first(mut selected: Vec<&Analysis>) -> Vec<&Analysis> {
    selected.sort_by_key(|a| (LATE.contains(&a.id), !a.needs.is_empty()));
    selected
}

/// An analysis that was not run, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRun {
    /// Row of the acceptance table.
    pub analysis: String,
    /// Its headline.
    pub title: String,
    /// What it lacks, and how to get it.
    pub why: String,
}

impl NotRun {
    /// An analysis for want of networks.
    pub fn without(analysis: &Analysis, missing: &[&str]) -> NotRun {
        let one = missing.first().copied().unwrap_or_default();
        let recipe = models::named(one).map(models::Named::recipe).unwrap_or_default();
        let folders: Vec<String> = missing.iter().map(|name| format!("models/{name}")).collect();
        NotRun {
            analysis: analysis.id.to_string(),
            title: analysis.title.to_string(),
            why: format!("needs {} (train it: {recipe}, then --model {one}=runs/…)", folders.join(" and ")),
        }
    }
}

/// Runs one analysis and times it.
pub fn run(analysis: &Analysis, lab: &Lab) -> Result<Findings> {
    let start = Instant::now();
    let mut outcome = (analysis.run)(lab)?;
    let first = outcome.figures.first().map(|figure| figure.id.clone());
    for claim in &mut outcome.claims {
        claim.figure = claim.figure.take().or_else(|| first.clone());
        claim.explain();
    }
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
