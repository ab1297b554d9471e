//! x · W for packed W, rows of x where they lie.

use std::array;

use pulp::{Simd, WithSimd};

use super::microkernel::{Ahead, Asked, Later, Place, ROUND, Tiles, all_tiles};
use super::{DEPTH, PANEL, Packed, ROWS, rows_per_pass};
use crate::cpu::gemm::general::{Into, Mat};
use crate::cpu::simd::arch;

/// out (+)= x · w, where rows of `out` and of the row-major `x` may lie apart.
///
/// # Panics
/// If the shapes do not fit, `x` is a transposed view, or a view reaches past its slice.
pub fn product(out: &mut [f32], out_stride: usize, into: Into, x: Mat, w: Packed) {
    product_asking(out, out_stride, into, x, w, &mut Ahead::default());
}

/// As [`product`]; where it has asked for all that it needs itself, it asks for what lies ahead.
pub fn product_asking(out: &mut [f32], out_stride: usize, into: Into, x: Mat, w: Packed, ahead: &mut Ahead) {
    assert_eq!((x.cols, x.col_stride), (w.inner, 1), "left-hand side of a product");
    assert!(x.rows < 2 || w.outer <= out_stride, "rows of the output overlap");
    assert!(x.extent() <= x.data.len(), "left-hand side of a product is too short");
    arch().dispatch(RowProduct { out, out_stride, into, x, w, ahead });
}

struct RowProduct<'a> {
    out: &'a mut [f32],
    out_stride: usize,
    into: Into,
    x: Mat<'a>,
    w: Packed<'a>,
    ahead: &'a mut Ahead,
}

impl WithSimd for RowProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { out, out_stride, into, x, w, ahead } = self;
        // Rows that lie a power of two apart share few places of the cache.
        let most = if x.row_stride == w.inner.min(DEPTH) { ROWS } else { ROWS / 2 };
        let pass = rows_per_pass(x.rows, most);
        for first in (0..x.rows).step_by(pass) {
            let rows = pass.min(x.rows - first);
            for from in (0..w.inner).step_by(DEPTH) {
                let depth = DEPTH.min(w.inner - from);
                let into = if from == 0 { into } else { Into::Add };
                let part = x.part([first, from], [rows, depth]);
                // The same rows further on, or else the rows that follow.
                let (row, col) =
                    if from + depth < w.inner { (first, from + depth) } else { (first + rows, 0) };
                let later = [pass.min(x.rows - row), DEPTH.min(w.inner - col)];
                let mut later = Later::new((row < x.rows).then(|| x.part([row, col], later)));
                let mut panels = w.panels(from, depth).enumerate().peekable();
                while let Some((panel, b)) = panels.next() {
                    let cols = PANEL.min(w.outer - panel * PANEL);
                    let place = &mut out[first * out_stride + panel * PANEL..];
                    let to = Place { out: place, stride: out_stride, cols, into };
                    let next = panels.peek().map(|(_, b)| Mat::dense(b.as_flattened(), depth, PANEL));
                    let mut tiles = RowTiles::new(to, part, b, [Later::new(next), later], ahead);
                    all_tiles(simd, rows, cols, &mut tiles);
                    [_, later] = tiles.later;
                }
            }
        }
    }
}

/// Tiles of one panel; meanwhile what follows is asked for.
struct RowTiles<'o, 'a> {
    to: Place<'o>,
    x: Mat<'a>,
    b: &'a [[f32; PANEL]],
    later: [Later<'a>; 2],
    ahead: &'o mut Ahead,
}

impl<'o, 'a> RowTiles<'o, 'a> {
    /// # Panics
    /// If `x` reaches past its slice or is not as deep as `b`.
    #[inline(always)]
    fn new(
        to: Place<'o>,
        x: Mat<'a>,
        b: &'a [[f32; PANEL]],
        later: [Later<'a>; 2],
        ahead: &'o mut Ahead,
    ) -> Self {
        assert!(x.cols == b.len() && (x.rows - 1) * x.row_stride + x.cols <= x.data.len());
        Self { to, x, b, later, ahead }
    }
}

impl<S: Simd> Tiles<S> for RowTiles<'_, '_> {
    #[inline(always)]
    fn tile<const N: usize, const R: usize>(&mut self, simd: S, row: usize) -> usize {
        let Self { to, x, b, later, ahead } = self;
        let asked = to.asked(row, N, b.len(), later, ahead);
        for col in (0..to.cols).step_by(R * S::F32_LANES) {
            let rows = array::from_fn(|r| &x.data[(row + r) * x.row_stride]);
            // SAFETY: `new` has asserted that `x` is within its data and as deep as `b`; `R` registers are a power of two of
            // columns up to a panel's, so that they are within each row of `b`. `asked` has checked the place.
            unsafe {
                let sums = sums::<S, N, R>(simd, rows, b, col, asked);
                to.put(simd, [row, col], sums);
            }
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
    rows: [&f32; N],
    b: &[[f32; PANEL]],
    col: usize,
    asked: Asked,
) -> [[S::f32s; R]; N] {
    let mut sums = [[simd.splat_f32s(0.0); R]; N];
    // One address per row is advanced per round, not per value.
    let mut rows = rows.map(std::ptr::from_ref);
    let (rounds, rest) = b.as_chunks::<ROUND>();
    for (i, round) in rounds.iter().enumerate() {
        asked.ask(i);
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
    let b: [S::f32s; R] = array::from_fn(|i| unsafe { b.add(i).read_unaligned() });
    for (row, sums) in rows.iter().zip(sums) {
        // SAFETY: promised by the caller.
        let factor = simd.splat_f32s(unsafe { *row.add(k) });
        for (sum, &b) in sums.iter_mut().zip(&b) {
            *sum = simd.mul_add_f32s(factor, b, *sum);
        }
    }
}
