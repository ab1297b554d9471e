//! Spectral fingerprints: what a learner does to each eigen-direction of S = XᵀX, step by step.
//!
//! Similarity of errors cannot tell Newton from gradient descent with enough steps. The weights that a learner's answers
//! imply can: GD, Newton and all their kin answer with w = f(S) w_OLS, and differ in the filter f. Newton from αS has
//! f(λ) = 1−(1−αλ²)^(2ᵏ), GD 1−(1−ηλ)ᵐ, and Newton from ηI 1−(1−ηλ)^(2ᵏ): gradient descent with 2ᵏ steps, exactly.
//!
//! asked: prompts in the eigenbasis; filter: f with its knots; shape: its exponent; return_map: from step to step; degree:
//! how many products with S there must have been; naming: which of some algorithms; linearity: in the query and the labels;
//! units: of the eigenvalues; taken: all of it after one number of pairs, with intervals; shown: words, figures, tables and
//! arrays; plan: the whole by name, for `iclab fingerprint`.
//!
//! ```
//! use lab::fingerprint::{Asked, Fingerprint, Options, Scale};
//! use lab::prelude::*;
//!
//! let questions = Task::new("linear", "gaussian", 5, 16)?.questions(Seed(0), "eval", 0, 64, vec![15], 10);
//! let asked = Asked::fresh(questions, Scale::One)?;
//! let newton = solvers::build("newton:start=identity")?;
//! let found = Fingerprint::of(&*newton, &Steps::range(0, 6), &asked, &Options { knots: 8, ..Options::default() })?;
//! let after = &found.lengths[0]; // after 15 pairs
//! let map = after.maps[2].expect("from step 2 to step 3");
//! assert!((map.a.value - 2.0).abs() < 0.05 && (map.b.value - 1.0).abs() < 0.05); // f ← 2f − f²
//! # Ok::<(), Error>(())
//! ```

mod asked;
mod degree;
mod filter;
mod judged;
mod linearity;
mod naming;
pub mod plan;
mod return_map;
mod shape;
pub mod shown;
mod taken;
mod units;

pub use asked::{Answers, Asked, Scale};
pub use filter::Knots;
pub use linearity::Linearity;
pub use naming::{Candidate, Named, Naming};
pub use units::{ByUnit, Unexplained, by_unit};

use crate::data::seed::Seed;
use crate::error::Result;
use crate::learners::steps::Steps;
use crate::learners::{Learner, Unit};
use crate::registry::Id;
use crate::stats::Estimate;

/// How many times prompts are resampled: each time with filters, shapes and maps of its own.
const RESAMPLES: usize = 300;

/// How a fingerprint is taken.
#[derive(Clone, Debug)]
pub struct Options {
    /// Eigenvalues at which filters are measured.
    pub knots: usize,
    /// Of resampled prompts.
    pub seed: Seed,
}

impl Default for Options {
    fn default() -> Self {
        Options { knots: 12, seed: Seed(0) }
    }
}

/// What a learner does to each eigen-direction, after each of its steps and some numbers of pairs.
#[derive(Clone, Debug)]
pub struct Fingerprint {
    /// Whose.
    pub learner: Id,
    /// What a step is.
    pub unit: Unit,
    /// Its steps.
    pub steps: Steps,
    /// Prompts it was taken from.
    pub prompts: usize,
    /// After each number of pairs, ascending.
    pub lengths: Vec<AfterPairs>,
}

/// A fingerprint after one number of pairs. Intervals are over resampled prompts.
#[derive(Clone, Debug)]
pub struct AfterPairs {
    /// Pairs read, t.
    pub pairs: usize,
    /// Eigenvalues at which filters are measured.
    pub knots: Knots,
    /// f `[s][k]`.
    pub filters: Vec<Vec<Estimate>>,
    /// Power of the answers less those of least squares over the power of those `[s]`: what is still to do.
    pub remaining: Vec<Estimate>,
    /// Share of w − w_OLS that no filter explains `[s]`, by the answers, fitted on half of the prompts and judged on the other.
    pub unexplained: Vec<Estimate>,
    /// Share of ‖w‖² outside of the directions that the pairs have read `[s]`; empty when t ≥ d, or with fewer than 2d queries.
    pub outside: Vec<f64>,
    /// Shape of the filter `[s]`; none where it has not begun, is done, or is hardly known.
    pub shapes: Vec<Option<Shape>>,
    /// From each recorded step to the next `[s−1]`; none where filters say too little.
    pub maps: Vec<Option<ReturnMap>>,
    /// The means of all shapes and all maps.
    pub overall: Overall,
    /// Lowest degree of a polynomial that comes as close to w_OLS, median over prompts `[s]`; none where no degree is enough,
    /// empty with fewer than 2d queries.
    pub degrees: Vec<Option<usize>>,
}

/// f(λ) = 1 − exp(−(λ/λ_c)^p)
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// p: near 1 for GD and Newton from ηI, near 2 for Newton from αS.
    pub exponent: Estimate,
    /// λ_c: where f is 1 − 1/e.
    pub cutoff: Estimate,
}

/// f_{s+1} = a f_s − b f_s²
#[derive(Clone, Copy, Debug)]
pub struct ReturnMap {
    /// a: 2 for a Newton iteration.
    pub a: Estimate,
    /// b: 1 for a Newton iteration.
    pub b: Estimate,
    /// r of f_{s+1} = 1 − (1−f_s)^r.
    pub order: Estimate,
}

/// Means over the steps that have a shape and over those that have a map.
#[derive(Clone, Copy, Debug)]
pub struct Overall {
    /// p of the shapes.
    pub exponent: Estimate,
    /// a of the maps.
    pub a: Estimate,
    /// b of the maps.
    pub b: Estimate,
    /// log₂ of the order: Newton iterations that a step is worth.
    pub iterations: Estimate,
}

impl Fingerprint {
    /// Asks a learner and takes its fingerprint.
    pub fn of(learner: &dyn Learner, steps: &Steps, asked: &Asked, options: &Options) -> Result<Fingerprint> {
        let answers = asked.ask(learner, steps)?;
        Fingerprint::from_answers(learner, &answers, asked, options)
    }

    /// Takes the fingerprint of answers that `learner` gave.
    pub fn from_answers(
        learner: &dyn Learner,
        answers: &Answers,
        asked: &Asked,
        options: &Options,
    ) -> Result<Fingerprint> {
        let per_length = (0..asked.lengths.len()).map(|l| AfterPairs::of(asked, answers, l, options));
        Ok(Fingerprint {
            learner: learner.id(),
            unit: learner.unit(),
            steps: answers.steps.clone(),
            prompts: asked.prompts(),
            lengths: per_length.collect::<Result<_>>()?,
        })
    }

    /// The part of it after `pairs` pairs.
    pub fn after(&self, pairs: usize) -> Option<&AfterPairs> {
        self.lengths.iter().find(|after| after.pairs == pairs)
    }
}

impl AfterPairs {
    /// The filter after recorded step number `s`, without intervals.
    pub fn filter(&self, s: usize) -> Vec<f64> {
        self.filters[s].iter().map(|f| f.value).collect()
    }
}

#[cfg(test)]
mod tests;
