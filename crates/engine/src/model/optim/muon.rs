//! Muon for weight matrices (Jordan et al. 2024): a matrix moves along its momentum with all singular values made
//! nearly one, by a Newton–Schulz iteration that only needs products.
//!
//! Early in training a gradient has few large singular values; Adam follows those, and a Transformer may stay for
//! thousands of steps where it has learnt nothing in context. Muon follows all of them from the first step.

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
pub struct MuonMatrix {
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
pub struct MuonBlock {
    /// First value, counted from the matrix's.
    pub offset: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Values between the starts of two rows.
    pub stride: usize,
}

impl MuonMatrix {
    /// Its blocks.
    pub fn blocks(self) -> impl Iterator<Item = MuonBlock> {
        let (rows, columns, stride) = (self.rows / self.down, self.columns / self.across, self.columns);
        let blocks = (0..self.down).flat_map(move |i| (0..self.across).map(move |j| (i, j)));
        blocks.map(move |(i, j)| MuonBlock { offset: i * rows * stride + j * columns, rows, columns, stride })
    }
}

impl MuonBlock {
    /// Brings the root mean square of an orthogonal update to 0.2, about that of Adam's updates, so that one rate serves
    /// both (Liu et al. 2025).
    pub fn scale(self) -> f32 {
        0.2 * (self.rows.max(self.columns) as f32).sqrt()
    }
}
