//! Chebyshev's semi-iteration: the best polynomial method when only the ends of the spectrum are known.

use super::classical::Classical;
use super::iterative::{Iterative, Solver};
use super::problem::Problem;
use super::{LAMBDA, Properties, SolverRow};
use crate::learners::steps::Steps;
use crate::linalg::{axpy, symmetric_matvec};

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "chebyshev",
    summary: "Chebyshev semi-iteration on the interval [λmin, λmax] of S's positive eigenvalues",
    cite: "Golub and Varga 1961",
    settings: &[LAMBDA],
    properties: Properties { exact_after: Some(2000), ..Properties::of("Chebyshev") },
    build: |settings| {
        let lambda = settings.number("lambda", 0.0, f64::MAX)?;
        Ok(Classical::iterative(settings, lambda, Steps::powers_of_two(0, 10), Iterative::new(Chebyshev)))
    },
};

struct Chebyshev;

struct State {
    centre: f64,
    half_width: f64,
    rho: f64,
    first: bool,
    w: Vec<f64>,
    direction: Vec<f64>,
    residual: Vec<f64>,
}

impl Solver for Chebyshev {
    type State = State;

    fn start(&self, problem: &Problem) -> State {
        let values = problem.eigenvalues();
        let (high, low) = (values.largest(), values.smallest_positive());
        let zero = vec![0.0; problem.dim];
        State {
            centre: (high + low) / 2.0,
            half_width: (high - low) / 2.0,
            rho: 0.0,
            first: true,
            w: zero.clone(),
            direction: zero,
            residual: problem.c.to_vec(),
        }
    }

    fn step(&self, problem: &Problem, state: &mut State) {
        let State { centre, half_width, rho, first, w, direction, residual } = state;
        if *centre <= 0.0 {
            return; // nothing has been read
        }
        let ratio = *half_width / *centre;
        if *first {
            *rho = ratio;
            direction.iter_mut().zip(residual.iter()).for_each(|(p, r)| *p = r / *centre);
            *first = false;
        } else {
            let next = if ratio == 0.0 { 0.0 } else { 1.0 / (2.0 / ratio - *rho) };
            let gain = if *half_width == 0.0 { 1.0 / *centre } else { 2.0 * next / *half_width };
            for (p, r) in direction.iter_mut().zip(residual.iter()) {
                *p = next * *rho * *p + gain * r;
            }
            *rho = next;
        }
        axpy(1.0, direction, w);
        symmetric_matvec(problem.s, w, residual);
        residual.iter_mut().zip(problem.c).for_each(|(r, c)| *r = c - *r);
    }

    fn weights(&self, _: &Problem, state: &State, w: &mut [f64]) {
        w.copy_from_slice(&state.w);
    }
}
