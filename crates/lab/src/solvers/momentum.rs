//! First-order methods with memory: Polyak's heavy ball and Nesterov's accelerated gradient.

use super::classical::Classical;
use super::iterative::{Iterative, Solver};
use super::problem::Problem;
use super::{LAMBDA, Properties, SolverRow};
use crate::error::Result;
use crate::learners::Learner;
use crate::learners::steps::Steps;
use crate::linalg::{axpy, symmetric_matvec};
use crate::registry::{Setting, Settings};

const SETTINGS: &[Setting] = &[
    Setting {
        name: "eta",
        default: "optimal",
        help: "step size: a number, or 'optimal' for the spectrum of S",
    },
    Setting {
        name: "beta",
        default: "optimal",
        help: "momentum in [0,1), or 'optimal' for the spectrum of S",
    },
    LAMBDA,
];

/// Registry row.
pub const HEAVY_BALL: SolverRow = SolverRow {
    name: "heavy-ball",
    summary: "gradient descent with Polyak's momentum",
    cite: "Polyak 1964",
    settings: SETTINGS,
    properties: Properties { exact_after: Some(2000), ..Properties::of("heavy ball") },
    build: |settings| build(settings, Kind::HeavyBall),
};

/// Registry row.
pub const NESTEROV: SolverRow = SolverRow {
    name: "nesterov",
    summary: "Nesterov's accelerated gradient",
    cite: "Nesterov 1983",
    settings: SETTINGS,
    properties: Properties { exact_after: Some(2000), ..Properties::of("Nesterov") },
    build: |settings| build(settings, Kind::Nesterov),
};

#[derive(Clone, Copy)]
enum Kind {
    HeavyBall,
    Nesterov,
}

struct Momentum {
    kind: Kind,
    eta: Option<f64>,
    beta: Option<f64>,
}

fn build(settings: &Settings, kind: Kind) -> Result<Box<dyn Learner>> {
    let read = |name: &str, low: f64, high: f64| match settings.text(name) {
        "optimal" => Ok(None),
        _ => settings.number(name, low, high).map(Some),
    };
    let solver =
        Momentum { kind, eta: read("eta", 1e-300, f64::MAX)?, beta: read("beta", 0.0, 0.999_999_999)? };
    let lambda = settings.number("lambda", 0.0, f64::MAX)?;
    Ok(Classical::iterative(settings, lambda, Steps::powers_of_two(0, 10), Iterative::new(solver)))
}

struct State {
    eta: f64,
    beta: f64,
    w: Vec<f64>,
    velocity: Vec<f64>,
    gradient: Vec<f64>,
    ahead: Vec<f64>,
}

impl Solver for Momentum {
    type State = State;

    fn start(&self, problem: &Problem) -> State {
        let values = problem.eigenvalues();
        let (high, low) = (values.largest().max(f64::MIN_POSITIVE), values.smallest_positive());
        let (root_high, root_low) = (high.sqrt(), low.sqrt());
        // The classical optimal parameters for eigenvalues in [low, high].
        let (eta, beta) = match self.kind {
            Kind::HeavyBall => (
                4.0 / (root_high + root_low).powi(2),
                ((root_high - root_low) / (root_high + root_low)).powi(2),
            ),
            Kind::Nesterov => (1.0 / high, (root_high - root_low) / (root_high + root_low)),
        };
        let zero = vec![0.0; problem.dim];
        State {
            eta: self.eta.unwrap_or(if low > 0.0 { eta } else { 0.0 }),
            beta: self.beta.unwrap_or(beta),
            w: zero.clone(),
            velocity: zero.clone(),
            gradient: zero.clone(),
            ahead: zero,
        }
    }

    fn step(&self, problem: &Problem, State { eta, beta, w, velocity, gradient, ahead }: &mut State) {
        // Heavy ball takes the gradient where it is, Nesterov where its momentum will carry it.
        ahead.copy_from_slice(w);
        if let Kind::Nesterov = self.kind {
            axpy(*beta, velocity, ahead);
        }
        symmetric_matvec(problem.s, ahead, gradient);
        axpy(-1.0, problem.c, gradient);
        for (v, g) in velocity.iter_mut().zip(gradient.iter()) {
            *v = *beta * *v - *eta * g;
        }
        axpy(1.0, velocity, w);
    }

    fn weights(&self, _: &Problem, state: &State, w: &mut [f64]) {
        w.copy_from_slice(&state.w);
    }
}
