//! Products of small matrices, as attention has them: one tile of the result stays in registers, nothing is packed.
//!
//! A general product packs its inputs first, which for a head of 82 tokens × 32 costs more than the product.

use std::array;

use pulp::{Simd, WithSimd};

use crate::cpu::gemm::general::{Accumulate, Mat, matmul};
use crate::cpu::simd::{LANES, arch};

/// out (+)= a · b for small matrices; the same contract as [`matmul`], to which other shapes fall back.
///
/// # Panics
/// If the shapes do not fit or a view reaches past its slice.
pub fn small_matmul(out: &mut [f32], out_stride: usize, accumulate: Accumulate, a: Mat, b: Mat) {
    if b.col_stride != 1 || !b.cols.is_multiple_of(LANES) {
        return matmul(out, out_stride, accumulate, a, b);
    }
    assert_eq!(a.cols, b.rows, "inner sizes of a product differ");
    assert!(a.extent() <= a.data.len() && b.extent() <= b.data.len(), "input of a product is too short");
    let extent = a.rows.saturating_sub(1) * out_stride + b.cols;
    assert!(extent <= out.len(), "output of a product is too short");
    arch().dispatch(Product { out, out_stride, accumulate, a, b });
}

struct Product<'a> {
    out: &'a mut [f32],
    out_stride: usize,
    accumulate: Accumulate,
    a: Mat<'a>,
    b: Mat<'a>,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (rows, cols) = (self.a.rows, self.b.cols);
        let mut col = 0;
        while col < cols {
            // Eight rows by two registers leave room for the inputs among 32 registers.
            let wide = cols - col >= 2 * S::F32_LANES;
            let mut row = 0;
            while row < rows {
                row += match (rows - row, wide) {
                    (8.., true) => self.tile::<S, 8, 2>(simd, row, col),
                    (4.., true) => self.tile::<S, 4, 2>(simd, row, col),
                    (2.., true) => self.tile::<S, 2, 2>(simd, row, col),
                    (_, true) => self.tile::<S, 1, 2>(simd, row, col),
                    (8.., false) => self.tile::<S, 8, 1>(simd, row, col),
                    (_, false) => self.tile::<S, 1, 1>(simd, row, col),
                };
            }
            col += if wide { 2 * S::F32_LANES } else { S::F32_LANES };
        }
    }
}

impl Product<'_> {
    /// Computes `MR` rows by `NR_REGISTERS` registers of the result; returns `MR`.
    #[inline(always)]
    fn tile<S: Simd, const MR: usize, const NR_REGISTERS: usize>(
        &mut self,
        simd: S,
        row: usize,
        col: usize,
    ) -> usize {
        let width = NR_REGISTERS * S::F32_LANES;
        let (a, b) = (self.a, self.b);
        let mut sums = [[simd.splat_f32s(0.0); NR_REGISTERS]; MR];
        debug_assert!(row + MR <= a.rows && col + width <= b.cols);
        for k in 0..a.cols {
            // SAFETY: tiles lie within the result, so `k`, `row + r` and `col..col + width` are indices of the
            // views, and `small_matmul` has asserted that the views lie within their slices. Checks in this loop
            // would take as long as the sums.
            let b_row =
                unsafe { b.data.get_unchecked(k * b.row_stride + col..k * b.row_stride + col + width) };
            let (b_row, _) = S::as_simd_f32s(b_row);
            let b_row: [S::f32s; NR_REGISTERS] = array::from_fn(|v| b_row[v]);
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let factor = unsafe { *a.data.get_unchecked((row + r) * a.row_stride + k * a.col_stride) };
                let factor = simd.splat_f32s(factor);
                for (sum, &b) in sums.iter_mut().zip(&b_row) {
                    *sum = simd.mul_add_f32s(factor, b, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let place = &mut self.out[(row + r) * self.out_stride + col..][..width];
            let (place, _) = S::as_mut_simd_f32s(place);
            for (place, &sum) in place.iter_mut().zip(sums) {
                *place = match self.accumulate {
                    Accumulate::Overwrite => sum,
                    Accumulate::Add => simd.add_f32s(*place, sum),
                };
            }
        }
        MR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deviation::worst;
    use crate::model::parameters::{RandomSource, SplitMix};

    #[test]
    fn agrees_with_the_general_product() {
        let random = SplitMix::new(9);
        let numbers = |stream: &str| (0..60 * 60).map(|i| random.normal(stream, i)).collect::<Vec<f32>>();
        let (x, y, start) = (numbers("x"), numbers("y"), numbers("start"));
        let shapes = [(1, 1, 16), (7, 5, 32), (8, 9, 33), (32, 3, 16), (18, 13, 48)];
        let few = if cfg!(miri) { 3 } else { shapes.len() };
        for &(rows, inner, cols) in &shapes[..few] {
            for transposed in [false, true] {
                for accumulate in [Accumulate::Overwrite, Accumulate::Add] {
                    let a = match transposed {
                        false => Mat::strided(&x, rows, inner, 57),
                        true => Mat::strided(&x, inner, rows, 57).t(),
                    };
                    let b = Mat::strided(&y, inner, cols, 59);
                    let (mut small, mut general) = (start.clone(), start.clone());
                    small_matmul(&mut small, 51, accumulate, a, b);
                    matmul(&mut general, 51, accumulate, a, b);
                    let error = worst(small.iter().zip(&general).map(|(s, g)| (s - g).abs()));
                    assert!(error < 1e-5, "{rows} × {inner} × {cols}: off by {error}");
                }
            }
        }
    }
}
