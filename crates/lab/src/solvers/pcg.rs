//! Preconditioned conjugate gradient on Sw = c.

use super::classical::Classical;
use super::iterative::{Iterative, Solver};
use super::problem::Problem;
use super::{LAMBDA, Properties, SolverRow};
use crate::learners::steps::Steps;
use crate::linalg::{axpy, dot, symmetric_matvec};
use crate::registry::Setting;

/// Registry row.
pub const ROW: SolverRow = SolverRow {
    name: "pcg",
    summary: "conjugate gradient on Sw = c with a preconditioner K, residuals z = K⁻¹(c − Sw)",
    cite: "Concus, Golub and O'Leary 1976",
    settings: &[
        Setting {
            name: "preconditioner",
            default: "jacobi",
            help: "K: 'jacobi' for the diagonal of S, 'gauss-seidel' for (D+L)D⁻¹(D+L)ᵀ with S = L+D+Lᵀ, 'identity' \
                   for none (CG)",
        },
        LAMBDA,
    ],
    // The diagonal of S depends on the axes.
    properties: Properties { exact_after: Some(40), rotation_equivariant: false, ..Properties::of("PCG") },
    build: |settings| {
        let choices = [
            ("jacobi", Preconditioner::Jacobi),
            ("gauss-seidel", Preconditioner::GaussSeidel),
            ("identity", Preconditioner::Identity),
        ];
        let solver = Pcg { preconditioner: settings.choice("preconditioner", &choices)? };
        let lambda = settings.number("lambda", 0.0, f64::MAX)?;
        Ok(Classical::iterative(settings, lambda, Steps::range(0, 25), Iterative::new(solver)))
    },
};

#[derive(Clone, Copy)]
enum Preconditioner {
    Identity,
    Jacobi,
    GaussSeidel,
}

impl Preconditioner {
    /// z = K⁻¹ r
    fn solve(self, problem: &Problem, r: &[f64], z: &mut [f64]) {
        let (d, s) = (problem.dim, problem.s);
        // A feature that was always 0 has no diagonal, and no residual either.
        let diagonal = |i: usize| if s[i * d + i] > 0.0 { s[i * d + i] } else { 1.0 };
        z.copy_from_slice(r);
        match self {
            Preconditioner::Identity => {}
            Preconditioner::Jacobi => (0..d).for_each(|i| z[i] /= diagonal(i)),
            Preconditioner::GaussSeidel => {
                // (D + L) z = r from above, times D, and (D + L)ᵀ z = … from below
                for i in 0..d {
                    z[i] = (z[i] - dot(&s[i * d..i * d + i], &z[..i])) / diagonal(i);
                }
                (0..d).for_each(|i| z[i] *= diagonal(i));
                for i in (0..d).rev() {
                    z[i] = (z[i] - dot(&s[i * d + i + 1..(i + 1) * d], &z[i + 1..])) / diagonal(i);
                }
            }
        }
    }
}

struct Pcg {
    preconditioner: Preconditioner,
}

struct State {
    w: Vec<f64>,
    residual: Vec<f64>,
    preconditioned: Vec<f64>,
    direction: Vec<f64>,
    image: Vec<f64>,
    /// Below this squared residual there is nothing left but round-off.
    done: f64,
}

impl Solver for Pcg {
    type State = State;

    fn start(&self, problem: &Problem) -> State {
        let zero = vec![0.0; problem.dim];
        let mut preconditioned = zero.clone();
        self.preconditioner.solve(problem, problem.c, &mut preconditioned);
        State {
            w: zero.clone(),
            residual: problem.c.to_vec(),
            direction: preconditioned.clone(),
            preconditioned,
            image: zero,
            done: dot(problem.c, problem.c) * 1e-30,
        }
    }

    fn step(&self, problem: &Problem, state: &mut State) {
        let State { w, residual, preconditioned, direction, image, done } = state;
        if dot(residual, residual) <= *done {
            return;
        }
        let power = dot(residual, preconditioned);
        symmetric_matvec(problem.s, direction, image);
        let alpha = power / dot(direction, image);
        axpy(alpha, direction, w);
        axpy(-alpha, image, residual);
        self.preconditioner.solve(problem, residual, preconditioned);
        let beta = dot(residual, preconditioned) / power;
        direction.iter_mut().zip(preconditioned.iter()).for_each(|(p, z)| *p = z + beta * *p);
    }

    fn weights(&self, _: &Problem, state: &State, w: &mut [f64]) {
        w.copy_from_slice(&state.w);
    }
}
