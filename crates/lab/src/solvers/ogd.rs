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
        help: "w before the first pair: 0; a seed (a whole number from 1) for w ~ N(0, I) per prompt; uniform: w ~ U[0,1)/√d per prompt, as in the authors' code",
    }],
    properties: Properties { exact_after: Some(20_000), ..Properties::of("online GD") },
    build: |settings| {
        let start = match (settings.text("start"), settings.whole("start", 0, usize::MAX)) {
            ("uniform", _) => Start::Uniform,
            (_, Ok(0)) => Start::Zero,
            (_, Ok(seed)) => Start::Normal(Seed(seed as u64)),
            _ => return Err(settings.reject("start", "a whole number from 0 on, or uniform")),
        };
        Ok(Box::new(Classical {
            id: settings.id(),
            unit: Unit::Pass,
            lambda: 0.0,
            default_steps: Steps::single(1),
            single_step: false,
            algorithm: Iterative::new(Ogd { start }),
        }))
    },
};

struct Ogd {
    start: Start,
}

/// The weights before the first pair.
enum Start {
    Zero,
    Normal(Seed),
    /// U[0,1)/√d.
    Uniform,
}

impl Solver for Ogd {
    type State = Vec<f64>;

    fn start(&self, problem: &Problem) -> Vec<f64> {
        let draws = |seed: Seed| seed.at("ogd/start", problem.prompt as u64);
        match self.start {
            Start::Zero => vec![0.0; problem.dim],
            Start::Normal(seed) => draws(seed).normals(problem.dim),
            Start::Uniform => {
                let (mut draws, scale) = (draws(Seed(0)), 1.0 / (problem.dim as f64).sqrt());
                (0..problem.dim).map(|_| draws.uniform() * scale).collect()
            }
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
