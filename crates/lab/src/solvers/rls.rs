//! Recursive least squares: the online second-order method. One rank-one update per pair, nothing looked at twice.

use super::classical::{Classical, InContext};
use super::ols::answer_with;
use super::problem::Problem;
use super::{Properties, SolverRow};
use crate::learners::steps::Steps;
use crate::linalg::{axpy, dot, symmetric_matvec};
use crate::registry::Setting;

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "rls",
    summary: "recursive least squares, P ← P − Pxxᵀ P/(1 + xᵀPx) from P = δI",
    cite: "Plackett 1950",
    settings: &[Setting {
        name: "delta", default: "1e6", help: "start P = δI; equals ridge with λ = 1/δ"
    }],
    properties: Properties::of("RLS"),
    build: |settings| {
        let delta = settings.number("delta", 1e-300, 1e300)?;
        Ok(Classical::direct(settings, 0.0, Rls { delta }))
    },
};

struct Rls {
    delta: f64,
}

impl InContext for Rls {
    fn answer(&self, problem: &Problem, queries: &[f64], _: &Steps, answers: &mut [f64]) {
        let d = problem.dim;
        let (mut w, mut p, mut px) = (vec![0.0; d], vec![0.0; d * d], vec![0.0; d]);
        p.iter_mut().step_by(d + 1).for_each(|v| *v = self.delta);
        for (x, y) in problem.xs.chunks_exact(d).zip(problem.ys) {
            symmetric_matvec(&p, x, &mut px);
            let gain = 1.0 / (1.0 + dot(x, &px));
            axpy(gain * (y - dot(&w, x)), &px, &mut w);
            p.chunks_exact_mut(d).zip(&px).for_each(|(row, &pi)| axpy(-gain * pi, &px, row));
        }
        answer_with(&w, queries, answers);
    }
}
