//! Algorithms that improve a weight vector step by step.

use super::classical::{Classical, InContext};
use super::problem::Problem;
use crate::learners::Unit;
use crate::learners::steps::Steps;
use crate::linalg::{Eigenvalues, axpy, dot, in_eigenbasis};
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
    fn filter(&self, _problem: &Problem, _values: &Eigenvalues) -> Option<Filter> {
        None
    }

    /// Whether its weights are p(S) c for polynomials p that follow from the eigenvalues of S which are not zero. It then reads
    /// S and c alone, and while pairs are fewer than dimensions it is given XXᵀ and y for them.
    fn polynomial(&self) -> bool {
        false
    }
}

/// What a method of polynomials in S does to each eigen-direction: w_k = Σ f(λᵢ, k) vᵢvᵢᵀ c. Called with eigenvalues, none of
/// them negative, and k, it writes f(λᵢ, k) for each.
pub type Filter = Box<dyn Fn(&[f64], u64, &mut [f64])>;

/// A filter by its formula for one eigenvalue.
pub fn pointwise(f: impl Fn(f64, u64) -> f64 + 'static) -> Filter {
    Box::new(move |values, k, out| out.iter_mut().zip(values).for_each(|(out, &value)| *out = f(value, k)))
}

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

    /// Answers through the eigenvalues of S; `false` if there is no such form.
    fn answer_closed(&self, problem: &Problem, queries: &[f64], steps: &Steps, answers: &mut [f64]) -> bool {
        let (d, asked) = (problem.dim, queries.len() / problem.dim);
        // rows vᵢᵀc, vᵢᵀx₁, vᵢᵀx₂, …
        let (values, components) = in_eigenbasis(problem.s, d, &[problem.c, queries].concat());
        let Some(filter) = self.solver.filter(problem, &values) else { return false };
        let values: Vec<f64> = values.iter().map(|v| v.max(0.0)).collect();
        let mut filtered = vec![0.0; d];
        for (&step, answers) in steps.as_slice().iter().zip(answers.chunks_exact_mut(asked)) {
            filter(&values, step, &mut filtered);
            answers.fill(0.0);
            for (f, row) in filtered.iter().zip(components.chunks_exact(1 + asked)) {
                axpy(f * row[0], &row[1..], answers);
            }
        }
        true
    }
}

impl<S: Solver> InContext for Iterative<S> {
    fn answer(&self, problem: &Problem, queries: &[f64], steps: &Steps, answers: &mut [f64]) {
        if self.form == Form::Closed && self.answer_closed(problem, queries, steps, answers) {
            return;
        }
        let (d, asked) = (problem.dim, queries.len() / problem.dim);
        let (mut state, mut w, mut done) = (self.solver.start(problem), vec![0.0; d], 0);
        for (&step, answers) in steps.as_slice().iter().zip(answers.chunks_exact_mut(asked)) {
            (done..step).for_each(|_| self.solver.step(problem, &mut state));
            done = step;
            self.solver.weights(problem, &state, &mut w);
            for (answer, x) in answers.iter_mut().zip(queries.chunks_exact(d)) {
                *answer = dot(&w, x);
            }
        }
    }

    fn filter(&self, problem: &Problem, values: &Eigenvalues) -> Option<Filter> {
        self.solver.filter(problem, values)
    }

    fn polynomial(&self) -> bool {
        self.solver.polynomial()
    }
}
