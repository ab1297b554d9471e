//! Whether a learner's answers are linear in the query and in the labels, as wᵀx with w = f(S)Xᵀy is.

use ndarray::{Array2, Array3, Array4, Axis, s};

use super::taken::Resamples;
use crate::data::prompts::{Prompts, Questions};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::learners::Learner;
use crate::learners::steps::Steps;
use crate::linalg::{dot, least_squares};
use crate::stats::Estimate;

/// Queries and labels are made this much smaller: larger ones a network may never have seen.
const SMALLER: f64 = 0.5;

/// Power of what is not linear, over the power of the answers, after each step `[s]`.
#[derive(Clone, Debug)]
pub struct Linearity {
    /// Pairs read.
    pub pairs: usize,
    /// A query of half the length has half the answer.
    pub query_scaled: Vec<Estimate>,
    /// The answer to (x + x′)/√2 is that to x and to x′, added and over √2.
    pub query_added: Vec<Estimate>,
    /// Labels of half the size give half the answer.
    pub labels_scaled: Vec<Estimate>,
    /// Labels (y + y′)/√2 of two functions give the answers of both, added and over √2.
    pub labels_added: Vec<Estimate>,
}

impl Linearity {
    /// Asks a learner after `pairs` pairs of `questions`, whose queries are used in twos.
    pub fn of(
        learner: &dyn Learner,
        steps: &Steps,
        questions: &Questions,
        pairs: usize,
        seed: Seed,
    ) -> Result<Linearity> {
        let asked = questions.queries.dim().1;
        if asked < 2 || questions.prompts.count() < 2 {
            return Err(Error::BadData(format!(
                "linearity of {} prompts with {asked} queries; accepted: at least 2 of both",
                questions.prompts.count()
            )));
        }
        let plain = Questions { lengths: vec![pairs], ..questions.clone() };
        let answers = |questions: &Questions| -> Result<Array3<f64>> {
            let found: Array4<f64> = learner.answers(questions, steps)?; // [s, b, l, q]
            Ok(found.index_axis_move(Axis(2), 0))
        };
        let with_queries = |queries: Array3<f64>| answers(&Questions { queries, ..plain.clone() });
        let with_labels = |ys: Array2<f64>| {
            answers(&Questions { prompts: Prompts { ys, ..plain.prompts.clone() }, ..plain.clone() })
        };
        let mean = |one: &Array3<f64>, other: &Array3<f64>| (one + other) * std::f64::consts::FRAC_1_SQRT_2;

        let own = answers(&plain)?;
        let smaller = &own * SMALLER;
        let half = asked / 2;
        let (one, two) = (
            plain.queries.slice(s![.., ..half, ..]).to_owned(),
            plain.queries.slice(s![.., half..2 * half, ..]).to_owned(),
        );
        let added = with_queries(mean(&one, &two))?;
        let own_added = mean(
            &own.slice(s![.., .., ..half]).to_owned(),
            &own.slice(s![.., .., half..2 * half]).to_owned(),
        );
        let other_labels = labels_of_next(&plain.prompts);
        let both = (&plain.prompts.ys + &other_labels) * std::f64::consts::FRAC_1_SQRT_2;
        let other = with_labels(other_labels)?;
        Ok(Linearity {
            pairs,
            query_scaled: shares(seed, &with_queries(&plain.queries * SMALLER)?, &smaller),
            query_added: shares(seed, &added, &own_added),
            labels_scaled: shares(seed, &with_labels(&plain.prompts.ys * SMALLER)?, &smaller),
            labels_added: shares(seed, &with_labels(both)?, &mean(&own, &other)),
        })
    }
}

/// Σ (found − linear)² over Σ linear² after each step, over all prompts and queries `[s, b, q]`.
fn shares(seed: Seed, found: &Array3<f64>, linear: &Array3<f64>) -> Vec<Estimate> {
    let resamples = Resamples::of(seed, found.dim().1);
    let of = |(found, linear): (ndarray::ArrayView2<f64>, ndarray::ArrayView2<f64>)| {
        let per_prompt = found.rows().into_iter().zip(linear.rows());
        let sums: Vec<(f64, f64)> = per_prompt
            .map(|(found, linear)| {
                let apart = found.iter().zip(linear).map(|(x, y)| (x - y).powi(2)).sum();
                (apart, linear.iter().map(|y| y * y).sum())
            })
            .collect();
        resamples.share(&sums)
    };
    found.outer_iter().zip(linear.outer_iter()).map(of).collect()
}

/// Labels `[b,n]` of the next prompt's function at this prompt's inputs.
fn labels_of_next(prompts: &Prompts) -> Array2<f64> {
    let (count, dim) = (prompts.count(), prompts.dim());
    let mut ys = prompts.ys.clone();
    for (b, mut row) in ys.axis_iter_mut(Axis(0)).enumerate() {
        let (xs, labels) = prompts.prompt((b + 1) % count);
        let w = least_squares(xs, labels, dim);
        let (xs, _) = prompts.prompt(b);
        row.iter_mut().zip(xs.chunks_exact(dim)).for_each(|(y, x)| *y = dot(&w, x));
    }
    ys
}
