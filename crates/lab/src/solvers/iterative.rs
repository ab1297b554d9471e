//! Algorithms that improve a weight vector step by step.

use super::classical::{Classical, InContext};
use super::problem::Problem;
use crate::learners::Unit;
use crate::learners::steps::Steps;
use crate::linalg::{Spectrum, dot};
use crate::registry::Id;

/// The update as on paper and nothing else; [`Iterative`] makes a learner of it.
///
/// ```
/// use lab::linalg::{axpy, dot};
/// use lab::prelude::*;
///
/// /// Moves to the plane of the newest pair, again and again.
/// struct Newest;
///
/// impl Solver for Newest {
///     type State = Vec<f64>;
///
///     fn start(&self, problem: &Problem) -> Vec<f64> {
///         vec![0.0; problem.dim]
///     }
///
///     fn step(&self, problem: &Problem, w: &mut Vec<f64>) {
///         if let Some((x, y)) = problem.pairs().last() {
///             axpy((y - dot(w, x)) / dot(x, x), x, w);
///         }
///     }
///
///     fn weights(&self, _: &Problem, state: &Vec<f64>, w: &mut [f64]) {
///         w.copy_from_slice(state);
///     }
/// }
///
/// let newest = Iterative::new(Newest).learner("newest", Steps::range(0, 3));
/// let prompts = Task::new("linear", "gaussian", 4, 9)?.sample(Seed(0), "eval", 0, 8);
/// assert_eq!(newest.trajectory(&prompts, &newest.default_steps())?.values.dim(), (4, 8, 9));
/// # Ok::<(), lab::Error>(())
/// ```
pub trait Solver: Send + Sync {
    /// What it remembers between steps.
    type State;

    /// The state before the first step.
    fn start(&self, problem: &Problem) -> Self::State;

    /// One step.
    fn step(&self, problem: &Problem, state: &mut Self::State);

    /// The weights `[d]` that the state stands for.
    fn weights(&self, problem: &Problem, state: &Self::State, w: &mut [f64]);

    /// Its closed form, if it has one.
    fn filter(&self, _problem: &Problem, _spectrum: &Spectrum) -> Option<Filter> {
        None
    }
}

/// w_k = Σ f(λᵢ, k) vᵢvᵢᵀ c: what a method of polynomials in S does to each eigen-direction.
pub type Filter = Box<dyn Fn(f64, u64) -> f64>;

/// How an algorithm's steps are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By the recurrence.
    Iterated,
    /// Through the spectrum of S.
    Closed,
}

impl Form {
    /// By their names in settings.
    pub const CHOICES: &'static [(&'static str, Form)] =
        &[("iterated", Form::Iterated), ("closed", Form::Closed)];
}

/// Runs a solver and answers with its weights.
pub struct Iterative<S> {
    /// The update.
    pub solver: S,
    /// How its steps are computed.
    pub form: Form,
}

impl<S: Solver> Iterative<S> {
    /// By the recurrence.
    pub fn new(solver: S) -> Self {
        Iterative { solver, form: Form::Iterated }
    }

    /// As a learner of that name, with the steps to look at when nobody says which.
    pub fn learner(self, name: &str, default_steps: Steps) -> Classical<Self> {
        Classical {
            id: Id { name: name.into(), given: Default::default() },
            unit: Unit::Iteration,
            lambda: 0.0,
            default_steps,
            single_step: false,
            algorithm: self,
        }
    }

    /// Calls `record(s, w)` with the weights after each of `steps`.
    fn weights(&self, problem: &Problem, steps: &Steps, mut record: impl FnMut(usize, &[f64])) {
        let mut w = vec![0.0; problem.dim];
        if self.form == Form::Closed {
            let spectrum = problem.spectrum();
            if let Some(filter) = self.solver.filter(problem, &spectrum) {
                let directions = spectrum.vectors.chunks_exact(problem.dim);
                let components: Vec<f64> = directions.clone().map(|v| dot(v, problem.c)).collect();
                for (s, &step) in steps.as_slice().iter().enumerate() {
                    w.fill(0.0);
                    for ((v, value), component) in directions.clone().zip(&spectrum.values).zip(&components) {
                        crate::linalg::axpy(filter(value.max(0.0), step) * component, v, &mut w);
                    }
                    record(s, &w);
                }
                return;
            }
        }
        let mut state = self.solver.start(problem);
        let mut done = 0;
        for (s, &step) in steps.as_slice().iter().enumerate() {
            (done..step).for_each(|_| self.solver.step(problem, &mut state));
            done = step;
            self.solver.weights(problem, &state, &mut w);
            record(s, &w);
        }
    }
}

impl<S: Solver> InContext for Iterative<S> {
    fn answer(&self, problem: &Problem, queries: &[f64], steps: &Steps, answers: &mut [f64]) {
        let asked = queries.len() / problem.dim;
        self.weights(problem, steps, |s, w| {
            for (answer, x) in answers[s * asked..].iter_mut().zip(queries.chunks_exact(problem.dim)) {
                *answer = dot(w, x);
            }
        });
    }

    fn filter(&self, problem: &Problem, spectrum: &Spectrum) -> Option<Filter> {
        self.solver.filter(problem, spectrum)
    }
}
