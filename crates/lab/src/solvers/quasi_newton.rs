//! BFGS and DFP: a full d×d approximation B of the inverse Hessian, from B = I.

use super::classical::Classical;
use super::iterative::{Iterative, Solver};
use super::line_search::{self, Descent, LineSearch};
use super::problem::Problem;
use super::{LAMBDA, Properties, SolverRow};
use crate::error::Result;
use crate::learners::Learner;
use crate::learners::steps::Steps;
use crate::linalg::{dot, symmetric_matvec, vectorised};
use crate::registry::{Setting, Settings};

const SETTINGS: &[Setting] = &[line_search::SETTING, LAMBDA];

/// Registry row.
pub const BFGS: SolverRow = SolverRow {
    name: "bfgs",
    summary: "BFGS quasi-Newton with a named line search",
    cite: "Broyden, Fletcher, Goldfarb, Shanno 1970",
    settings: SETTINGS,
    properties: Properties { exact_after: Some(120), ..Properties::of("BFGS") },
    build: |settings| build(settings, Update::Bfgs),
};

/// Registry row.
pub const DFP: SolverRow = SolverRow {
    name: "dfp",
    summary: "DFP quasi-Newton, the update that the paper prints under the name BFGS (erratum E4)",
    cite: "Davidon 1959; Fletcher and Powell 1963",
    settings: SETTINGS,
    properties: Properties { exact_after: Some(120), ..Properties::of("DFP") },
    build: |settings| build(settings, Update::Dfp),
};

#[derive(Clone, Copy)]
enum Update {
    Bfgs,
    Dfp,
}

struct QuasiNewton {
    update: Update,
    search: LineSearch,
}

fn build(settings: &Settings, update: Update) -> Result<Box<dyn Learner>> {
    let solver = QuasiNewton { update, search: LineSearch::read(settings)? };
    let lambda = settings.number("lambda", 0.0, f64::MAX)?;
    Ok(Classical::iterative(settings, lambda, Steps::range(0, 25), Iterative::new(solver)))
}

struct State {
    descent: Descent,
    b: Vec<f64>,
    by: Vec<f64>,
}

impl Solver for QuasiNewton {
    type State = State;

    fn start(&self, problem: &Problem) -> State {
        let mut b = vec![0.0; problem.dim * problem.dim];
        b.iter_mut().step_by(problem.dim + 1).for_each(|v| *v = 1.0);
        State { descent: Descent::new(problem), b, by: vec![0.0; problem.dim] }
    }

    fn step(&self, problem: &Problem, State { descent, b, by }: &mut State) {
        if descent.converged() {
            return;
        }
        symmetric_matvec(b, &descent.gradient, &mut descent.direction);
        descent.direction.iter_mut().for_each(|p| *p = -*p);
        let sy = descent.advance(problem, self.search);
        if sy <= 0.0 {
            return;
        }
        let (s, y) = (&descent.moved, &descent.change);
        symmetric_matvec(b, y, by);
        let yby = dot(y, by);
        match self.update {
            // (I − syᵀ/sᵀy) B (I − ysᵀ/sᵀy) + ssᵀ/sᵀy, multiplied out
            Update::Bfgs => add_two_outer(b, s, by, |s, by| (((1.0 + yby / sy) * s - by) / sy, -s / sy)),
            // B − Byyᵀ B/yᵀBy + ssᵀ/sᵀy
            Update::Dfp => add_two_outer(b, s, by, |s, by| (s / sy, -by / yby)),
        }
    }

    fn weights(&self, _: &Problem, state: &State, w: &mut [f64]) {
        w.copy_from_slice(&state.descent.w);
    }
}

/// Row i of `b` gains as + c(By), with (a, c) = `scales`(sᵢ, (By)ᵢ).
fn add_two_outer(b: &mut [f64], s: &[f64], by: &[f64], scales: impl Fn(f64, f64) -> (f64, f64)) {
    vectorised(
        #[inline(always)]
        || {
            for ((row, si), byi) in b.chunks_exact_mut(s.len()).zip(s).zip(by) {
                let (a, c) = scales(*si, *byi);
                row.iter_mut().zip(s).zip(by).for_each(|((b, s), by)| *b += a * s + c * by);
            }
        },
    );
}
