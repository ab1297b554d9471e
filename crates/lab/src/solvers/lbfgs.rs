//! L-BFGS: BFGS that remembers the last m moves only, by the two-loop recursion.

use std::collections::VecDeque;

use super::classical::Classical;
use super::iterative::{Iterative, Solver};
use super::line_search::{self, Descent, LineSearch};
use super::problem::Problem;
use super::{LAMBDA, Properties, SolverRow};
use crate::learners::steps::Steps;
use crate::linalg::{axpy, dot};
use crate::registry::Setting;

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "lbfgs",
    summary: "limited-memory BFGS with a named line search",
    cite: "Nocedal 1980; Liu and Nocedal 1989",
    settings: &[
        Setting { name: "memory", default: "5", help: "moves remembered, 1 to 1000" },
        Setting {
            name: "scaling",
            default: "none",
            help: "first matrix of the recursion: none for I, as the paper; gamma for (sᵀy/yᵀy)I",
        },
        line_search::SETTING,
        LAMBDA,
    ],
    properties: Properties { exact_after: Some(400), ..Properties::of("L-BFGS") },
    build: |settings| {
        let solver = Lbfgs {
            memory: settings.whole("memory", 1, 1000)?,
            gamma: settings.choice("scaling", &[("none", false), ("gamma", true)])?,
            search: LineSearch::read(settings)?,
        };
        let lambda = settings.number("lambda", 0.0, f64::MAX)?;
        Ok(Classical::iterative(settings, lambda, Steps::range(0, 40), Iterative::new(solver)))
    },
};

struct Lbfgs {
    memory: usize,
    gamma: bool,
    search: LineSearch,
}

struct Move {
    s: Vec<f64>,
    y: Vec<f64>,
    sy: f64,
}

struct State {
    descent: Descent,
    moves: VecDeque<Move>,
}

impl Solver for Lbfgs {
    type State = State;

    fn start(&self, problem: &Problem) -> State {
        State { descent: Descent::new(problem), moves: VecDeque::with_capacity(self.memory) }
    }

    fn step(&self, problem: &Problem, State { descent, moves }: &mut State) {
        if descent.converged() {
            return;
        }
        let mut q = descent.gradient.clone();
        let mut a = vec![0.0; moves.len()];
        for (a, m) in a.iter_mut().zip(moves.iter()).rev() {
            *a = dot(&m.s, &q) / m.sy;
            axpy(-*a, &m.y, &mut q);
        }
        if let (true, Some(m)) = (self.gamma, moves.back()) {
            let gamma = m.sy / dot(&m.y, &m.y);
            q.iter_mut().for_each(|v| *v *= gamma);
        }
        for (a, m) in a.iter().zip(moves.iter()) {
            let b = dot(&m.y, &q) / m.sy;
            axpy(a - b, &m.s, &mut q);
        }
        descent.direction.iter_mut().zip(&q).for_each(|(p, q)| *p = -q);
        let sy = descent.advance(problem, self.search);
        if sy > 0.0 {
            if moves.len() == self.memory {
                moves.pop_front();
            }
            moves.push_back(Move { s: descent.moved.clone(), y: descent.change.clone(), sy });
        }
    }

    fn weights(&self, _: &Problem, state: &State, w: &mut [f64]) {
        w.copy_from_slice(&state.descent.w);
    }
}
