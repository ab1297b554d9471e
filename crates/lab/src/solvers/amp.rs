//! Approximate message passing for weights with a Gaussian prior of variance 1 and labels with noise σ².
//!
//! The denoiser of that prior is a multiplication by a = t/(t + τ²). State evolution says what τ² is: σ² + d·m, m the
//! mean squared error of a weight, from 1 before the first step to τ²/(t + τ²) after one. The last term of the residual
//! is Onsager's: it takes away what the residuals remember of earlier weights.
//!
//! Where it converges the limit is ridge with λ = σ². For σ = 0 and t > d, a tends to 1, and what remains is heavy ball
//! with η = 1/t and β = d/t: its best parameters for the Marchenko–Pastur law of Gaussian inputs. It converges where
//! λmax < 2(t + d), so not on inputs of another law, such as `skewed`, and not for every prompt of a small d.

use super::classical::Classical;
use super::iterative::{Iterative, Solver};
use super::problem::Problem;
use super::{Properties, SolverRow};
use crate::learners::steps::Steps;
use crate::linalg::{axpy, dot};
use crate::registry::Setting;

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "amp",
    summary: "approximate message passing, w ← a(w + Xᵀz/t) with z = y − Xw + (d/t)a z; for Gaussian inputs",
    cite: "Donoho, Maleki and Montanari 2009; Bayati and Montanari 2011",
    settings: &[Setting {
        name: "noise",
        default: "0",
        help: "σ² of the labels in units of a weight's prior variance; where it converges the limit is ridge with λ = σ²",
    }],
    // No promise of least squares: for few features a prompt with λmax ≥ 2(t + d) diverges.
    properties: Properties::of("AMP"),
    build: |settings| {
        let amp = Amp { noise: settings.number("noise", 0.0, f64::MAX)? };
        Ok(Classical::iterative(settings, 0.0, Steps::range(0, 25), Iterative::new(amp)))
    },
};

struct Amp {
    noise: f64,
}

struct State {
    w: Vec<f64>,
    /// z `[t]`.
    residual: Vec<f64>,
    /// a of the step before; 0 before the first.
    shrinkage: f64,
    /// m: the mean squared error of a weight, by state evolution.
    error: f64,
}

impl Solver for Amp {
    type State = State;

    fn start(&self, problem: &Problem) -> State {
        State { w: vec![0.0; problem.dim], residual: vec![0.0; problem.read()], shrinkage: 0.0, error: 1.0 }
    }

    fn step(&self, problem: &Problem, State { w, residual, shrinkage, error }: &mut State) {
        let (t, d) = (problem.read() as f64, problem.dim as f64);
        // z ← y − Xw + (d/t) a z
        for (z, (x, y)) in residual.iter_mut().zip(problem.pairs()) {
            *z = y - dot(w, x) + d / t * *shrinkage * *z;
        }
        // τ² = σ² + d m
        let variance = self.noise + d * *error;
        *shrinkage = t / (t + variance);
        *error = variance / (t + variance);
        // w ← a (w + Xᵀz/t)
        for (z, (x, _)) in residual.iter().zip(problem.pairs()) {
            axpy(z / t, x, w);
        }
        w.iter_mut().for_each(|w| *w *= *shrinkage);
    }

    fn weights(&self, _: &Problem, state: &State, w: &mut [f64]) {
        w.copy_from_slice(&state.w);
    }
}
