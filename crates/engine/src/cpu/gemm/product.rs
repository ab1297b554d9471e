//! x · W for packed W; rows of x are read where they lie.

use std::array;

use pulp::{Simd, WithSimd};

use super::general::{Accumulate, Mat};
use super::microkernel::{Microkernel, OutputPanel, all_tiles};
use super::prefetcher::{PrefetchBlock, Prefetcher, ROUND, TilePrefetch};
use super::{KC, MC, NR, PackedB, rows_per_pass};
use crate::cpu::simd::arch;

/// out (+)= x · w, where rows of `out` and of the row-major `x` may lie apart.
///
/// # Panics
/// If the shapes do not fit, `x` is a transposed view, or a view reaches past its slice.
pub fn product(out: &mut [f32], out_stride: usize, accumulate: Accumulate, x: Mat, w: PackedB) {
    product_prefetching(out, out_stride, accumulate, x, w, &mut Prefetcher::default());
}

/// As [`product`]; once it has prefetched all that it needs itself, it prefetches for later operations.
pub fn product_prefetching(
    out: &mut [f32],
    out_stride: usize,
    accumulate: Accumulate,
    x: Mat,
    w: PackedB,
    prefetcher: &mut Prefetcher,
) {
    assert_eq!((x.cols, x.col_stride), (w.inner, 1), "left-hand side of a product");
    assert!(x.rows < 2 || w.outer <= out_stride, "rows of the output overlap");
    assert!(x.extent() <= x.data.len(), "left-hand side of a product is too short");
    arch().dispatch(RowProduct { out, out_stride, accumulate, x, w, prefetcher });
}

struct RowProduct<'a> {
    out: &'a mut [f32],
    out_stride: usize,
    accumulate: Accumulate,
    x: Mat<'a>,
    w: PackedB<'a>,
    prefetcher: &'a mut Prefetcher,
}

impl WithSimd for RowProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { out, out_stride, accumulate, x, w, prefetcher } = self;
        // Rows that lie a power of two apart share few sets of the cache.
        let most = if x.row_stride == w.inner.min(KC) { MC } else { MC / 2 };
        let pass = rows_per_pass(x.rows, most);
        for first in (0..x.rows).step_by(pass) {
            let rows = pass.min(x.rows - first);
            for from in (0..w.inner).step_by(KC) {
                let depth = KC.min(w.inner - from);
                let accumulate = if from == 0 { accumulate } else { Accumulate::Add };
                let part = x.part([first, from], [rows, depth]);
                // The same rows further on, or else the rows that follow.
                let (row, col) =
                    if from + depth < w.inner { (first, from + depth) } else { (first + rows, 0) };
                let sizes = [pass.min(x.rows - row), KC.min(w.inner - col)];
                let mut later = PrefetchBlock::new((row < x.rows).then(|| x.part([row, col], sizes)));
                let mut panels = w.panels(from, depth).enumerate().peekable();
                while let Some((panel, b)) = panels.next() {
                    let cols = NR.min(w.outer - panel * NR);
                    let panel_out = &mut out[first * out_stride + panel * NR..];
                    let to = OutputPanel { out: panel_out, stride: out_stride, cols, accumulate };
                    let next = panels.peek().map(|(_, b)| Mat::dense(b.as_flattened(), depth, NR));
                    let mut tiles = RowTiles::new(to, part, b, [PrefetchBlock::new(next), later], prefetcher);
                    all_tiles(simd, rows, cols, &mut tiles);
                    [_, later] = tiles.upcoming;
                }
            }
        }
    }
}

/// Tiles of one panel; meanwhile what follows is prefetched.
struct RowTiles<'o, 'a> {
    to: OutputPanel<'o>,
    x: Mat<'a>,
    b: &'a [[f32; NR]],
    upcoming: [PrefetchBlock<'a>; 2],
    prefetcher: &'o mut Prefetcher,
}

impl<'o, 'a> RowTiles<'o, 'a> {
    /// # Panics
    /// If `x` reaches past its slice or is not as deep as `b`.
    #[inline(always)]
    fn new(
        to: OutputPanel<'o>,
        x: Mat<'a>,
        b: &'a [[f32; NR]],
        upcoming: [PrefetchBlock<'a>; 2],
        prefetcher: &'o mut Prefetcher,
    ) -> Self {
        assert!(x.cols == b.len() && (x.rows - 1) * x.row_stride + x.cols <= x.data.len());
        Self { to, x, b, upcoming, prefetcher }
    }
}

impl<S: Simd> Microkernel<S> for RowTiles<'_, '_> {
    const ANYWHERE: bool = true;

    #[inline(always)]
    fn tile<const N: usize, const R: usize>(&mut self, simd: S, row: usize) -> usize {
        let Self { to, x, b, upcoming, prefetcher } = self;
        let prefetches = to.prefetches(row, N, b.len(), upcoming, prefetcher);
        for col in (0..to.cols).step_by(R * S::F32_LANES) {
            let rows = array::from_fn(|r| x.data[(row + r) * x.row_stride..].as_ptr());
            // SAFETY: `new` has asserted that `x` is within its data and as deep as `b`; `R` registers are a power of two of
            // columns up to a panel's, so that they are within each row of `b`.
            let sums = unsafe { sums::<S, N, R>(simd, rows, b, col, prefetches) };
            // SAFETY: `prefetches` has checked that the rows exist.
            unsafe { to.put(simd, [row, col], sums) };
        }
        N
    }
}

/// sums`[r]` = Σ_k rows`[r][k]` · b`[k][col..]`, each in `R` registers.
///
/// # Safety
/// `b.len()` values of each row and `R` registers of each row of `b` from `col` on must exist.
#[inline(always)]
unsafe fn sums<S: Simd, const N: usize, const R: usize>(
    simd: S,
    mut rows: [*const f32; N],
    b: &[[f32; NR]],
    col: usize,
    prefetches: TilePrefetch,
) -> [[S::f32s; R]; N] {
    let mut sums = [[simd.splat_f32s(0.0); R]; N];
    // One address per row is advanced per round, not per value.
    let (rounds, rest) = b.as_chunks::<ROUND>();
    for (i, round) in rounds.iter().enumerate() {
        prefetches.issue(i);
        for (k, b) in round.iter().enumerate() {
            // SAFETY: as promised by the caller.
            unsafe { add_products::<S, N, R>(simd, &mut sums, &rows, k, &b[col..]) };
        }
        rows = rows.map(|row| row.wrapping_add(ROUND));
    }
    for (k, b) in rest.iter().enumerate() {
        // SAFETY: as promised by the caller.
        unsafe { add_products::<S, N, R>(simd, &mut sums, &rows, k, &b[col..]) };
    }
    sums
}

/// sums`[r]` += rows`[r][k]` · b. A function and not a closure, which need not be compiled for the same instruction set.
///
/// # Safety
/// The value of each row and `R` registers of `b` must exist.
#[inline(always)]
unsafe fn add_products<S: Simd, const N: usize, const R: usize>(
    simd: S,
    sums: &mut [[S::f32s; R]; N],
    rows: &[*const f32; N],
    k: usize,
    b: &[f32],
) {
    let b = b.as_ptr().cast::<S::f32s>();
    // SAFETY: promised by the caller; a vector of floats may lie anywhere when read unaligned.
    let b: [S::f32s; R] = array::from_fn(|i| unsafe { b.wrapping_add(i).read_unaligned() });
    for (row, sums) in rows.iter().zip(sums) {
        // SAFETY: promised by the caller.
        let factor = simd.splat_f32s(unsafe { *row.wrapping_add(k) });
        for (sum, &b) in sums.iter_mut().zip(&b) {
            *sum = simd.mul_add_f32s(factor, b, *sum);
        }
    }
}
