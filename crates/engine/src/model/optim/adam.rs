//! Adam with PyTorch's conventions, and clipping by the global gradient norm, over flat buffers. Matrices may be given
//! to [`crate::model::optim::muon`] instead.

use std::ops::Range;

use rayon::prelude::*;

use crate::cpu::lanes::sum;
use crate::cpu::simd::vectorised;
use crate::model::optim::muon::Matrix;

/// Settings of Adam; the default is PyTorch's and the paper's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamConfig {
    /// Decay of the mean of gradients.
    pub beta1: f32,
    /// Decay of the mean of squared gradients.
    pub beta2: f32,
    /// Added to the root of the mean of squares.
    pub epsilon: f32,
}

impl Default for AdamConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

impl AdamConfig {
    /// The rate of step `step` (the first is 1) with the correction of the mean in it, and the correction of the root.
    pub fn corrected(&self, rate: f32, step: u64) -> [f32; 2] {
        // In double precision, as PyTorch computes them.
        let correction1 = 1.0 - f64::from(self.beta1).powf(step as f64);
        let correction2 = 1.0 - f64::from(self.beta2).powf(step as f64);
        [(f64::from(rate) / correction1) as f32, (1.0 / correction2.sqrt()) as f32]
    }
}

/// The state of Adam: two moments per parameter and the number of steps taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Adam {
    /// Settings.
    pub config: AdamConfig,
    /// Running mean of gradients.
    pub mean: Vec<f32>,
    /// Running mean of squared gradients.
    pub square: Vec<f32>,
    /// Steps taken.
    pub step: u64,
    /// Matrices that Muon moves, in the order of the flat buffer: `mean` is their momentum, `square` stays 0.
    pub matrices: Vec<Matrix>,
}

/// Values that one task handles; also the unit of the norm's partial sums.
const PIECE: usize = 1 << 15;

impl Adam {
    /// A fresh state for `len` parameters.
    pub fn new(config: AdamConfig, len: usize) -> Self {
        Self { config, mean: vec![0.0; len], square: vec![0.0; len], step: 0, matrices: Vec::new() }
    }

    /// One step with the given rate. With `clip`, gradients are scaled so that their norm is at most that.
    /// Returns the norm before clipping (NaN or infinite if a gradient is).
    ///
    /// # Panics
    /// If the buffers have different lengths.
    pub fn step(&mut self, params: &mut [f32], grads: &[f32], rate: f32, clip: Option<f32>) -> f32 {
        let norm = gradient_norm(grads);
        self.step_with_norm(params, grads, norm, rate, clip);
        norm
    }

    /// As [`Adam::step`], for gradients whose norm is known.
    ///
    /// # Panics
    /// If the buffers have different lengths.
    pub fn step_with_norm(
        &mut self,
        params: &mut [f32],
        grads: &[f32],
        norm: f32,
        rate: f32,
        clip: Option<f32>,
    ) {
        assert_eq!((params.len(), grads.len()), (self.mean.len(), self.mean.len()), "Adam's buffers");
        // PyTorch's clip_grad_norm_: the factor has 1e-6 added below the line and is at most 1.
        let factor = clip.map_or(1.0, |limit| (limit / (norm + 1e-6)).min(1.0));
        self.step += 1;
        let rates = self.config.corrected(rate, self.step);
        let (config, matrices) = (self.config, &self.matrices);
        let (param_matrices, params) = split(params, matrices);
        let (mean_matrices, mean) = split(&mut self.mean, matrices);
        let (_, square) = split(&mut self.square, matrices);
        let between = between(matrices, grads.len()).map(|range| &grads[range]);
        for (((params, mean), square), grads) in params.into_iter().zip(mean).zip(square).zip(between) {
            (
                params.par_chunks_mut(PIECE),
                mean.par_chunks_mut(PIECE),
                square.par_chunks_mut(PIECE),
                grads.par_chunks(PIECE),
            )
                .into_par_iter()
                .for_each(|(p, m, v, g)| update(p, m, v, g, factor, config, rates));
        }
        (param_matrices, mean_matrices, matrices).into_par_iter().for_each(|(params, mean, matrix)| {
            matrix.step(params, mean, matrix.place.of(grads), [factor, rate]);
        });
    }
}

/// The values of a flat buffer that lie between matrices: before the first, …, after the last.
pub(crate) fn between(matrices: &[Matrix], len: usize) -> impl Iterator<Item = Range<usize>> {
    let starts = std::iter::once(0).chain(matrices.iter().map(|matrix| matrix.place.range().end));
    let ends = matrices.iter().map(|matrix| matrix.place.offset).chain([len]);
    starts.zip(ends).map(|(start, end)| start..end)
}

/// A flat buffer as the values of the matrices and the values between them.
fn split<'a>(flat: &'a mut [f32], matrices: &[Matrix]) -> (Vec<&'a mut [f32]>, Vec<&'a mut [f32]>) {
    let (mut inside, mut between) = (Vec::new(), Vec::new());
    let (mut rest, mut at) = (flat, 0);
    for place in matrices.iter().map(|matrix| matrix.place) {
        let (before, from) = rest.split_at_mut(place.offset - at);
        let (values, after) = from.split_at_mut(place.len);
        between.push(before);
        inside.push(values);
        (rest, at) = (after, place.range().end);
    }
    between.push(rest);
    (inside, between)
}

/// The Euclidean norm of all gradients together. Partial sums are added in order, so it is always the same bits.
pub fn gradient_norm(grads: &[f32]) -> f32 {
    fn squares(grads: &[f32]) -> f64 {
        if grads.len() <= PIECE {
            return f64::from(square_sum(grads));
        }
        // Halved at a fixed place: the tree of sums depends on the length alone.
        let (left, right) =
            grads.split_at(grads.len().div_ceil(2).next_multiple_of(PIECE).min(grads.len() - 1));
        let (left, right) = rayon::join(|| squares(left), || squares(right));
        left + right
    }
    squares(grads).sqrt() as f32
}

vectorised! {
    fn square_sum[simd](x: &[f32]) -> f32 {
        sum!(simd, |x| x * x)
    }

    /// `rate` has the correction of the mean in it, `root` is that of the root of squares.
    fn update(
        params: &mut [f32],
        mean: &mut [f32],
        square: &mut [f32],
        grads: &[f32],
        factor: f32,
        config: AdamConfig,
        rates: [f32; 2],
    ) -> () {
        let (AdamConfig { beta1, beta2, epsilon }, [rate, root]) = (config, rates);
        for (((p, m), v), &g) in params.iter_mut().zip(mean).zip(square).zip(grads) {
            let g = g * factor;
            *m += (1.0 - beta1) * (g - *m);
            *v = beta2 * *v + (1.0 - beta2) * g * g;
            *p -= rate * *m / (v.sqrt() * root + epsilon);
        }
    }
}
