//! The best polynomial of a degree, as a null: what any method does that multiplies by S as often.
//!
//! GD, Newton, GD++ and all their kin answer with w = p(S)c. Before a learner is said to be one of them, it should be
//! closer to that one than the best p of the same degree is to the learner. Coefficients are shared by all prompts, fitted
//! on half of them, and judged on the other half.
//!
//! ```
//! use lab::prelude::*;
//! use lab::solvers::SufficientStatistics;
//! use lab::solvers::polynomial::{self, Scale, Target};
//!
//! let prompts = Task::new("linear", "gaussian", 3, 8)?.sample(Seed(0), "eval", 0, 20);
//! let read: Vec<_> = (0..20).map(|b| prompts.prompt(b)).collect();
//! let statistics: Vec<_> = read.iter().map(|(xs, ys)| SufficientStatistics::of(xs, ys, 3, 0.0)).collect();
//! let problems: Vec<Problem> =
//!     statistics.iter().zip(&read).enumerate().map(|(b, (s, (xs, ys)))| s.problem(b, xs, ys)).collect();
//! let weights: Vec<_> = read.iter().map(|(xs, ys)| lab::linalg::least_squares(xs, ys, 3)).collect();
//! let targets: Vec<Target> = weights.iter().map(|w| Target::Weights(w)).collect();
//!
//! let error = |degree| polynomial::on_halves(&targets, &problems, degree, Scale::One).errors.iter().sum::<f64>();
//! assert!(error(4) < error(0)); // least squares is no polynomial, but they come closer
//! # Ok::<(), Error>(())
//! ```

use serde::{Deserialize, Serialize};

use super::problem::Problem;
use crate::linalg::{axpy, dot, least_squares, norm, symmetric_matvec};

/// What a polynomial should come close to on one problem.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// Weights `[d]`.
    Weights(&'a [f64]),
    /// Answers `[q]` to queries `[q,d]`.
    Answers {
        /// Queries `[q,d]`.
        queries: &'a [f64],
        /// Answers `[q]`.
        answers: &'a [f64],
    },
}

/// The unit in which eigenvalues are measured, s in w = p(S/s) c/s. Methods whose step size follows each prompt are
/// polynomials with shared coefficients only in that unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// s = 1: a step size that is the same for all prompts.
    One,
    /// s = λmax(S).
    Largest,
    /// s = ‖S‖_F.
    #[serde(rename = "norm")]
    Frobenius,
}

impl Scale {
    /// Every unit with its name, and what an eigenvalue in it is written as.
    pub const ALL: [(Scale, &str, &str); 3] = [
        (Scale::One, "one", "λ"),
        (Scale::Largest, "largest", "λ/λmax"),
        (Scale::Frobenius, "norm", "λ/‖S‖_F"),
    ];

    /// Its name, and what an eigenvalue in it is written as.
    pub fn words(self) -> (&'static str, &'static str) {
        let row = Scale::ALL.iter().find(|(scale, ..)| *scale == self);
        row.map_or(("", ""), |(_, name, eigenvalue)| (name, eigenvalue))
    }

    fn of(self, problem: &Problem) -> f64 {
        match self {
            Scale::One => 1.0,
            Scale::Largest => problem.eigenvalues().largest(),
            Scale::Frobenius => norm(problem.s),
        }
    }
}

/// p(λ) = Σ βⱼ Tⱼ(2λ/top − 1): Chebyshev polynomials on [0, top] stay of size 1 where powers of λ would not.
#[derive(Clone, Debug)]
pub struct Polynomial {
    /// β₀…β_k.
    pub coefficients: Vec<f64>,
    /// The largest eigenvalue that it was fitted on, in units of `scale`.
    pub top: f64,
    /// The unit of eigenvalues.
    pub scale: Scale,
}

/// The polynomial of that degree that is closest to `targets` in squared distance, over all `problems` together.
pub fn fit(targets: &[Target], problems: &[Problem], degree: usize, scale: Scale) -> Polynomial {
    let largest = |problem: &Problem| problem.eigenvalues().largest() / scale.of(problem);
    let top = problems.iter().map(largest).fold(f64::MIN_POSITIVE, f64::max);
    let mut p = Polynomial { coefficients: vec![0.0; degree + 1], top, scale };
    // A row per number of a target, a column per Tⱼ.
    let (mut rows, mut wanted) = (Vec::new(), Vec::new());
    for (problem, target) in problems.iter().zip(targets) {
        let basis = p.basis(problem);
        match target {
            Target::Weights(w) => {
                (0..w.len()).for_each(|i| rows.extend(basis.iter().map(|b| b[i])));
                wanted.extend_from_slice(w);
            }
            Target::Answers { queries, answers } => {
                let queries = queries.chunks_exact(problem.dim);
                queries.for_each(|x| rows.extend(basis.iter().map(|b| dot(b, x))));
                wanted.extend_from_slice(answers);
            }
        }
    }
    p.coefficients = least_squares(&rows, &wanted, degree + 1);
    p
}

impl Polynomial {
    /// p(λ), λ in units of `scale`: the filter of w = p(S)c.
    pub fn filter(&self, value: f64) -> f64 {
        let (z, mut before, mut now, mut sum) = (2.0 * value / self.top - 1.0, 0.0, 1.0, 0.0);
        for (j, beta) in self.coefficients.iter().enumerate() {
            sum += beta * now;
            let next = if j == 0 { z } else { 2.0 * z * now - before };
            (before, now) = (now, next);
        }
        sum
    }

    /// w = p(S/s) c/s
    pub fn weights(&self, problem: &Problem) -> Vec<f64> {
        let mut w = vec![0.0; problem.dim];
        for (beta, b) in self.coefficients.iter().zip(self.basis(problem)) {
            axpy(*beta, &b, &mut w);
        }
        w
    }

    /// Squared distance to each target: of weights, or the mean over queries.
    pub fn errors(&self, targets: &[Target], problems: &[Problem]) -> Vec<f64> {
        let error = |(problem, target): (&Problem, &Target)| {
            let w = self.weights(problem);
            match target {
                Target::Weights(wanted) => w.iter().zip(*wanted).map(|(a, b)| (a - b).powi(2)).sum(),
                Target::Answers { queries, answers } => {
                    let asked = queries.chunks_exact(problem.dim).zip(*answers);
                    asked.map(|(x, y)| (dot(&w, x) - y).powi(2)).sum::<f64>() / answers.len() as f64
                }
            }
        };
        problems.iter().zip(targets).map(error).collect()
    }

    /// Tⱼ(2S/(s·top) − I) c/s for j = 0…k, by Tⱼ₊₁(z) = 2z Tⱼ(z) − Tⱼ₋₁(z).
    fn basis(&self, problem: &Problem) -> Vec<Vec<f64>> {
        let scale = self.scale.of(problem);
        let unit = if scale > 0.0 { 1.0 / scale } else { 0.0 }; // 0: nothing has been read
        let times_z = |v: &[f64]| {
            let mut image = vec![0.0; v.len()];
            symmetric_matvec(problem.s, v, &mut image);
            image.iter().zip(v).map(|(sv, v)| 2.0 * unit / self.top * sv - v).collect::<Vec<f64>>()
        };
        let mut basis = vec![problem.c.iter().map(|c| unit * c).collect::<Vec<f64>>()];
        while basis.len() < self.coefficients.len() {
            let mut next = times_z(&basis[basis.len() - 1]);
            if let [.., before, _] = &basis[..] {
                next.iter_mut().for_each(|v| *v *= 2.0);
                axpy(-1.0, before, &mut next);
            }
            basis.push(next);
        }
        basis
    }
}

/// A polynomial fitted on half of the prompts, and how far it is from the targets of the other half.
pub struct OnHalves {
    /// Fitted on prompts of even number.
    pub polynomial: Polynomial,
    /// Which problems were held out: those of prompts of odd number.
    pub held_out: Vec<usize>,
    /// The squared distance of each of them.
    pub errors: Vec<f64>,
}

/// Fits on the prompts of even number, judges on the others. All prefixes of a prompt are in the same half.
pub fn on_halves(targets: &[Target], problems: &[Problem], degree: usize, scale: Scale) -> OnHalves {
    let (held_out, fitted): (Vec<usize>, Vec<usize>) =
        (0..problems.len()).partition(|&i| problems[i].prompt % 2 == 1);
    let of = |which: &[usize]| -> (Vec<Target>, Vec<Problem>) {
        which.iter().map(|&i| (targets[i], problems[i])).unzip()
    };
    let (fit_targets, fit_problems) = of(&fitted);
    let (other_targets, other_problems) = of(&held_out);
    let polynomial = fit(&fit_targets, &fit_problems, degree, scale);
    let errors = polynomial.errors(&other_targets, &other_problems);
    OnHalves { polynomial, held_out, errors }
}
