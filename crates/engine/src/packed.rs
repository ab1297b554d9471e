//! Products with thousands of rows, for the shapes of training: x·W with weights packed once, and xᵀ·d.
//!
//! A general product packs both sides anew in every call. Here the weights are packed once per pass and the rows of
//! x are read where they lie; for a weight gradient both sides already run along the rows, so packing is copying.
//!
//! A packed side is cut into blocks of 512 inner values and those into panels of 64 columns, each of which
//! lies contiguously. A tile of the result stays in registers while a panel streams past it. Every element of the
//! result is the same sum in the same order, whatever rows are computed together and however wide the registers
//! are: pieces of rows may follow the number of threads.

use std::array;
use std::cell::RefCell;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::matmul::{Into, Mat};
use crate::simd::{LANES, arch, prefetch, prefetch_far};

/// Columns of a panel.
const PANEL: usize = 64;

/// Inner values that one block sums over before the result is touched: a panel of this depth takes
/// 128 KiB and streams from the second nearest cache.
const DEPTH: usize = 512;

/// Rows of the largest tile: with four registers of columns it takes 24 of 32 registers and leaves room for
/// the inputs.
pub const TILE: usize = 6;

/// Rows that pass by one panel before the next panel follows; they stay in the second nearest cache.
pub const ROWS: usize = 32 * TILE;

thread_local! {
    /// A thread's copies of a block of both sides of a sum of outer products.
    static COPIES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// A packed right-hand side `[inner, outer]`.
#[derive(Debug, Clone, Copy)]
pub struct Packed<'a> {
    data: &'a [f32],
    inner: usize,
    outer: usize,
}

impl<'a> Packed<'a> {
    /// Values that a packed matrix takes: its columns are padded to whole panels.
    pub fn len_of(inner: usize, outer: usize) -> usize {
        inner * outer.next_multiple_of(PANEL) + LANES
    }

    /// Packs a matrix into `place`, on all threads.
    ///
    /// # Panics
    /// If `place` is shorter than [`Packed::len_of`] or the matrix reaches past its slice.
    pub fn new(place: &'a mut [f32], matrix: Mat) -> Self {
        let (inner, outer) = (matrix.rows, matrix.cols);
        assert!(place.len() >= Self::len_of(inner, outer), "place for a packed matrix is too short");
        let place = &mut aligned(place)[..inner * outer.next_multiple_of(PANEL)];
        let width = outer.next_multiple_of(PANEL).max(1);
        place.par_chunks_mut(DEPTH * width).enumerate().for_each(|(block, place)| {
            let depth = place.len() / width;
            // Few panels per task would be woken up for less than they take.
            place.par_chunks_mut(depth * PANEL).with_min_len(8).enumerate().for_each(|(panel, place)| {
                pack_panel(place.as_chunks_mut().0, matrix, block * DEPTH, panel * PANEL);
            });
        });
        Self { data: place, inner, outer }
    }

    /// A matrix that was packed into `place` before.
    pub(crate) fn view(place: &'a [f32], [inner, outer]: [usize; 2]) -> Self {
        Self { data: &place[skipped(place)..][..inner * outer.next_multiple_of(PANEL)], inner, outer }
    }

    /// The panels of the block of inner values from `from` on, which has `depth` of them.
    fn panels(&self, from: usize, depth: usize) -> impl Iterator<Item = &'a [[f32; PANEL]]> {
        let width = self.outer.next_multiple_of(PANEL);
        self.data[from * width..][..depth * width]
            .chunks_exact(depth * PANEL)
            .map(|panel| panel.as_chunks().0)
    }
}

/// The part from the first cache line on: a register that is read across two lines takes twice as long.
fn aligned(place: &mut [f32]) -> &mut [f32] {
    let skipped = skipped(place);
    &mut place[skipped..]
}

/// Values before the first cache line.
fn skipped(place: &[f32]) -> usize {
    place.as_ptr().align_offset(4 * LANES).min(place.len())
}

/// place`[k, j]` = matrix`[from + k, col + j]`, and 0 past the last column.
fn pack_panel(place: &mut [[f32; PANEL]], matrix: Mat, from: usize, col: usize) {
    let cols = PANEL.min(matrix.cols - col);
    let Mat { data, row_stride, col_stride, .. } = matrix;
    let data = &data[from * row_stride + col * col_stride..];
    if cols < PANEL {
        place.as_flattened_mut().fill(0.0);
    }
    if col_stride == 1 {
        for (k, place) in place.iter_mut().enumerate() {
            place[..cols].copy_from_slice(&data[k * row_stride..][..cols]);
        }
        return;
    }
    // Square tiles: both the rows that are read and those that are written stay in the nearest cache.
    for (tile, place) in place.chunks_mut(LANES).enumerate() {
        for j in 0..cols {
            let source = &data[j * col_stride + tile * LANES * row_stride..];
            for (k, place) in place.iter_mut().enumerate() {
                place[j] = source[k * row_stride];
            }
        }
    }
}

/// place`[k]` = the first values of row k.
#[inline(always)]
fn copy_panel(place: &mut [[f32; PANEL]], data: &[f32], row_stride: usize) {
    for (k, place) in place.iter_mut().enumerate() {
        *place = *data[k * row_stride..].first_chunk().expect("a whole panel");
    }
}

/// place`[k]` = the first `cols` values of row k, and 0 in the rest of the last register.
#[inline(always)]
fn copy_narrow<S: Simd>(simd: S, place: &mut [[f32; PANEL]], data: &[f32], row_stride: usize, cols: usize) {
    for (k, place) in place.iter_mut().enumerate() {
        let (place, _) = S::as_mut_simd_f32s(place);
        let values = data[k * row_stride..][..cols].chunks(S::F32_LANES);
        for (place, values) in place.iter_mut().zip(values) {
            *place = simd.partial_load_f32s(values);
        }
    }
}

/// out (+)= x · w, where rows of `out` and of the row-major `x` may lie apart.
///
/// # Panics
/// If the shapes do not fit, `x` is a transposed view, or a view reaches past its slice.
pub fn product(out: &mut [f32], out_stride: usize, into: Into, x: Mat, w: Packed) {
    assert_eq!((x.cols, x.col_stride), (w.inner, 1), "left-hand side of a product");
    assert!(x.rows < 2 || w.outer <= out_stride, "rows of the output overlap");
    assert!(x.extent() <= x.data.len(), "left-hand side of a product is too short");
    arch().dispatch(RowProduct { out, out_stride, into, x, w });
}

struct RowProduct<'a> {
    out: &'a mut [f32],
    out_stride: usize,
    into: Into,
    x: Mat<'a>,
    w: Packed<'a>,
}

impl WithSimd for RowProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { out, out_stride, into, x, w } = self;
        // Rows that lie a power of two apart share few places of the cache.
        let pass = if x.row_stride == w.inner.min(DEPTH) { ROWS } else { ROWS / 2 };
        for first in (0..x.rows).step_by(pass) {
            let rows = pass.min(x.rows - first);
            for from in (0..w.inner).step_by(DEPTH) {
                let depth = DEPTH.min(w.inner - from);
                let into = if from == 0 { into } else { Into::Add };
                let left = Left::<1>::rows(x.part([first, from], [rows, depth]));
                // The same rows further on, or else the rows that follow.
                let (row, col) =
                    if from + depth < w.inner { (first, from + depth) } else { (first + rows, 0) };
                let later = [pass.min(x.rows - row), DEPTH.min(w.inner - col)];
                let mut later = Later::new((row < x.rows).then(|| x.part([row, col], later)));
                let mut panels = w.panels(from, depth).enumerate().peekable();
                while let Some((panel, b)) = panels.next() {
                    let cols = PANEL.min(w.outer - panel * PANEL);
                    let place = &mut out[first * out_stride + panel * PANEL..];
                    let mut to = Place { out: place, stride: out_stride, cols, into };
                    let next = panels.peek().map(|(_, b)| Mat::dense(b.as_flattened(), depth, PANEL));
                    tiles(simd, &mut to, left, b, [&mut Later::new(next), &mut later]);
                }
            }
        }
    }
}

/// out`[i, j]` += Σ_k x`[k, i]` y`[k, j]` for row-major x and y; `out` is dense. In passing, the rows of x and of y are
/// added to `sums`, where those are not empty.
///
/// # Panics
/// If the shapes do not fit, a view is transposed or reaches past its slice.
pub fn add_outer_products(out: &mut [f32], x: Mat, y: Mat, sums: [&mut [f32]; 2]) {
    assert_eq!((x.rows, x.col_stride, y.col_stride), (y.rows, 1, 1), "sides of a sum of outer products");
    assert_eq!(out.len(), x.cols * y.cols, "place of a sum of outer products");
    assert!(x.extent() <= x.data.len() && y.extent() <= y.data.len(), "a side is too short");
    assert!(
        [&x, &y].iter().zip(&sums).all(|(side, sums)| [0, side.cols].contains(&sums.len())),
        "sums of rows"
    );
    // The copies are borrowed out here: a closure inside the kernel need not be compiled for the kernel's instruction
    // set, and was then measured at a fiftieth of the speed.
    COPIES.with_borrow_mut(|sides| {
        let left = DEPTH * x.cols.next_multiple_of(TILE);
        sides.resize(sides.len().max(left + DEPTH * PANEL + 2 * LANES), 0.0);
        let (left, panel) = sides.split_at_mut(left);
        arch().dispatch(OuterProducts { out, x, y, sums, left, panel: aligned(panel) });
    });
}

struct OuterProducts<'a> {
    out: &'a mut [f32],
    x: Mat<'a>,
    y: Mat<'a>,
    sums: [&'a mut [f32]; 2],
    left: &'a mut [f32],
    panel: &'a mut [f32],
}

impl WithSimd for OuterProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { out, x, y, sums: [x_sums, y_sums], left, panel } = self;
        for from in (0..x.rows).step_by(DEPTH) {
            let depth = DEPTH.min(x.rows - from);
            let below = DEPTH.min(x.rows - from - depth);
            let block = x.part([from, 0], [depth, x.cols]);
            let left = Left::<TILE>::columns(left, block);
            add_rows(x_sums, block);
            let mut later = Later::new((below > 0).then(|| x.part([from + depth, 0], [below, x.cols])));
            for col in (0..y.cols).step_by(PANEL) {
                let cols = PANEL.min(y.cols - col);
                let b = panel.as_chunks_mut().0;
                let data = &y.data[from * y.row_stride + col..];
                match cols {
                    PANEL => copy_panel(&mut b[..depth], data, y.row_stride),
                    _ => copy_narrow(simd, &mut b[..depth], data, y.row_stride, cols),
                }
                if let Some(sums) = y_sums.get_mut(col..col + cols) {
                    add_rows(sums, Mat::dense(b.as_flattened(), depth, PANEL));
                }
                let mut to = Place { out: &mut out[col..], stride: y.cols, cols, into: Into::Add };
                let next = match col + PANEL < y.cols {
                    true => Some(y.part([from, col + PANEL], [depth, PANEL.min(y.cols - col - PANEL)])),
                    false if below > 0 => Some(y.part([from + depth, 0], [below, PANEL.min(y.cols)])),
                    false => None,
                };
                tiles(simd, &mut to, left, &b[..depth], [&mut Later::new(next), &mut later]);
            }
        }
    }
}

/// sums`[j]` += Σ_k x`[k, j]`, for the first columns of x.
#[inline(always)]
fn add_rows(sums: &mut [f32], x: Mat) {
    for k in 0..x.rows {
        let row = &x.data[k * x.row_stride..][..sums.len()];
        for (sum, &x) in sums.iter_mut().zip(row) {
            *sum += x;
        }
    }
}

/// The left-hand side of a block, in strips of [`TILE`] rows; inner values of a row lie `STEP` apart.
#[derive(Clone, Copy)]
struct Left<'a, const STEP: usize> {
    data: &'a [f32],
    rows: usize,
    depth: usize,
    /// Distance of rows within a strip, and of strips.
    strides: [usize; 2],
}

impl<'a> Left<'a, 1> {
    /// Rows where they lie.
    #[inline(always)]
    fn rows(x: Mat<'a>) -> Self {
        Self { data: x.data, rows: x.rows, depth: x.cols, strides: [x.row_stride, TILE * x.row_stride] }
    }
}

impl<'a> Left<'a, TILE> {
    /// A copy of the columns of `x`, which become rows.
    #[inline(always)]
    fn columns(place: &'a mut [f32], x: Mat) -> Self {
        /// Rows of `x` that are in the nearest cache while their values are spread over the strips.
        const NEAR: usize = 16;
        let (depth, strips) = (x.rows, x.cols.div_ceil(TILE));
        let (place, _) = place[..strips * depth * TILE].as_chunks_mut::<TILE>();
        assert!(x.extent() <= x.data.len());
        for first in (0..depth).step_by(NEAR) {
            let near = NEAR.min(depth - first);
            for (strip, place) in place.chunks_exact_mut(depth).enumerate() {
                let (col, place) = (strip * TILE, &mut place[first..first + near]);
                if col + TILE <= x.cols {
                    for (k, place) in place.iter_mut().enumerate() {
                        // SAFETY: the row and the columns are x's, which was asserted to lie within its data. Checks
                        // would take longer than the copy.
                        *place = unsafe { *x.data.as_ptr().add((first + k) * x.row_stride + col).cast() };
                    }
                } else {
                    for (k, place) in place.iter_mut().enumerate() {
                        let values = &x.data[(first + k) * x.row_stride..][col..x.cols];
                        place[..values.len()].copy_from_slice(values);
                    }
                }
            }
        }
        Self { data: place.as_flattened(), rows: x.cols, depth, strides: [1, depth * TILE] }
    }
}

/// A matrix that is read soon: tiles ask for it, piece by piece, while they compute.
struct Later<'a> {
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
    fn new(part: Option<Mat<'a>>) -> Self {
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
fn tiles<S: Simd, const STEP: usize>(
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
struct Place<'a> {
    out: &'a mut [f32],
    stride: usize,
    /// Columns that exist, at most a panel's.
    cols: usize,
    into: Into,
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
        prefetch_far(line(soon));
        if i < N * LINES {
            prefetch(line(place));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matmul::matmul;
    use crate::params::{RandomSource, SplitMix};

    fn numbers(stream: &str, n: usize) -> Vec<f32> {
        let random = SplitMix::new(9);
        (0..n as u64).map(|i| random.normal(stream, i)).collect()
    }

    fn assert_close(a: &[f32], b: &[f32], what: &str) {
        let error = a.iter().zip(b).fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(error < 2e-4, "{what}: off by {error}");
    }

    const SHAPES: [[usize; 3]; 8] = [
        [1, 1, 1],
        [64, 8, 8],
        [39, 20, 24],
        [7, 5, 32],
        [18, 300, 50],
        [33, 3, 64],
        [197, 513, 33],
        [100, 256, 96],
    ];

    #[test]
    fn agrees_with_the_general_product() {
        for [rows, inner, outer] in SHAPES {
            let (x, w) = (numbers("x", rows * (inner + 3)), numbers("w", inner * outer));
            let start = numbers("start", rows * (outer + 2));
            for (transposed, into) in [(false, Into::Overwrite), (true, Into::Add)] {
                let w = match transposed {
                    false => Mat::dense(&w, inner, outer),
                    true => Mat::dense(&w, outer, inner).t(),
                };
                let mut place = vec![f32::NAN; Packed::len_of(inner, outer)];
                let x = Mat::strided(&x, rows, inner, inner + 3);
                let (mut fast, mut general) = (start.clone(), start.clone());
                product(&mut fast, outer + 2, into, x, Packed::new(&mut place, w));
                matmul(&mut general, outer + 2, into, x, w);
                assert_close(&fast, &general, &format!("{rows} × {inner} × {outer}"));
            }
        }
    }

    #[test]
    fn outer_products_agree_with_the_general_product() {
        for [n, rows, m] in SHAPES {
            let (x, y) = (numbers("x", rows * (n + 3)), numbers("y", rows * m));
            let (x, y) = (Mat::strided(&x, rows, n, n + 3), Mat::dense(&y, rows, m));
            let start = numbers("start", n * m);
            let (mut fast, mut general) = (start.clone(), start);
            let (mut x_sums, mut y_sums) = (vec![1.0; n], vec![2.0; m]);
            add_outer_products(&mut fast, x, y, [&mut x_sums, &mut y_sums]);
            matmul(&mut general, m, Into::Add, x.t(), y);
            assert_close(&fast, &general, &format!("{n} × {m} over {rows}"));
            let total =
                |x: Mat, col: usize| -> f32 { (0..rows).map(|k| x.data[k * x.row_stride + col]).sum() };
            assert_close(&x_sums, &(0..n).map(|i| 1.0 + total(x, i)).collect::<Vec<_>>(), "sums of x");
            assert_close(&y_sums, &(0..m).map(|j| 2.0 + total(y, j)).collect::<Vec<_>>(), "sums of y");
        }
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_among_others() {
        let (rows, inner, outer) = (45, 300, 70);
        let (x, w) = (numbers("x", rows * inner), numbers("w", inner * outer));
        let mut place = vec![0.0; Packed::len_of(inner, outer)];
        let w = Packed::new(&mut place, Mat::dense(&w, inner, outer));
        let mut whole = vec![0.0; rows * outer];
        product(&mut whole, outer, Into::Overwrite, Mat::dense(&x, rows, inner), w);
        for (x, expected) in x.chunks_exact(inner).zip(whole.chunks_exact(outer)) {
            let mut alone = vec![0.0; outer];
            product(&mut alone, outer, Into::Overwrite, Mat::dense(x, 1, inner), w);
            assert_eq!(alone, expected);
        }
    }
}
