//! A tile of a result: computed in registers while a panel streams past, and what follows asked for meanwhile.

use std::array;

use pulp::Simd;

use super::{PANEL, TILE};
use crate::matmul::{Into, Mat};
use crate::simd::{LANES, NEAREST, SECOND, prefetch};

/// The left-hand side of a block, in strips of [`TILE`] rows; inner values of a row lie `STEP` apart.
#[derive(Clone, Copy)]
pub(super) struct Left<'a, const STEP: usize> {
    pub data: &'a [f32],
    pub rows: usize,
    pub depth: usize,
    /// Distance of rows within a strip, and of strips.
    pub strides: [usize; 2],
}

impl<'a> Left<'a, 1> {
    /// Rows where they lie.
    #[inline(always)]
    pub fn rows(x: Mat<'a>) -> Self {
        Self { data: x.data, rows: x.rows, depth: x.cols, strides: [x.row_stride, TILE * x.row_stride] }
    }
}

/// A matrix that is read soon: tiles ask for it, piece by piece, while they compute.
pub(super) struct Later<'a> {
    part: Option<Mat<'a>>,
    row: usize,
    col: usize,
}

/// Inner values per round of a tile's loop: one address per row is advanced per round, not per value. Each round
/// asks for one line of what is needed later: many at once would hold up the reads that the sums wait for.
const ROUND: usize = 4;

/// Lines of the caches that a panel's row takes.
const LINES: usize = PANEL / LANES;

impl<'a> Later<'a> {
    #[inline(always)]
    pub fn new(part: Option<Mat<'a>>) -> Self {
        Self { part, row: 0, col: 0 }
    }

    /// Where the next `rows` rows of a panel's width begin and how far they lie apart.
    #[inline(always)]
    fn next(&mut self, rows: usize) -> Option<(*const f32, usize)> {
        let part = self.part?;
        let at = part.data.as_ptr().wrapping_add(self.row * part.row_stride + self.col);
        self.row += rows;
        if self.row >= part.rows {
            (self.row, self.col) = (0, self.col + PANEL);
        }
        if self.col >= part.cols {
            self.part = None;
        }
        Some((at, part.row_stride))
    }
}

/// All tiles of one panel; meanwhile what follows is asked for.
#[inline(always)]
pub(super) fn tiles<S: Simd, const STEP: usize>(
    simd: S,
    to: &mut Place,
    left: Left<STEP>,
    b: &[[f32; PANEL]],
    [next, later]: [&mut Later; 2],
) {
    let [row_stride, strip_stride] = left.strides;
    let last = (left.rows - 1) / TILE * strip_stride + (left.rows - 1) % TILE * row_stride;
    assert!(left.depth == b.len() && last + (left.depth - 1) * STEP < left.data.len());
    let asked = (b.len() / ROUND / LINES).max(1);
    let mut row = 0;
    while row < left.rows {
        let soon = next.next(asked).or_else(|| later.next(asked)).unwrap_or((b.as_ptr().cast(), 0));
        // Registers of columns: as many as there are columns for.
        let registers = to.cols.div_ceil(S::F32_LANES).min(if S::F32_LANES >= LANES { 4 } else { 2 });
        row += match (left.rows - row, registers) {
            (TILE.., 3..) => tile::<S, TILE, 4, STEP>(simd, to, row, left, b, soon),
            (4.., 3..) => tile::<S, 4, 4, STEP>(simd, to, row, left, b, soon),
            (2.., 3..) => tile::<S, 2, 4, STEP>(simd, to, row, left, b, soon),
            (_, 3..) => tile::<S, 1, 4, STEP>(simd, to, row, left, b, soon),
            (TILE.., 2) => tile::<S, TILE, 2, STEP>(simd, to, row, left, b, soon),
            (_, 2) => tile::<S, 1, 2, STEP>(simd, to, row, left, b, soon),
            (TILE.., _) => tile::<S, TILE, 1, STEP>(simd, to, row, left, b, soon),
            _ => tile::<S, 1, 1, STEP>(simd, to, row, left, b, soon),
        };
    }
}

/// Where a tile of a result goes.
pub(super) struct Place<'a> {
    pub out: &'a mut [f32],
    pub stride: usize,
    /// Columns that exist, at most a panel's.
    pub cols: usize,
    pub into: Into,
}

/// Computes `N` rows of a panel's columns from `row` on. Returns `N`.
#[inline(always)]
fn tile<S: Simd, const N: usize, const R: usize, const STEP: usize>(
    simd: S,
    to: &mut Place,
    row: usize,
    left: Left<STEP>,
    b: &[[f32; PANEL]],
    soon: (*const f32, usize),
) -> usize {
    assert!(row % TILE + N <= TILE && row + N <= left.rows);
    assert!((row + N - 1) * to.stride + to.cols <= to.out.len());
    let place = (to.out.as_ptr().wrapping_add(row * to.stride), to.stride);
    let width = R * S::F32_LANES;
    let [row_stride, strip_stride] = left.strides;
    let first = row / TILE * strip_stride + row % TILE * row_stride;
    for col in (0..to.cols).step_by(width) {
        let rows = array::from_fn(|r| &left.data[first + r * row_stride]);
        // SAFETY: `tiles` has asserted that `left` is within its data and as deep as `b`; `width` is a power of two up to
        // a panel's columns, so that `col + width` is within each row of `b`.
        let sums = unsafe { sums::<S, N, R, STEP>(simd, rows, b, col, [place, soon]) };
        for (r, &sums) in sums.iter().enumerate() {
            let from = (row + r) * to.stride + col;
            if col + width <= to.cols {
                // SAFETY: `col + width <= cols`, and `(row + N - 1) * stride + cols` was asserted to lie within `out`.
                // A check per row would keep the sums from staying in registers.
                let place = unsafe { to.out.get_unchecked_mut(from..from + width) };
                let (place, _) = S::as_mut_simd_f32s(place);
                for (place, &sum) in place.iter_mut().zip(&sums) {
                    *place = match to.into {
                        Into::Overwrite => sum,
                        Into::Add => simd.add_f32s(*place, sum),
                    };
                }
            } else {
                store_part::<S, R>(simd, &mut to.out[from..][..to.cols - col], to.into, sums);
            }
        }
    }
    N
}

/// sums`[r]` = Σ_k rows`[r][k · STEP]` · b`[k][col..]`, each in `R` registers.
///
/// # Safety
/// `b.len()` values of each row, `STEP` apart, and `R` registers of each row of `b` from `col` on must exist.
#[inline(always)]
unsafe fn sums<S: Simd, const N: usize, const R: usize, const STEP: usize>(
    simd: S,
    rows: [&f32; N],
    b: &[[f32; PANEL]],
    col: usize,
    [place, soon]: [(*const f32, usize); 2],
) -> [[S::f32s; R]; N] {
    let mut sums = [[simd.splat_f32s(0.0); R]; N];
    let mut rows = rows.map(std::ptr::from_ref);
    let (rounds, rest) = b.as_chunks::<ROUND>();
    for (i, round) in rounds.iter().enumerate() {
        let line =
            |(from, stride): (*const f32, usize)| from.wrapping_add(i / LINES * stride + i % LINES * LANES);
        prefetch::<SECOND>(line(soon));
        if i < N * LINES {
            prefetch::<NEAREST>(line(place));
        }
        for (k, b) in round.iter().enumerate() {
            // SAFETY: as promised by the caller.
            unsafe { add_products::<S, N, R, STEP>(simd, &mut sums, &rows, k, &b[col..]) };
        }
        rows = rows.map(|row| row.wrapping_add(ROUND * STEP));
    }
    for (k, b) in rest.iter().enumerate() {
        // SAFETY: as promised by the caller.
        unsafe { add_products::<S, N, R, STEP>(simd, &mut sums, &rows, k, &b[col..]) };
    }
    sums
}

/// sums`[r]` += rows`[r][k · STEP]` · b. A function and not a closure: see [`add_outer_products`].
///
/// # Safety
/// The value of each row and `R` registers of `b` must exist.
#[inline(always)]
unsafe fn add_products<S: Simd, const N: usize, const R: usize, const STEP: usize>(
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
        let factor = simd.splat_f32s(unsafe { *row.add(k * STEP) });
        for (sum, &b) in sums.iter_mut().zip(&b) {
            *sum = simd.mul_add_f32s(factor, b, *sum);
        }
    }
}

/// Writes registers, or adds them, to a place that is shorter.
#[inline(always)]
fn store_part<S: Simd, const R: usize>(simd: S, place: &mut [f32], into: Into, sums: [S::f32s; R]) {
    for (place, sum) in place.chunks_mut(S::F32_LANES).zip(sums) {
        let sum = match into {
            Into::Overwrite => sum,
            Into::Add => simd.add_f32s(simd.partial_load_f32s(place), sum),
        };
        simd.partial_store_f32s(place, sum);
    }
}
