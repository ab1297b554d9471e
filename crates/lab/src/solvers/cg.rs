//! Conjugate gradient on Sw = c.

use super::classical::Classical;
use super::iterative::{Iterative, Solver};
use super::problem::Problem;
use super::{LAMBDA, Properties, SolverRow};
use crate::learners::steps::Steps;
use crate::linalg::{axpy, dot, symmetric_matvec};

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "cg",
    summary: "conjugate gradient on Sw = c",
    cite: "Hestenes and Stiefel 1952",
    settings: &[LAMBDA],
    properties: Properties { exact_after: Some(40), ..Properties::of("CG") },
    build: |settings| {
        let lambda = settings.number("lambda", 0.0, f64::MAX)?;
        Ok(Classical::iterative(settings, lambda, Steps::range(0, 25), Iterative::new(Cg)))
    },
};

struct Cg;

struct State {
    w: Vec<f64>,
    residual: Vec<f64>,
    direction: Vec<f64>,
    image: Vec<f64>,
    /// Below this squared residual there is nothing left but round-off.
    done: f64,
}

impl Solver for Cg {
    type State = State;

    fn start(&self, problem: &Problem) -> State {
        let zero = vec![0.0; problem.dim];
        State {
            w: zero.clone(),
            residual: problem.c.to_vec(),
            direction: problem.c.to_vec(),
            image: zero,
            done: dot(problem.c, problem.c) * 1e-30,
        }
    }

    fn step(&self, problem: &Problem, State { w, residual, direction, image, done }: &mut State) {
        let power = dot(residual, residual);
        if power <= *done {
            return;
        }
        symmetric_matvec(problem.s, direction, image);
        let alpha = power / dot(direction, image);
        axpy(alpha, direction, w);
        axpy(-alpha, image, residual);
        let beta = dot(residual, residual) / power;
        direction.iter_mut().zip(residual.iter()).for_each(|(p, r)| *p = r + beta * *p);
    }

    fn weights(&self, _: &Problem, state: &State, w: &mut [f64]) {
        w.copy_from_slice(&state.w);
    }
}
