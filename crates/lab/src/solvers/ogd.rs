//! Online gradient descent: one look at each pair, in order, with zero error on the newest one.

use super::classical::Classical;
use super::iterative::{Iterative, Solver};
use super::problem::Problem;
use super::{Properties, SolverRow};
use crate::data::seed::Seed;
use crate::learners::Unit;
use crate::learners::steps::Steps;
use crate::linalg::{axpy, dot};
use crate::registry::Setting;

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "ogd",
    summary: "online gradient descent, η_k = 1/‖x_k‖²; step s makes s passes over the pairs (Kaczmarz sweeps)",
    cite: "Kaczmarz 1937; Zinkevich 2003",
    settings: &[Setting {
        name: "start",
        default: "0",
        help: "w before the first pair: 0, or a seed (a whole number from 1) for w ~ N(0, I) per prompt",
    }],
    properties: Properties { exact_after: Some(20_000), ..Properties::of("online GD") },
    build: |settings| {
        let seed = settings.whole("start", 0, usize::MAX)? as u64;
        Ok(Box::new(Classical {
            id: settings.id(),
            unit: Unit::Pass,
            lambda: 0.0,
            default_steps: Steps::single(1),
            single_step: false,
            algorithm: Iterative::new(Ogd { start: (seed > 0).then_some(Seed(seed)) }),
        }))
    },
};

struct Ogd {
    start: Option<Seed>,
}

impl Solver for Ogd {
    type State = Vec<f64>;

    fn start(&self, problem: &Problem) -> Vec<f64> {
        match self.start {
            None => vec![0.0; problem.dim],
            Some(seed) => seed.at("ogd/start", problem.prompt as u64).normals(problem.dim),
        }
    }

    fn step(&self, problem: &Problem, w: &mut Vec<f64>) {
        for (x, y) in problem.xs.chunks_exact(problem.dim).zip(problem.ys) {
            let power = dot(x, x);
            if power > 0.0 {
                axpy((y - dot(w, x)) / power, x, w);
            }
        }
    }

    fn weights(&self, _: &Problem, state: &Vec<f64>, w: &mut [f64]) {
        w.copy_from_slice(state);
    }
}
