//! Two properties of what a learner keeps of its prompt: forgetting of early pairs, and the span of its weights.

use ndarray::Axis;

use crate::compare::similarity::InducedWeights;
use crate::data::prompts::{Prompts, Questions};
use crate::error::Result;
use crate::learners::Learner;
use crate::learners::steps::Steps;
use crate::linalg::residual_outside_span;

/// Squared errors `[gap][prompt]` when x_{n−gap} is asked again after n pairs, at one step of the learner.
pub fn forgetting(learner: &dyn Learner, prompts: &Prompts, n: usize, step: u64) -> Result<Vec<Vec<f64>>> {
    let ys = prompts.ys.clone();
    let questions = Questions::reask(prompts.clone(), n);
    let answers = learner.answers(&questions, &Steps::single(step))?;
    Ok((0..n)
        .map(|gap| {
            let i = n - 1 - gap;
            (0..ys.len_of(Axis(0))).map(|b| (answers[[0, b, 0, i]] - ys[[b, i]]).powi(2)).collect()
        })
        .collect())
}

/// Share of each induced weight vector that lies outside span{x₁…x_t}: `[length][prompt]`, at recorded step `s`.
pub fn outside_span(weights: &InducedWeights, questions: &Questions, s: usize) -> Vec<Vec<f64>> {
    let (count, _, lengths, dim) = weights.values.dim();
    (0..lengths)
        .map(|l| {
            (0..count)
                .map(|b| {
                    let (xs, _) = questions.prompts.prompt(b);
                    let w = weights.values.slice(ndarray::s![b, s, l, ..]);
                    residual_outside_span(&xs[..questions.lengths[l] * dim], &w.to_vec())
                })
                .collect()
        })
        .collect()
}
