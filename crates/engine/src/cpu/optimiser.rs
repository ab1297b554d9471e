//! The end of a training step on the CPU: norm, clipping, Adam, and Muon for matrices.

use rayon::prelude::*;

use crate::cpu::gemm::general::{Accumulate, Mat, matmul};
use crate::cpu::simd::lanes::sum;
use crate::cpu::simd::vectorised;
use crate::model::optim::OptimiserState;
use crate::model::optim::adam::AdamConfig;
use crate::model::optim::muon::{EPSILON, ITERATIONS, MOMENTUM, MuonMatrix, QUINTIC};

/// Values that one task handles; also the unit of the norm's partial sums.
const PIECE: usize = 1 << 15;

impl OptimiserState {
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

    /// As [`OptimiserState::step`], for gradients whose norm is known.
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
        assert_eq!(
            (params.len(), grads.len()),
            (self.mean.len(), self.mean.len()),
            "the optimiser's buffers"
        );
        // PyTorch's clip_grad_norm_: the factor has 1e-6 added below the line and is at most 1.
        let factor = clip.map_or(1.0, |limit| (limit / (norm + 1e-6)).min(1.0));
        self.step += 1;
        let rates = self.config.corrected(rate, self.step);
        let adam_grads: Vec<&[f32]> = self.adam_ranges().map(|range| &grads[range]).collect();
        let (config, matrices) = (self.config, &self.muon);
        let (param_matrices, params) = split(params, matrices);
        let (mean_matrices, mean) = split(&mut self.mean, matrices);
        let (_, square) = split(&mut self.square, matrices);
        for (((params, mean), square), grads) in params.into_iter().zip(mean).zip(square).zip(adam_grads) {
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
            muon_step(*matrix, params, mean, matrix.place.of(grads), [factor, rate]);
        });
    }
}

/// A flat buffer as the values of the matrices and the values between them.
fn split<'a>(flat: &'a mut [f32], matrices: &[MuonMatrix]) -> (Vec<&'a mut [f32]>, Vec<&'a mut [f32]>) {
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

/// One step of Muon: `factor` scales the gradients, `mean` holds the momentum.
fn muon_step(
    matrix: MuonMatrix,
    params: &mut [f32],
    mean: &mut [f32],
    grads: &[f32],
    [factor, rate]: [f32; 2],
) {
    let nesterov: Vec<f32> = mean
        .iter_mut()
        .zip(grads)
        .map(|(m, &g)| {
            let g = g * factor;
            *m += (1.0 - MOMENTUM) * (g - *m);
            (1.0 - MOMENTUM) * g + MOMENTUM * *m
        })
        .collect();
    for block in matrix.blocks() {
        let rows =
            |i: usize| block.offset + i * block.stride..block.offset + i * block.stride + block.columns;
        let mut update: Vec<f32> = (0..block.rows).flat_map(|i| nesterov[rows(i)].iter().copied()).collect();
        orthogonalise(&mut update, block.rows, block.columns);
        let rate = rate * block.scale();
        for (i, row) in update.chunks_exact(block.columns).enumerate() {
            params[rows(i)].iter_mut().zip(row).for_each(|(p, u)| *p -= rate * u);
        }
    }
}

/// X `[rows, columns]` ← a matrix with the same singular vectors and singular values near one (0 stays 0).
fn orthogonalise(x: &mut Vec<f32>, rows: usize, columns: usize) {
    let norm = x.iter().map(|x| x * x).sum::<f32>().sqrt() + EPSILON;
    x.iter_mut().for_each(|x| *x /= norm);
    let [a, b, c] = QUINTIC;
    let small = rows.min(columns);
    let (mut gram, mut square, mut next) = (vec![0.0; small * small], vec![0.0; small * small], x.clone());
    for _ in 0..ITERATIONS {
        let matrix = Mat::dense(x, rows, columns);
        let factors = if rows <= columns { [matrix, matrix.t()] } else { [matrix.t(), matrix] };
        matmul(&mut gram, small, Accumulate::Overwrite, factors[0], factors[1]);
        let symmetric = Mat::dense(&gram, small, small);
        matmul(&mut square, small, Accumulate::Overwrite, symmetric, symmetric);
        square.iter_mut().zip(&gram).for_each(|(s, g)| *s = c * *s + b * g);
        let polynomial = Mat::dense(&square, small, small);
        let factors = if rows <= columns { [polynomial, matrix] } else { [matrix, polynomial] };
        matmul(&mut next, columns, Accumulate::Overwrite, factors[0], factors[1]);
        next.iter_mut().zip(x.iter()).for_each(|(n, x)| *n += a * x);
        std::mem::swap(x, &mut next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::parameters::{Param, RandomSource, SplitMix};

    fn random(len: usize) -> Vec<f32> {
        (0..len as u64).map(|i| SplitMix::new(5).normal("matrix", i)).collect()
    }

    /// Wide, tall and square: rows (or columns) come out nearly orthonormal, and along the same singular vectors.
    #[test]
    fn updates_are_nearly_orthogonal() {
        for [rows, columns] in [[8, 24], [24, 8], [16, 16]] {
            let before = random(rows * columns);
            let mut x = before.clone();
            orthogonalise(&mut x, rows, columns);
            let small = rows.min(columns);
            let m = Mat::dense(&x, rows, columns);
            let mut gram = vec![0.0; small * small];
            let [left, right] = if rows <= columns { [m, m.t()] } else { [m.t(), m] };
            matmul(&mut gram, small, Accumulate::Overwrite, left, right);
            for i in 0..small {
                for j in 0..small {
                    let (value, expected) = (gram[i * small + j], if i == j { 1.0 } else { 0.0 });
                    // the quintic leaves singular values between about 0.7 and 1.2; a square one has some near 0
                    let most = if rows == columns { 1.0 } else { 0.6 };
                    assert!((value - expected).abs() < most, "[{rows},{columns}] ({i},{j}): {value}");
                }
            }
            let along: f32 = x.iter().zip(&before).map(|(x, b)| x * b).sum();
            assert!(along > 0.0);
        }
    }

    /// Three matrices stored side by side, or one above the other, move as if they were stored apart.
    #[test]
    fn blocks_move_each_for_itself() {
        let (n, rates) = (6, [0.5, 1e-2]);
        let values = random(3 * n * n);
        let apart: Vec<Vec<f32>> = values.chunks_exact(n * n).map(<[f32]>::to_vec).collect();
        let moved: Vec<Vec<f32>> = apart
            .iter()
            .map(|grads| {
                let single = MuonMatrix {
                    place: Param { offset: 0, len: n * n },
                    rows: n,
                    columns: n,
                    across: 1,
                    down: 1,
                };
                let (mut params, mut mean) = (vec![0.0; n * n], vec![0.0; n * n]);
                muon_step(single, &mut params, &mut mean, grads, rates);
                params
            })
            .collect();
        for across in [3, 1] {
            let down = 3 / across;
            let matrix = MuonMatrix {
                place: Param { offset: 0, len: 3 * n * n },
                rows: down * n,
                columns: across * n,
                across,
                down,
            };
            let mut grads = vec![0.0; 3 * n * n];
            for (block, part) in matrix.blocks().zip(&apart) {
                for (i, row) in part.chunks_exact(n).enumerate() {
                    let at = block.offset + i * block.stride;
                    grads[at..at + n].copy_from_slice(row);
                }
            }
            let (mut params, mut mean) = (vec![0.0; 3 * n * n], vec![0.0; 3 * n * n]);
            muon_step(matrix, &mut params, &mut mean, &grads, rates);
            for (block, part) in matrix.blocks().zip(&moved) {
                for (i, row) in part.chunks_exact(n).enumerate() {
                    let at = block.offset + i * block.stride;
                    assert_eq!(&params[at..at + n], row);
                }
            }
        }
    }
}
