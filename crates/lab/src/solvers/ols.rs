//! Least squares: S⁺c of minimum norm, and ridge (S + λI)⁻¹c.

use super::classical::{Classical, InContext};
use super::problem::Problem;
use super::{Properties, SolverRow};
use crate::learners::steps::Steps;
use crate::linalg::{dot, least_squares, solve_positive_definite};
use crate::registry::Setting;

/// Registry row.
pub const OLS: SolverRow = SolverRow {
    name: "ols",
    summary: "ordinary least squares S⁺c, the solution of minimum norm",
    cite: "Moore 1920; Penrose 1955",
    settings: &[],
    properties: Properties { exact_after: Some(1), ..Properties::of("OLS") },
    build: |settings| Ok(Classical::direct(settings, 0.0, Ols)),
};

/// Registry row.
pub const RIDGE: SolverRow = SolverRow {
    name: "ridge",
    summary: "ridge regression (S + λI)⁻¹c",
    cite: "Hoerl and Kennard 1970",
    settings: &[Setting { name: "lambda", default: "0.01", help: "λ > 0; σ² for labels with noise σ" }],
    properties: Properties::of("ridge"),
    build: |settings| Ok(Classical::direct(settings, settings.number("lambda", 1e-300, f64::MAX)?, Ridge)),
};

struct Ols;

impl InContext for Ols {
    fn answer(&self, problem: &Problem, queries: &[f64], _: &Steps, answers: &mut [f64]) {
        answer_with(&least_squares(problem.xs, problem.ys, problem.dim), queries, answers);
    }
}

struct Ridge;

impl InContext for Ridge {
    fn answer(&self, problem: &Problem, queries: &[f64], _: &Steps, answers: &mut [f64]) {
        let w = solve_positive_definite(problem.s, problem.c).unwrap_or_else(|| vec![f64::NAN; problem.dim]);
        answer_with(&w, queries, answers);
    }
}

/// answers`[q]` = wᵀ queries`[q]`
pub(super) fn answer_with(w: &[f64], queries: &[f64], answers: &mut [f64]) {
    answers.iter_mut().zip(queries.chunks_exact(w.len())).for_each(|(answer, x)| *answer = dot(w, x));
}
