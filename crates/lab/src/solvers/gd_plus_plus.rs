//! GD++: gradient descent on inputs that are themselves transformed at each step, as trained linear Transformers do.
//!
//! A step descends on the residuals of the present inputs and takes every input, the query's too, to (I − γS)x:
//!
//! ```text
//! w ← w + η P c          P: product of the transformations so far, S = XᵀX and c = Xᵀr of the present inputs
//! c ← A (I − ηS) c       A = I − γS
//! P ← P A,  S ← A S A
//! ```
//!
//! An eigenvalue σ of S becomes σ(1 − γσ)², and the residual on it is multiplied by 1 − ησ. Their Transformers learn η and
//! γ; the schedule `polar` is ours. With η = 1/L, L ≥ λmax(S), and
//! γ = η/3 the largest eigenvalue becomes 4/9 L at most, so that η and γ may grow by 9/4: then X runs through the
//! Newton–Schulz iteration for its polar factor. Small ησ grow by 9/4 at each step, and near 1 the gap δ = 1 − ησ becomes
//! (3δ² + δ³)/4: log κ steps and then second order, with labels that no step but the gradient's has seen.

use super::classical::Classical;
use super::gd::StepSize;
use super::inverse::scaled_identity;
use super::iterative::{Filter, Form, Iterative, Solver, pointwise};
use super::problem::Problem;
use super::{LAMBDA, Properties, SolverRow, form};
use crate::learners::steps::Steps;
use crate::linalg::{Eigenvalues, axpy, matmul, symmetric_matvec};
use crate::registry::Setting;

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "gd++",
    summary: "gradient descent while inputs are transformed, x ← (I − γS)x at each step",
    cite: "von Oswald et al. 2023",
    settings: &[
        Setting {
            name: "eta",
            default: "fro",
            help: "step size at the first step: 'fro' for 1/‖S‖_F, 'lmax' for 1/λmax, 'optimal' for 2/(λmax+λmin), or a \
                   number",
        },
        Setting {
            name: "gamma",
            default: "polar",
            help: "'polar' for γ = η/3, both growing by 9/4 at each step: a second-order rate for η up to 1/λmax; or a \
                   number, γ and η the same at every step (0 is gradient descent)",
        },
        LAMBDA,
        form("iterated"),
    ],
    properties: Properties { exact_after: Some(24), closed_form: true, ..Properties::of("GD++") },
    build: |settings| {
        let gamma = match settings.text("gamma") {
            "polar" => Gamma::Polar,
            text => match text.parse::<f64>() {
                Ok(gamma) if gamma.is_finite() && gamma >= 0.0 => Gamma::Fixed(gamma),
                _ => return Err(settings.reject("gamma", "polar, a number of at least 0")),
            },
        };
        let solver = GdPlusPlus { eta: StepSize::read(settings)?, gamma };
        let algorithm = Iterative { solver, form: settings.choice("form", Form::CHOICES)? };
        let lambda = settings.number("lambda", 0.0, f64::MAX)?;
        Ok(Classical::iterative(settings, lambda, Steps::range(0, 24), algorithm))
    },
};

/// Policies for γ.
#[derive(Clone, Copy)]
enum Gamma {
    Polar,
    Fixed(f64),
}

/// (η, γ) of each step of the schedule `polar`, from the first η.
pub fn polar_schedule(eta: f64) -> impl Iterator<Item = (f64, f64)> {
    Gamma::Polar.schedule(eta)
}

impl Gamma {
    /// (η, γ) of each step.
    fn schedule(self, eta: f64) -> impl Iterator<Item = (f64, f64)> {
        let growth = if let Gamma::Polar = self { 9.0 / 4.0 } else { 1.0 };
        let gamma = move |eta| if let Gamma::Fixed(gamma) = self { gamma } else { eta / 3.0 };
        std::iter::successors(Some(eta), move |eta| Some(growth * eta)).map(move |eta| (eta, gamma(eta)))
    }
}

struct GdPlusPlus {
    eta: StepSize,
    gamma: Gamma,
}

struct State {
    schedule: Box<dyn Iterator<Item = (f64, f64)>>,
    /// S and c of the transformed inputs and their residuals.
    s: Vec<f64>,
    c: Vec<f64>,
    /// P: takes an input to what it has become.
    p: Vec<f64>,
    w: Vec<f64>,
}

impl Solver for GdPlusPlus {
    type State = State;

    fn start(&self, problem: &Problem) -> State {
        State {
            schedule: Box::new(self.gamma.schedule(self.eta.of(problem, None))),
            s: problem.s.to_vec(),
            c: problem.c.to_vec(),
            p: scaled_identity(1.0, problem.dim),
            w: vec![0.0; problem.dim],
        }
    }

    fn step(&self, problem: &Problem, State { schedule, s, c, p, w }: &mut State) {
        let Some((eta, gamma)) = schedule.next() else { return };
        let d = problem.dim;
        let (mut vector, mut matrix) = (vec![0.0; d], vec![0.0; d * d]);
        // w ← w + η P c
        symmetric_matvec(p, c, &mut vector);
        axpy(eta, &vector, w);
        // A = I − γ S
        let mut a = scaled_identity(1.0, d);
        axpy(-gamma, s, &mut a);
        // c ← A (I − η S) c
        symmetric_matvec(s, c, &mut vector);
        axpy(-eta, &vector, c);
        symmetric_matvec(&a, c, &mut vector);
        c.copy_from_slice(&vector);
        // P ← P A
        matmul(p, &a, &mut matrix, d);
        p.copy_from_slice(&matrix);
        // S ← A S A
        matmul(&a, s, &mut matrix, d);
        matmul(&matrix, &a, s, d);
    }

    fn weights(&self, _: &Problem, state: &State, w: &mut [f64]) {
        w.copy_from_slice(&state.w);
    }

    /// The same steps on one eigenvalue.
    fn filter(&self, problem: &Problem, values: &Eigenvalues) -> Option<Filter> {
        let (eta, gamma) = (self.eta.of(problem, Some(values)), self.gamma);
        Some(pointwise(move |value, k| {
            let (mut s, mut c, mut p, mut w) = (value, 1.0, 1.0, 0.0);
            for (eta, gamma) in gamma.schedule(eta).take(k as usize) {
                let a = 1.0 - gamma * s;
                w += eta * p * c;
                c *= a * (1.0 - eta * s);
                p *= a;
                s *= a * a;
            }
            w
        }))
    }

    fn polynomial(&self) -> bool {
        true
    }
}
