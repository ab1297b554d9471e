//! BFGS and DFP: a full d×d approximation B of the inverse Hessian, from B = I.

use super::classical::Classical;
use super::iterative::{Iterative, Solver};
use super::line_search::{self, Descent, LineSearch};
use super::problem::Problem;
use super::{LAMBDA, Properties, SolverRow};
use crate::error::Result;
use crate::learners::Learner;
use crate::learners::steps::Steps;
use crate::linalg::{axpy, dot, symmetric_matvec};
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
        for (i, row) in b.chunks_exact_mut(s.len()).enumerate() {
            match self.update {
                // (I − syᵀ/sᵀy) B (I − ysᵀ/sᵀy) + ssᵀ/sᵀy, multiplied out
                Update::Bfgs => {
                    axpy(((1.0 + yby / sy) * s[i] - by[i]) / sy, s, row);
                    axpy(-s[i] / sy, by, row);
                }
                // B − Byyᵀ B/yᵀBy + ssᵀ/sᵀy
                Update::Dfp => {
                    axpy(s[i] / sy, s, row);
                    axpy(-by[i] / yby, by, row);
                }
            }
        }
    }

    fn weights(&self, _: &Problem, state: &State, w: &mut [f64]) {
        w.copy_from_slice(&state.descent.w);
    }
}
