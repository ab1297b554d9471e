//! Muon for weight matrices (Jordan et al. 2024): a matrix moves along its momentum with all singular values made
//! nearly one, by a Newton–Schulz iteration that only needs products.
//!
//! Early in training a gradient has few large singular values; Adam follows those, and a Transformer may stay for
//! thousands of steps where it has learnt nothing in context. Muon follows all of them from the first step.

use crate::cpu::gemm::general::{Into, Mat, matmul};
use crate::model::parameters::Param;

/// Decay of the momentum.
pub const MOMENTUM: f32 = 0.95;
/// X ← aX + (bA + cA²)X with A = XXᵀ: its coefficients make small singular values grow fast and leave all near one.
pub const QUINTIC: [f32; 3] = [3.4445, -4.7750, 2.0315];
/// Iterations of the above.
pub const ITERATIONS: usize = 5;
/// Added to the norm that a momentum is divided by.
pub const EPSILON: f32 = 1e-7;

/// A weight matrix `[rows, columns]` that Muon moves. Matrices that are stored as one, such as those of queries, keys and
/// values, are blocks side by side or one above the other, each orthogonalised for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matrix {
    /// Where it lies in the flat buffer.
    pub place: Param,
    /// Rows of all blocks together.
    pub rows: usize,
    /// Columns of all blocks together.
    pub columns: usize,
    /// Blocks side by side.
    pub across: usize,
    /// Blocks one above the other.
    pub down: usize,
}

/// One block of a matrix, row-major.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// First value, counted from the matrix's.
    pub offset: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Values between the starts of two rows.
    pub stride: usize,
}

impl Matrix {
    /// Its blocks.
    pub fn blocks(self) -> impl Iterator<Item = Block> {
        let (rows, columns, stride) = (self.rows / self.down, self.columns / self.across, self.columns);
        let blocks = (0..self.down).flat_map(move |i| (0..self.across).map(move |j| (i, j)));
        blocks.map(move |(i, j)| Block { offset: i * rows * stride + j * columns, rows, columns, stride })
    }

    /// One step: `factor` scales the gradients, `mean` holds the momentum.
    pub(crate) fn step(self, params: &mut [f32], mean: &mut [f32], grads: &[f32], [factor, rate]: [f32; 2]) {
        let nesterov: Vec<f32> = mean
            .iter_mut()
            .zip(grads)
            .map(|(m, &g)| {
                let g = g * factor;
                *m += (1.0 - MOMENTUM) * (g - *m);
                (1.0 - MOMENTUM) * g + MOMENTUM * *m
            })
            .collect();
        for block in self.blocks() {
            let rows =
                |i: usize| block.offset + i * block.stride..block.offset + i * block.stride + block.columns;
            let mut update: Vec<f32> =
                (0..block.rows).flat_map(|i| nesterov[rows(i)].iter().copied()).collect();
            orthogonalise(&mut update, block.rows, block.columns);
            let rate = rate * block.scale();
            for (i, row) in update.chunks_exact(block.columns).enumerate() {
                params[rows(i)].iter_mut().zip(row).for_each(|(p, u)| *p -= rate * u);
            }
        }
    }
}

impl Block {
    /// Brings the root mean square of an orthogonal update to 0.2, about that of Adam's updates, so that one rate serves
    /// both (Liu et al. 2025).
    pub fn scale(self) -> f32 {
        0.2 * (self.rows.max(self.columns) as f32).sqrt()
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
        matmul(&mut gram, small, Into::Overwrite, factors[0], factors[1]);
        let symmetric = Mat::dense(&gram, small, small);
        matmul(&mut square, small, Into::Overwrite, symmetric, symmetric);
        square.iter_mut().zip(&gram).for_each(|(s, g)| *s = c * *s + b * g);
        let polynomial = Mat::dense(&square, small, small);
        let factors = if rows <= columns { [polynomial, matrix] } else { [matrix, polynomial] };
        matmul(&mut next, columns, Into::Overwrite, factors[0], factors[1]);
        next.iter_mut().zip(x.iter()).for_each(|(n, x)| *n += a * x);
        std::mem::swap(x, &mut next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::parameters::{RandomSource, SplitMix};

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
            matmul(&mut gram, small, Into::Overwrite, left, right);
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
                let whole = Matrix {
                    place: Param { offset: 0, len: n * n },
                    rows: n,
                    columns: n,
                    across: 1,
                    down: 1,
                };
                let (mut params, mut mean) = (vec![0.0; n * n], vec![0.0; n * n]);
                whole.step(&mut params, &mut mean, grads, rates);
                params
            })
            .collect();
        for across in [3, 1] {
            let down = 3 / across;
            let matrix = Matrix {
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
            matrix.step(&mut params, &mut mean, &grads, rates);
            for (block, part) in matrix.blocks().zip(&moved) {
                for (i, row) in part.chunks_exact(n).enumerate() {
                    let at = block.offset + i * block.stride;
                    assert_eq!(&params[at..at + n], row);
                }
            }
        }
    }
}
