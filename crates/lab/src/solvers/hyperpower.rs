//! Hyperpower iterations for the inverse: p terms of the Neumann series of the residual at each step.
//!
//! With R = I − SM, the inverse is M(I + R + R² + …). Two terms are Newton–Schulz, three are Chebyshev's method on
//! 1/x − λ (Altman 1960), four are two Newton steps in one. The residual becomes R^p. Halley's method on 1/x − λ has no
//! row: it is exact on Möbius functions, M ← M(I − R)⁻¹ = S⁻¹, so its first step asks for the inverse that it is to find.

use super::classical::Classical;
use super::inverse::{ALPHA, ETA, START, Start, scaled_identity};
use super::iterative::{Filter, Form, Iterative, Solver};
use super::problem::Problem;
use super::{LAMBDA, Properties, SolverRow, form};
use crate::learners::steps::Steps;
use crate::linalg::{Eigenvalues, matmul, symmetric_matvec};
use crate::registry::Setting;

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "hyperpower",
    summary: "M ← M(I + R + … + R^(p−1)) with R = I − SM, of order p, and w = Mc",
    cite: "Altman 1960; Petryshyn 1967",
    settings: &[
        Setting {
            name: "order",
            default: "3",
            help: "p from 2 to 9: 2 is Newton–Schulz, 3 or 'chebyshev' is Chebyshev's method, 4 two Newton steps in one",
        },
        START,
        ALPHA,
        ETA,
        LAMBDA,
        form("iterated"),
    ],
    properties: Properties { exact_after: Some(16), closed_form: true, ..Properties::of("hyperpower") },
    build: |settings| {
        let order = match settings.text("order") {
            "chebyshev" => 3,
            _ => settings.whole("order", 2, 9)?,
        };
        let solver = Hyperpower { order, start: Start::read(settings)? };
        let algorithm = Iterative { solver, form: settings.choice("form", Form::CHOICES)? };
        let lambda = settings.number("lambda", 0.0, f64::MAX)?;
        Ok(Classical::iterative(settings, lambda, Steps::range(0, 16), algorithm))
    },
};

struct Hyperpower {
    order: usize,
    start: Start,
}

struct State {
    m: Vec<f64>,
    residual: Vec<f64>,
    series: Vec<f64>,
    scratch: Vec<f64>,
}

impl Solver for Hyperpower {
    type State = State;

    /// M₀ = αS or ηI
    fn start(&self, problem: &Problem) -> State {
        let zero = vec![0.0; problem.s.len()];
        State { m: self.start.matrix(problem), residual: zero.clone(), series: zero.clone(), scratch: zero }
    }

    fn step(&self, problem: &Problem, State { m, residual, series, scratch }: &mut State) {
        let d = problem.dim;
        // R = I − S M
        matmul(problem.s, m, scratch, d);
        *residual = scaled_identity(1.0, d);
        residual.iter_mut().zip(scratch.iter()).for_each(|(r, sm)| *r -= sm);
        // I + R(I + R(I + …)), p terms
        *series = scaled_identity(1.0, d);
        for _ in 1..self.order {
            matmul(residual, series, scratch, d);
            scratch.iter_mut().step_by(d + 1).for_each(|v| *v += 1.0);
            std::mem::swap(series, scratch);
        }
        // M ← M (I + R + … + R^{p−1})
        matmul(m, series, scratch, d);
        std::mem::swap(m, scratch);
    }

    /// w = M c
    fn weights(&self, problem: &Problem, state: &State, w: &mut [f64]) {
        symmetric_matvec(&state.m, problem.c, w);
    }

    /// The residual is raised to the power p at each step.
    fn filter(&self, problem: &Problem, _: &Eigenvalues) -> Option<Filter> {
        Some(self.start.residual_to_the(self.order, problem))
    }

    fn polynomial(&self) -> bool {
        true
    }
}
