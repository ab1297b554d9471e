//! Products whose right-hand side is packed once and then used for many rows.
//!
//! A recurrent layer multiplies a few rows by the same weights for every token: a general product would pack the
//! weights each time, which for 32 rows takes about as long as the product itself. (With thousands of rows the
//! general product of [`crate::matmul`] is faster.)
//!
//! The right-hand side is cut into blocks of 256 inner values and those into panels of 64 columns, each of which
//! lies contiguously. A tile of the result stays in registers while a panel streams past it. Every element of the result is the same sum in the same order, whatever rows are
//! computed together and however wide the registers are: pieces of rows may follow the number of threads.

use std::array;
use std::cell::RefCell;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::matmul::{Into, Mat};
use crate::simd::{LANES, arch, prefetch};

/// Columns of a panel.
const PANEL: usize = 64;

/// Inner values that one block sums over before the result is touched: a panel of this depth takes
/// 64 KiB and streams from the second nearest cache.
const DEPTH: usize = 256;

/// Rows of the largest tile: with four registers of columns it takes 24 of 32 registers and leaves room for
/// the inputs.
const TILE: usize = 6;

/// Rows of the left-hand side that are copied at once; they stay in the second nearest cache.
pub const ROWS: usize = 16 * TILE;

/// Length of a copied row. The gap keeps rows from colliding in the nearest cache.
const ROW: usize = DEPTH + LANES;

thread_local! {
    /// A thread's copy of a block of the left-hand side.
    static LEFT: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
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
    let skipped = place.as_ptr().align_offset(4 * LANES).min(place.len());
    &mut place[skipped..]
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

/// out (+)= x · w, where rows of `out` and of the row-major `x` may lie apart.
///
/// # Panics
/// If the shapes do not fit, `x` is a transposed view, or a view reaches past its slice.
pub fn product(out: &mut [f32], out_stride: usize, into: Into, x: Mat, w: Packed) {
    assert_eq!((x.cols, x.col_stride), (w.inner, 1), "left-hand side of a product");
    assert!(x.rows < 2 || w.outer <= out_stride, "rows of the output overlap");
    // The copy is borrowed out here: a closure inside the kernel need not be compiled for the kernel's instruction set,
    // and was then measured at a fiftieth of the speed.
    LEFT.with_borrow_mut(|left| {
        left.resize(left.len().max(ROWS * ROW), 0.0);
        arch().dispatch(RowProduct { out, out_stride, into, x, w, left: left.as_chunks_mut().0 });
    });
}

struct RowProduct<'a> {
    out: &'a mut [f32],
    out_stride: usize,
    into: Into,
    x: Mat<'a>,
    w: Packed<'a>,
    left: &'a mut [[f32; ROW]],
}

impl WithSimd for RowProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { out, out_stride, into, x, w, left } = self;
        for from in (0..w.inner).step_by(DEPTH) {
            let depth = DEPTH.min(w.inner - from);
            let into = if from == 0 { into } else { Into::Add };
            for first in (0..x.rows).step_by(ROWS) {
                let rows = ROWS.min(x.rows - first);
                for (r, left) in left[..rows].iter_mut().enumerate() {
                    let row = &x.data[(first + r) * x.row_stride + from..];
                    left[..depth].copy_from_slice(&row[..depth]);
                }
                for (panel, b) in w.panels(from, depth).enumerate() {
                    let cols = PANEL.min(w.outer - panel * PANEL);
                    let place = &mut out[first * out_stride + panel * PANEL..];
                    let mut to = Place { out: place, stride: out_stride, cols, into };
                    row_tiles(simd, &mut to, &left[..rows], b);
                }
            }
        }
    }
}

/// All tiles of one panel for rows that lie one after the other.
#[inline(always)]
fn row_tiles<S: Simd>(simd: S, to: &mut Place, left: &[[f32; ROW]], b: &[[f32; PANEL]]) {
    let mut row = 0;
    while row < left.len() {
        let left = &left[row..];
        row += match (left.len(), S::F32_LANES >= LANES) {
            (TILE.., true) => row_tile::<S, TILE, 4>(simd, to, row, left, b),
            (4.., true) => row_tile::<S, 4, 4>(simd, to, row, left, b),
            (2.., true) => row_tile::<S, 2, 4>(simd, to, row, left, b),
            (_, true) => row_tile::<S, 1, 4>(simd, to, row, left, b),
            (TILE.., false) => row_tile::<S, TILE, 2>(simd, to, row, left, b),
            (_, false) => row_tile::<S, 1, 2>(simd, to, row, left, b),
        };
    }
}

#[inline(always)]
fn row_tile<S: Simd, const N: usize, const R: usize>(
    simd: S,
    to: &mut Place,
    row: usize,
    left: &[[f32; ROW]],
    b: &[[f32; PANEL]],
) -> usize {
    let left: &[[f32; ROW]; N] = left.first_chunk().expect("as many rows as the tile has");
    tile::<S, N, R>(simd, to, row, b, |k, r| left[r][k])
}

/// Where a tile of a result goes.
struct Place<'a> {
    out: &'a mut [f32],
    stride: usize,
    /// Columns that exist, at most a panel's.
    cols: usize,
    into: Into,
}

/// Computes `N` rows of a panel's columns from `row` on; `a(k, r)` is the left-hand side. Returns `N`.
#[inline(always)]
fn tile<S: Simd, const N: usize, const R: usize>(
    simd: S,
    to: &mut Place,
    row: usize,
    b: &[[f32; PANEL]],
    a: impl Fn(usize, usize) -> f32,
) -> usize {
    assert!(b.len() <= DEPTH && (row + N - 1) * to.stride + to.cols <= to.out.len());
    let whole = to.cols == PANEL;
    for r in 0..N {
        // The sums take long enough for the place they go to to arrive in the nearest cache.
        let place = to.out.as_ptr().wrapping_add((row + r) * to.stride);
        (0..PANEL).step_by(LANES).for_each(|col| prefetch(place.wrapping_add(col)));
    }
    let width = R * S::F32_LANES;
    for col in (0..to.cols).step_by(width) {
        let mut sums = [[simd.splat_f32s(0.0); R]; N];
        for k in 0..b.len() {
            let (b, _) = S::as_simd_f32s(&b[k][col..col + width]);
            let b: [S::f32s; R] = array::from_fn(|i| b[i]);
            for (r, sums) in sums.iter_mut().enumerate() {
                let factor = simd.splat_f32s(a(k, r));
                for (sum, &b) in sums.iter_mut().zip(&b) {
                    *sum = simd.mul_add_f32s(factor, b, *sum);
                }
            }
        }
        for (r, &sums) in sums.iter().enumerate() {
            let from = (row + r) * to.stride + col;
            if whole {
                // SAFETY: `width` is a power of two up to a panel's columns, so `col + width <= cols`, and
                // `from + width` is at most `(row + N - 1) * stride + cols`, which was asserted to lie within `out`. A check per row would keep the sums from staying in registers.
                let place = unsafe { to.out.get_unchecked_mut(from..from + width) };
                let (place, _) = S::as_mut_simd_f32s(place);
                for (place, &sum) in place.iter_mut().zip(&sums) {
                    *place = match to.into {
                        Into::Overwrite => sum,
                        Into::Add => simd.add_f32s(*place, sum),
                    };
                }
            } else {
                store_part::<S, R>(&mut to.out[from..][..width.min(to.cols - col)], to.into, sums);
            }
        }
    }
    N
}

/// Writes registers, or adds them, to a place that is shorter.
#[inline(always)]
fn store_part<S: Simd, const R: usize>(place: &mut [f32], into: Into, sums: [S::f32s; R]) {
    let mut whole = [0.0; PANEL];
    S::as_mut_simd_f32s(&mut whole).0[..R].copy_from_slice(&sums);
    for (place, &sum) in place.iter_mut().zip(&whole) {
        match into {
            Into::Overwrite => *place = sum,
            Into::Add => *place += sum,
        }
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

    const SHAPES: [[usize; 3]; 6] =
        [[1, 1, 1], [7, 5, 32], [18, 300, 50], [33, 3, 64], [197, 513, 33], [100, 256, 96]];

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
