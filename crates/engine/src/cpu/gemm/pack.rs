//! Packed B: a right-hand side packed once, for many products.

use rayon::prelude::*;

use super::{KC, NR};
use crate::cpu::arena::first_cache_line;
use crate::cpu::gemm::general::{Accumulate, Mat};
use crate::cpu::gemm::transpose::transpose;
use crate::cpu::simd::LANES;

/// A packed right-hand side `[inner, outer]`.
#[derive(Debug, Clone, Copy)]
pub struct PackedB<'a> {
    data: &'a [f32],
    pub(super) inner: usize,
    pub(super) outer: usize,
}

impl<'a> PackedB<'a> {
    /// Values that a packed matrix takes: its columns are padded to whole panels.
    pub fn len_of(inner: usize, outer: usize) -> usize {
        inner * outer.next_multiple_of(NR) + LANES
    }

    /// Packs a matrix into `place`, on all threads.
    ///
    /// # Panics
    /// If `place` is shorter than [`PackedB::len_of`], or the matrix reaches past its slice or is neither row-major nor
    /// the transpose of one that is.
    pub fn new(place: &'a mut [f32], matrix: Mat) -> Self {
        let (inner, outer) = (matrix.rows, matrix.cols);
        assert!(place.len() >= Self::len_of(inner, outer), "place for a packed matrix is too short");
        assert!(matrix.col_stride == 1 || matrix.row_stride == 1, "a packed matrix has values side by side");
        let place = &mut aligned(place)[..inner * outer.next_multiple_of(NR)];
        let width = outer.next_multiple_of(NR).max(1);
        place.par_chunks_mut(KC * width).enumerate().for_each(|(block, place)| {
            let depth = place.len() / width;
            // Few panels per task would be woken up for less than they take.
            place.par_chunks_mut(depth * NR).with_min_len(8).enumerate().for_each(|(panel, place)| {
                pack_panel(place.as_chunks_mut().0, matrix, block * KC, panel * NR);
            });
        });
        Self { data: place, inner, outer }
    }

    /// A matrix that was packed into `place` before.
    pub(crate) fn view(place: &'a [f32], [inner, outer]: [usize; 2]) -> Self {
        Self { data: &place[first_cache_line(place)..][..inner * outer.next_multiple_of(NR)], inner, outer }
    }

    /// The panels of the block of inner values from `from` on, which has `depth` of them.
    pub(super) fn panels(&self, from: usize, depth: usize) -> impl Iterator<Item = &'a [[f32; NR]]> {
        let width = self.outer.next_multiple_of(NR);
        self.data[from * width..][..depth * width].chunks_exact(depth * NR).map(|panel| panel.as_chunks().0)
    }
}

/// The part from the first cache line on: a register that is read across two cache lines takes twice as long.
pub(super) fn aligned(place: &mut [f32]) -> &mut [f32] {
    let first = first_cache_line(place);
    &mut place[first..]
}

/// place`[k, j]` = matrix`[from + k, col + j]`, and 0 past the last column.
fn pack_panel(place: &mut [[f32; NR]], matrix: Mat, from: usize, col: usize) {
    let cols = NR.min(matrix.cols - col);
    let Mat { data, row_stride, col_stride, .. } = matrix;
    let data = &data[from * row_stride + col * col_stride..];
    if cols < NR {
        place.as_flattened_mut().fill(0.0);
    }
    if col_stride == 1 {
        for (k, place) in place.iter_mut().enumerate() {
            place[..cols].copy_from_slice(&data[k * row_stride..][..cols]);
        }
        return;
    }
    let depth = place.len();
    let rows = Mat::strided(data, cols, depth, col_stride);
    transpose(place.as_flattened_mut(), NR, Accumulate::Overwrite, rows);
}
