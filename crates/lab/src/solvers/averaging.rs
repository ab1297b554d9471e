//! The averaging baseline: w = Xᵀy/t, one gradient step from zero.

use super::classical::{Classical, InContext};
use super::ols::answer_with;
use super::problem::Problem;
use super::{Properties, SolverRow};
use crate::learners::steps::Steps;

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "averaging",
    summary: "w = Xᵀy/t, the mean of yᵢxᵢ",
    cite: "Garg et al. 2022",
    settings: &[],
    properties: Properties::of("averaging"),
    build: |settings| Ok(Classical::direct(settings, 0.0, Averaging)),
};

struct Averaging;

impl InContext for Averaging {
    fn answer(&self, problem: &Problem, queries: &[f64], _: &Steps, answers: &mut [f64]) {
        let t = problem.read().max(1) as f64;
        let w: Vec<f64> = problem.c.iter().map(|c| c / t).collect();
        answer_with(&w, queries, answers);
    }
}
