//! Newton's iteration for the inverse (Newton–Schulz): the paper's second-order method.

use super::classical::Classical;
use super::inverse::{ALPHA, ETA, START, Start};
use super::iterative::{Filter, Form, Iterative, Solver, pointwise};
use super::problem::Problem;
use super::{LAMBDA, Properties, SolverRow, form};
use crate::learners::steps::Steps;
use crate::linalg::{Eigenvalues, relaxed_newton_schulz, symmetric_matvec};
use crate::registry::Setting;

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "newton",
    summary: "Newton–Schulz M ← 2M − MSM from M = αS or ηI, with w = Mc",
    cite: "Schulz 1933; Ben-Israel 1965",
    settings: &[
        START,
        ALPHA,
        ETA,
        Setting {
            name: "a",
            default: "2",
            help: "relaxed iteration M ← aM − (a−1)MSM, a from 1 to 3: a small eigenvalue grows by a at each step, and the \
                   residual r becomes (2−a)r + (a−1)r², of second order at a = 2 alone",
        },
        LAMBDA,
        form("iterated"),
    ],
    properties: Properties { exact_after: Some(24), closed_form: true, ..Properties::of("Newton") },
    build: |settings| {
        let a = settings.number("a", 1.0, 3.0)?;
        let algorithm = Iterative {
            solver: Newton { start: Start::read(settings)?, a },
            form: settings.choice("form", Form::CHOICES)?,
        };
        let lambda = settings.number("lambda", 0.0, f64::MAX)?;
        Ok(Classical::iterative(settings, lambda, Steps::range(0, 24), algorithm))
    },
};

struct Newton {
    start: Start,
    a: f64,
}

struct State {
    m: Vec<f64>,
    scratch: Vec<f64>,
}

impl Solver for Newton {
    type State = State;

    /// M₀ = αS or ηI
    fn start(&self, problem: &Problem) -> State {
        State { m: self.start.matrix(problem), scratch: Vec::new() }
    }

    /// M ← a M − (a−1) M S M
    fn step(&self, problem: &Problem, State { m, scratch }: &mut State) {
        relaxed_newton_schulz(self.a, problem.s, m, scratch, problem.dim);
    }

    /// w = M c
    fn weights(&self, problem: &Problem, state: &State, w: &mut [f64]) {
        symmetric_matvec(&state.m, problem.c, w);
    }

    /// Newton squares the residual at each step; relaxed, the iteration runs on each eigenvalue by itself.
    fn filter(&self, problem: &Problem, _: &Eigenvalues) -> Option<Filter> {
        if self.a == 2.0 {
            return Some(self.start.residual_to_the(2, problem));
        }
        let (a, start) = (self.a, self.start.on_eigenvalues(problem));
        Some(pointwise(move |value, k| (0..k).fold(start(value), |m, _| a * m - (a - 1.0) * m * value * m)))
    }

    fn polynomial(&self) -> bool {
        true
    }
}

/// Coefficients β of M_k = Σ β_s S^s, by index s = 0…2^{k+1}−1, for a given α: the recurrence on polynomials.
pub fn moment_coefficients(alpha: f64, k: u32) -> Vec<f64> {
    let mut m = vec![0.0, alpha];
    for _ in 0..k {
        let mut next = vec![0.0; 2 * m.len()];
        m.iter().enumerate().for_each(|(i, b)| next[i] += 2.0 * b);
        for (i, a) in m.iter().enumerate() {
            m.iter().enumerate().for_each(|(j, b)| next[i + j + 1] -= a * b);
        }
        m = next;
    }
    m
}
