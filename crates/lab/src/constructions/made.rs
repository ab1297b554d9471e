//! From a wish to weights that were compared with the algorithm they claim to be: a step that converges on the prompts,
//! the weights, how far they are from the algorithm, and a README that says so.

use engine::deviation::worst;
use ndarray::s;
use serde_json::{Value, json};

use super::{
    Constructed, Construction, Recipe, Start, Variant, build, describe, deviations, label_bound, step_limit,
};
use crate::data::prompts::{Prompts, Questions, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::findings::numbers::{counted, grouped};
use crate::learners::steps::Steps;
use crate::solvers;

/// Prompts on which the step is checked and the weights are compared with the algorithm.
pub const CHECKED_ON: usize = 1000;

/// What weights are wanted.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Which construction.
    pub variant: Variant,
    /// Iterations k.
    pub iterations: usize,
    /// Dimension d of an input.
    pub dim: usize,
    /// The most pairs n of a prompt.
    pub pairs: usize,
    /// α or η; half of the largest that converges on the prompts when absent.
    pub step: Option<f64>,
    /// Input distribution of the prompts.
    pub inputs: String,
    /// Seed of the prompts.
    pub seed: Seed,
}

/// Weights, compared with their algorithm.
pub struct Made {
    /// The weights.
    pub construction: Construction,
    /// Steps below this converge on the prompts.
    pub step_limit: f64,
    /// The algorithm, as the registry names it.
    pub algorithm: String,
    /// The largest deviation from it, relative to the size of predictions; infinite when it overflows.
    pub deviation: f64,
    /// Slots, layers, tensors and what was measured.
    pub readme: String,
}

/// Makes what is wished for; `progress` hears what is going on.
pub fn make(wish: &Wish, progress: &dyn Fn(&str)) -> Result<Made> {
    let Wish { variant, iterations, dim, pairs, .. } = *wish;
    progress("sampling prompts");
    let prompts =
        Task::new("linear", &wish.inputs, dim, pairs + 1)?.sample(wish.seed, "construct", 0, CHECKED_ON);
    let limit = step_limit(variant, &prompts, pairs);
    let step = checked_step(wish, limit)?;
    let construction =
        build(&Recipe { variant, iterations, dim, pairs, step, label_bound: label_bound(&prompts) })?;
    progress("comparing with the algorithm");
    let (algorithm, deviation) = largest_deviation(&construction, &prompts)?;
    let measured = format!(
        "Largest deviation from {algorithm} over {CHECKED_ON} prompts of {} inputs, relative to the size of predictions: {}.",
        wish.inputs,
        deviation_words(deviation)
    );
    let readme = describe::readme(&construction, &measured);
    Ok(Made { construction, step_limit: limit, algorithm, deviation, readme })
}

/// The step, if it converges on the prompts.
fn checked_step(wish: &Wish, limit: f64) -> Result<f64> {
    let rule = match (wish.variant, wish.variant.start()) {
        (Variant::Causal, _) => "2/λ², λ the largest ‖x‖²,",
        (_, Some(Start::Gram)) => "2/λ², λ the largest eigenvalue of S,",
        (_, Some(Start::Identity) | None) => "2/λ, λ the largest eigenvalue of S,",
    };
    let (name, _) = wish.variant.step_name();
    let step = wish.step.unwrap_or(limit / 2.0);
    if step > 0.0 && step < limit {
        return Ok(step);
    }
    Err(Error::BadData(format!(
        "{name} {step} is outside the convergent range on {CHECKED_ON} prompts of {} inputs (d={}, n={}); \
         accepted: above 0 and below {rule} = {limit:.4e}",
        wish.inputs, wish.dim, wish.pairs
    )))
}

/// The algorithm, and the largest relative deviation from it over a few steps, first and last among them, after all pairs.
fn largest_deviation(construction: &Construction, prompts: &Prompts) -> Result<(String, f64)> {
    let (k, t) = (construction.recipe.iterations as u64, construction.recipe.pairs);
    let steps = Steps::new(vec![0, k / 4, k / 2, 3 * k / 4, k])?;
    let learner = Constructed::new("constructed", construction.clone());
    let solver = learner.solver(t);
    let found = learner.after_pairs(prompts, t, &steps)?;
    let queries = prompts.xs.slice(s![.., t.., ..]).to_owned();
    let questions = Questions { prompts: prompts.clone(), lengths: vec![t], queries };
    let right = solvers::build(&solver)?.answers(&questions, &steps)?;
    let all = deviations(&found, &right.slice(s![.., .., 0, 0]).to_owned());
    Ok((solver, worst(all)))
}

/// A deviation for people.
fn deviation_words(deviation: f64) -> String {
    if deviation.is_finite() { format!("{deviation:.1e}") } else { "beyond all bounds (it overflows)".into() }
}

impl Made {
    /// All that was measured, as JSON.
    pub fn record(&self) -> Value {
        let (recipe, built) = (&self.construction.recipe, &self.construction.transformer);
        json!({
            "variant": recipe.variant.name(), "start": recipe.variant.start(), "iterations": recipe.iterations, "layers": built.layers.len(),
            "width": built.width(), "heads": built.heads(), "columns": built.columns(), "numbers": built.parameters(),
            "step": recipe.step, "step_limit": self.step_limit, "algorithm": self.algorithm, "prompts": CHECKED_ON,
            "deviation": self.deviation,
        })
    }

    /// The same in three lines.
    pub fn summary(&self) -> String {
        let (recipe, built) = (&self.construction.recipe, &self.construction.transformer);
        let (_, letter) = recipe.variant.step_name();
        format!(
            "{}, {}, width {}, {}, {} columns, {} numbers\n\
             {letter} = {:.4e}, of at most {:.4e} on these prompts\n\
             largest deviation from {} over {CHECKED_ON} prompts: {}",
            counted(recipe.iterations, "iteration", "iterations"),
            counted(built.layers.len(), "layer", "layers"),
            built.width(),
            counted(built.heads(), "head", "heads"),
            built.columns(),
            grouped(built.parameters() as u64),
            recipe.step,
            self.step_limit,
            self.algorithm,
            deviation_words(self.deviation)
        )
    }
}
