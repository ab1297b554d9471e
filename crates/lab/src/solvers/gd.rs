//! Gradient descent with a fixed step size.

use super::classical::Classical;
use super::iterative::{Filter, Form, Iterative, Solver};
use super::problem::Problem;
use super::{LAMBDA, Properties, SolverRow, form};
use crate::error::Result;
use crate::learners::steps::Steps;
use crate::linalg::{Eigenvalues, axpy, norm, symmetric_matvec, vectorised};
use crate::registry::{Setting, Settings};

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "gd",
    summary: "gradient descent w ← w − η(Sw − c) from w = 0",
    cite: "Cauchy 1847",
    settings: &[
        Setting {
            name: "eta",
            default: "0.01",
            help: "step size: a number (0.01 suits isotropic data, 0.005 trace-normalised κ=100), \
                   'lmax' for 1/λmax, 'fro' for 1/‖S‖_F, 'optimal' for 2/(λmax+λmin)",
        },
        LAMBDA,
        form("closed"),
    ],
    properties: Properties { exact_after: Some(20_000), closed_form: true, ..Properties::of("GD") },
    build: |settings| {
        let solver = Gd { eta: StepSize::read(settings)? };
        let algorithm = Iterative { solver, form: settings.choice("form", Form::CHOICES)? };
        let lambda = settings.number("lambda", 0.0, f64::MAX)?;
        Ok(Classical::iterative(settings, lambda, Steps::powers_of_two(0, 12), algorithm))
    },
};

/// Policies for the step size η.
#[derive(Clone, Copy)]
pub(super) enum StepSize {
    /// The same for every problem.
    Fixed(f64),
    /// 1/λmax: never diverges.
    InverseLargest,
    /// 1/‖S‖_F: a little shorter, and no spectrum is needed.
    InverseFrobenius,
    /// 2/(λmax + λmin): the fastest fixed step, λmin the smallest eigenvalue that is not zero.
    Optimal,
}

impl StepSize {
    /// Reads the setting `eta`.
    pub fn read(settings: &Settings) -> Result<StepSize> {
        match settings.text("eta") {
            "lmax" => Ok(StepSize::InverseLargest),
            "fro" => Ok(StepSize::InverseFrobenius),
            "optimal" => Ok(StepSize::Optimal),
            text => match text.parse::<f64>() {
                Ok(eta) if eta.is_finite() && eta > 0.0 => Ok(StepSize::Fixed(eta)),
                _ => Err(settings.reject("eta", "a number above 0, lmax, fro, optimal")),
            },
        }
    }

    /// η for a problem; 0 when nothing has been read.
    pub fn of(self, problem: &Problem, values: Option<&Eigenvalues>) -> f64 {
        let finite = |eta: f64| if eta.is_finite() { eta } else { 0.0 };
        let with = |policy: fn(&Eigenvalues) -> f64| {
            finite(values.map_or_else(|| policy(&problem.eigenvalues()), policy))
        };
        match self {
            StepSize::Fixed(eta) => eta,
            StepSize::InverseLargest => with(|s| 1.0 / s.largest()),
            StepSize::InverseFrobenius => finite(1.0 / norm(problem.s)),
            StepSize::Optimal => with(|s| 2.0 / (s.largest() + s.smallest_positive())),
        }
    }
}

struct Gd {
    eta: StepSize,
}

struct State {
    eta: f64,
    w: Vec<f64>,
    gradient: Vec<f64>,
}

impl Solver for Gd {
    type State = State;

    fn start(&self, problem: &Problem) -> State {
        State { eta: self.eta.of(problem, None), w: vec![0.0; problem.dim], gradient: vec![0.0; problem.dim] }
    }

    fn step(&self, problem: &Problem, State { eta, w, gradient }: &mut State) {
        symmetric_matvec(problem.s, w, gradient);
        axpy(-1.0, problem.c, gradient);
        axpy(-*eta, gradient, w);
    }

    fn weights(&self, _: &Problem, state: &State, w: &mut [f64]) {
        w.copy_from_slice(&state.w);
    }

    /// (1 − (1−ηλ)^k) / λ
    fn filter(&self, problem: &Problem, values: &Eigenvalues) -> Option<Filter> {
        let eta = self.eta.of(problem, Some(values));
        Some(Box::new(move |values, k, out| geometric_filter(eta, values, k, out)))
    }

    fn polynomial(&self) -> bool {
        true
    }
}

/// q/λ for q = 1 − (1−z)^k, z = ηλ, over the binary digits of k: q of 2k is q(2−q), and q of k+1 is q + z(1−q). Both keep all
/// digits of a small q, and all eigenvalues go through them side by side.
fn geometric_filter(eta: f64, values: &[f64], k: u64, out: &mut [f64]) {
    vectorised(
        #[inline(always)]
        || {
            out.fill(0.0);
            for digit in (0..u64::BITS - k.leading_zeros()).rev() {
                out.iter_mut().for_each(|q| *q *= 2.0 - *q);
                if k >> digit & 1 == 1 {
                    out.iter_mut().zip(values).for_each(|(q, value)| *q += eta * value * (1.0 - *q));
                }
            }
            for (q, value) in out.iter_mut().zip(values) {
                // the limit λ → 0, to first order
                let limit = eta * k as f64;
                *q = if limit * value < 1e-8 { limit } else { *q / value };
            }
        },
    );
}
