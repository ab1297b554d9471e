//! Newton's iteration for the inverse (Newton–Schulz): the paper's second-order method.

use super::classical::Classical;
use super::iterative::{Filter, Form, Iterative, Solver};
use super::problem::Problem;
use super::{LAMBDA, Properties, SolverRow, form};
use crate::error::Result;
use crate::learners::steps::Steps;
use crate::linalg::{Spectrum, frobenius_of_square, newton_schulz, symmetric_matvec};
use crate::registry::{Setting, Settings};

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "newton",
    summary: "Newton–Schulz M ← 2M − MSM from M = αS, with w = Mc",
    cite: "Schulz 1933; Ben-Israel 1965",
    settings: &[
        Setting {
            name: "alpha",
            default: "fro",
            help: "start M = αS: 'fro' for 1/‖SSᵀ‖_F, 'spectral' for 1/‖SSᵀ‖₂, 'printed' for the paper's 2/‖SSᵀ‖₂ \
                   (on the boundary of divergence, erratum E1), or a number",
        },
        LAMBDA,
        form("iterated"),
    ],
    properties: Properties { exact_after: Some(24), closed_form: true, ..Properties::of("Newton") },
    build: |settings| {
        let solver = Newton { alpha: Alpha::read(settings)? };
        let algorithm = Iterative { solver, form: settings.choice("form", Form::CHOICES)? };
        let lambda = settings.number("lambda", 0.0, f64::MAX)?;
        Ok(Classical::iterative(settings, lambda, Steps::range(0, 24), algorithm))
    },
};

/// Policies for the start M₀ = αS. It converges for 0 < α < 2/λmax².
#[derive(Clone, Copy)]
enum Alpha {
    Frobenius,
    Spectral,
    Printed,
    Fixed(f64),
}

impl Alpha {
    fn read(settings: &Settings) -> Result<Alpha> {
        Ok(match settings.text("alpha") {
            "fro" => Alpha::Frobenius,
            "spectral" => Alpha::Spectral,
            "printed" => Alpha::Printed,
            text => match text.parse::<f64>() {
                Ok(alpha) if alpha.is_finite() && alpha > 0.0 => Alpha::Fixed(alpha),
                _ => return Err(settings.reject("alpha", "fro, spectral, printed, a number above 0")),
            },
        })
    }

    /// α for a problem; 0 when nothing has been read.
    fn of(self, problem: &Problem) -> f64 {
        let alpha = match self {
            Alpha::Frobenius => 1.0 / frobenius_of_square(problem.s, problem.dim),
            Alpha::Spectral => problem.spectrum().largest().powi(-2),
            Alpha::Printed => 2.0 * problem.spectrum().largest().powi(-2),
            Alpha::Fixed(alpha) => alpha,
        };
        if alpha.is_finite() { alpha } else { 0.0 }
    }
}

struct Newton {
    alpha: Alpha,
}

struct State {
    m: Vec<f64>,
    scratch: Vec<f64>,
}

impl Solver for Newton {
    type State = State;

    /// M₀ = αS
    fn start(&self, problem: &Problem) -> State {
        let alpha = self.alpha.of(problem);
        State { m: problem.s.iter().map(|v| alpha * v).collect(), scratch: vec![0.0; problem.s.len()] }
    }

    /// M ← 2M − M S M
    fn step(&self, problem: &Problem, State { m, scratch }: &mut State) {
        newton_schulz(problem.s, m, scratch, problem.dim);
    }

    /// w = M c
    fn weights(&self, problem: &Problem, state: &State, w: &mut [f64]) {
        symmetric_matvec(&state.m, problem.c, w);
    }

    /// (1 − (1−αλ²)^{2^k}) / λ: the residual is squared at each step.
    fn filter(&self, problem: &Problem, _: &Spectrum) -> Option<Filter> {
        let alpha = self.alpha.of(problem);
        Some(Box::new(move |value, k| {
            let z = alpha * value * value;
            let power = 2f64.powi(k.min(1000) as i32);
            if z * power < 1e-8 {
                alpha * value * power
            } else if z < 1.0 {
                -(power * (-z).ln_1p()).exp_m1() / value
            } else {
                let residual = (1.0 - z).abs().powf(power) * if k == 0 { (1.0 - z).signum() } else { 1.0 };
                (1.0 - residual) / value
            }
        }))
    }
}

/// Coefficients β of M_k = Σ β_s S^s, by index s = 0…2^{k+1}−1, for a given α: the recurrence on polynomials.
pub fn moment_coefficients(alpha: f64, k: u32) -> Vec<f64> {
    let mut m = vec![0.0, alpha];
    for _ in 0..k {
        let mut next = vec![0.0; 2 * m.len()];
        m.iter().enumerate().for_each(|(i, b)| next[i] += 2.0 * b);
        for (i, a) in m.iter().enumerate() {
            m.iter().enumerate().for_each(|(j, b)| next[i + j + 1] -= a * b);
        }
        m = next;
    }
    m
}
