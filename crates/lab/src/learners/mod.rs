//! Learners and their trajectories: the heart of the lab.

pub mod planned;
pub mod recorded;
mod resolve;
pub mod steps;
pub mod task;

pub use resolve::{Resolved, build, build_for, resolve};

use std::fmt;

use ndarray::{Array2, Array3, Array4, ArrayView3};
use serde::{Deserialize, Serialize};

use crate::data::prompts::{Prompts, Questions};
use crate::error::{Error, Result};
use crate::learners::steps::Steps;
use crate::linalg::Eigenvalues;
use crate::registry::Id;
use crate::solvers::{Filter, Problem};

/// What one step of a learner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// One iteration of an algorithm.
    Iteration,
    /// One pass over the pairs read so far.
    Pass,
    /// One layer of a network.
    Layer,
    /// Whatever the maker of a file of predictions counted.
    Step,
}

impl Unit {
    /// One of them: `layer`.
    pub fn one(self) -> &'static str {
        match self {
            Unit::Iteration => "iteration",
            Unit::Pass => "pass",
            Unit::Layer => "layer",
            Unit::Step => "step",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Iteration => "iterations",
            Unit::Pass => "passes",
            Unit::Layer => "layers",
            Unit::Step => "steps",
        })
    }
}

/// Anything that reads prompts and predicts, step by step. Algorithms ([`crate::solvers`]), constructed and trained networks
/// and recorded predictions are learners; [`build`] makes one of a name.
///
/// ```
/// use lab::prelude::*;
///
/// let prompts = Task::new("linear", "gaussian", 5, 16)?.sample(Seed(0), "eval", 0, 64);
/// let newton = lab::learners::build("newton", &|_| ())?.learner;
/// let found = newton.trajectory(&prompts, &Steps::parse("0,5,20")?)?;
/// let error = |step| found.squared_errors(&prompts, step, 15).iter().sum::<f64>();
/// assert!(error(20) < 1e-3 * error(5) && error(5) < error(0)); // after all fifteen pairs
/// # Ok::<(), Error>(())
/// ```
pub trait Learner: Send + Sync {
    /// Name and settings: keys caches and legends.
    fn id(&self) -> Id;

    /// What a step is.
    fn unit(&self) -> Unit;

    /// The steps to look at when nobody says which.
    fn default_steps(&self) -> Steps;

    /// Predictions at every position of every prompt, after each of `steps`.
    fn trajectory(&self, prompts: &Prompts, steps: &Steps) -> Result<Trajectory>;

    /// Answers `[s, b, l, q]` to query `q` of prompt `b` after its first `lengths[l]` pairs, after each of `steps`.
    fn answers(&self, questions: &Questions, steps: &Steps) -> Result<Array4<f64>>;

    /// What it does to each eigen-direction of S, where it has such a closed form: w_k = Σ f(λᵢ, k) vᵢvᵢᵀ c.
    fn filter(&self, _problem: &Problem, _values: &Eigenvalues) -> Option<Filter> {
        None
    }

    /// How many prompts its predictions were recorded for, where it cannot be asked anything else.
    fn recorded_prompts(&self) -> Option<usize> {
        None
    }
}

/// Predictions of a learner along its steps.
#[derive(Clone, Debug)]
pub struct Trajectory {
    /// Whose.
    pub learner: Id,
    /// What a step is.
    pub unit: Unit,
    /// The steps that were recorded.
    pub steps: Steps,
    /// `values[s,b,t]` predicts `ys[b,t]` from the t pairs before it, after `steps[s]` steps.
    pub values: Array3<f64>,
    /// What happened at each recorded step.
    pub outcomes: Vec<Outcome>,
}

/// The same wherever the numbers lie, such as in an array of another program.
#[derive(Clone, Copy, Debug)]
pub struct Predictions<'a> {
    /// Whose.
    pub learner: &'a Id,
    /// What a step is.
    pub unit: Unit,
    /// The steps that were recorded.
    pub steps: &'a Steps,
    /// As [`Trajectory::values`].
    pub values: ArrayView3<'a, f64>,
}

impl Predictions<'_> {
    /// The same for a shorter time.
    pub fn view(&self) -> Predictions<'_> {
        Predictions { values: self.values.view(), ..*self }
    }
}

impl<'a> From<&'a Trajectory> for Predictions<'a> {
    fn from(t: &'a Trajectory) -> Predictions<'a> {
        Predictions { learner: &t.learner, unit: t.unit, steps: &t.steps, values: t.values.view() }
    }
}

/// What happened at one step, over all prompts. Divergence is data, not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Prompts with at least one prediction that is not finite, or a million times larger than any label.
    pub diverged: usize,
}

impl Trajectory {
    /// Wraps predictions `[s,b,t]` made for `prompts`, and notes where they diverged.
    pub fn new(
        learner: Id,
        unit: Unit,
        steps: Steps,
        values: Array3<f64>,
        prompts: &Prompts,
    ) -> Result<Trajectory> {
        let expected = (steps.len(), prompts.count(), prompts.points());
        if values.dim() != expected {
            return Err(Error::BadData(format!(
                "predictions of {learner} have shape {:?}; accepted: [steps, prompts, points] = {expected:?}",
                values.dim()
            )));
        }
        let largest = prompts.ys.iter().fold(0.0_f64, |m, y| m.max(y.abs()));
        let wild = |v: &f64| !v.is_finite() || v.abs() > 1e6 * largest;
        let outcomes = values
            .outer_iter()
            .map(|step| Outcome {
                diverged: step.rows().into_iter().filter(|row| row.iter().any(wild)).count(),
            })
            .collect();
        Ok(Trajectory { learner, unit, steps, values, outcomes })
    }

    /// Errors `[b,t]` at recorded step number `s`: prediction − label.
    pub fn errors(&self, prompts: &Prompts, s: usize) -> Array2<f64> {
        &self.values.index_axis(ndarray::Axis(0), s) - &prompts.ys
    }

    /// Squared errors at step `step` after `t` pairs, one per prompt.
    ///
    /// # Panics
    /// If the step was not recorded.
    pub fn squared_errors(&self, prompts: &Prompts, step: u64, t: usize) -> Vec<f64> {
        let s = self.steps.position(step).unwrap_or_else(|| panic!("step {step} was not recorded"));
        (0..prompts.count()).map(|b| (self.values[[s, b, t]] - prompts.ys[[b, t]]).powi(2)).collect()
    }
}
