//! Least squares problems looked at directly: S of a prompt, Newton's iterates of it, and problems of a given spectrum.

use ndarray::{Array2, Array3};

use crate::data::prompts::{Prompts, Questions};
use crate::error::Result;
use crate::learners::Learner;
use crate::learners::steps::Steps;
use crate::linalg::{Spectrum, frobenius_of_square, gram, newton_schulz, norm};

/// S = XᵀX `[d·d]` of all pairs of a prompt; its last point is the query.
pub fn gram_of(prompts: &Prompts, b: usize) -> Vec<f64> {
    let (dim, pairs) = (prompts.dim(), prompts.points() - 1);
    gram(&prompts.prompt(b).0[..pairs * dim], dim)
}

/// The spectrum of [`gram_of`].
pub fn spectrum_of(prompts: &Prompts, b: usize) -> Spectrum {
    Spectrum::of(&gram_of(prompts, b), prompts.dim())
}

/// α = 1/‖SSᵀ‖_F, and Newton's M₀ = αS, M₁, …, M_k.
pub fn newton_iterates(s: &[f64], dim: usize, k: usize) -> (f64, Vec<Vec<f64>>) {
    let alpha = 1.0 / frobenius_of_square(s, dim);
    let mut m: Vec<f64> = s.iter().map(|v| alpha * v).collect();
    let mut scratch = Vec::new();
    let mut all = vec![m.clone()];
    for _ in 0..k {
        newton_schulz(s, &mut m, &mut scratch, dim);
        all.push(m.clone());
    }
    (alpha, all)
}

/// A problem whose S has given eigenvalues, with its solution.
pub struct Prescribed {
    questions: Questions,
    solution: Vec<f64>,
}

impl Prescribed {
    /// Inputs √λᵢ uᵢ, where the rows uᵢ of `basis` `[d·d]` are orthonormal.
    pub fn new(eigenvalues: &[f64], basis: &[f64], solution: Vec<f64>) -> Result<Prescribed> {
        let d = solution.len();
        // One more point, never read, completes the prompt.
        let xs = Array3::from_shape_fn((1, d + 1, d), |(_, i, j)| {
            if i < d { eigenvalues[i].sqrt() * basis[i * d + j] } else { 0.0 }
        });
        let label = |i: usize| (0..d).map(|j| xs[[0, i, j]] * solution[j]).sum();
        let ys = Array2::from_shape_fn((1, d + 1), |(_, i)| label(i));
        let queries = Array2::eye(d).insert_axis(ndarray::Axis(0));
        let questions = Questions { prompts: Prompts::new(xs, ys)?, lengths: vec![d], queries };
        Ok(Prescribed { questions, solution })
    }

    /// ‖w_k − w‖ / ‖w‖ along the steps of a learner.
    pub fn errors(&self, learner: &dyn Learner, steps: &Steps) -> Result<Vec<f64>> {
        let answers = learner.answers(&self.questions, steps)?;
        let error = |k: usize| {
            let off: Vec<f64> =
                self.solution.iter().enumerate().map(|(i, w)| answers[[k, 0, 0, i]] - w).collect();
            norm(&off) / norm(&self.solution)
        };
        Ok((0..steps.len()).map(error).collect())
    }
}
