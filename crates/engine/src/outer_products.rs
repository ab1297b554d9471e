//! Sums of outer products over many rows, out`[i, j]` += Σ_r a`[r, i]` b`[r, j]`: every weight gradient is one.
//!
//! Blocks of rows of both sides are copied, row after row as they lie in memory, into the order in which the tiles of
//! the result read them. (A general product packs the transposed side column by column, and was measured a tenth
//! slower on rows that come from memory.) Tasks share out the result, never the rows: every element is the same sum in
//! the same order on any number of threads, and no partial sums are kept.

use std::cell::RefCell;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::matmul::{Into, Mat};
use crate::packed::{PANEL, Place, TILE, aligned, tile};
use crate::simd::{LANES, arch, vectorised};

/// Rows that are summed before the result is touched: a panel of this depth stays in the nearest cache.
const DEPTH: usize = 128;

/// Columns of `a` that are copied at once: with a block of rows they take half of the second nearest cache.
const GROUP: usize = 84 * TILE;

thread_local! {
    /// A thread's copies of a block of rows: `a` in tiles of a few columns, `b` in panels.
    static COPIES: RefCell<(Vec<[f32; TILE]>, Vec<f32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// out`[i, j]` += Σ_r a`[r, i]` b`[r, j]` for row-major `a` and `b`, on all threads.
///
/// # Panics
/// If the shapes do not fit, a side is a transposed view, or `scratch` is shorter than `out`.
pub fn add_outer_products(out: &mut [f32], a: Mat, b: Mat, scratch: &mut [f32]) {
    let (rows, cols) = (a.cols, b.cols);
    assert_eq!((a.rows, a.col_stride, b.col_stride), (b.rows, 1, 1), "sides of a sum of outer products");
    assert_eq!(out.len(), rows * cols, "result of a sum of outer products");
    let threads = rayon::current_num_threads();
    if rows >= cols {
        let piece = rows.div_ceil(threads).next_multiple_of(TILE);
        out.par_chunks_mut(piece * cols).enumerate().for_each(|(task, out)| {
            let a = a.columns(task * piece, out.len() / cols);
            arch().dispatch(Task { out, into: Into::Add, a, b });
        });
        return;
    }
    // Columns of the result lie apart, so each task sums into a place of its own.
    let piece = cols.div_ceil(threads).next_multiple_of(PANEL);
    let sums = &mut scratch[..out.len()];
    sums.par_chunks_mut(piece * rows).enumerate().for_each(|(task, out)| {
        let b = b.columns(task * piece, out.len() / rows);
        arch().dispatch(Task { out, into: Into::Overwrite, a, b });
    });
    for (task, sums) in sums.chunks(piece * rows).enumerate() {
        let width = sums.len() / rows;
        let rows = out.par_chunks_mut(cols).zip(sums.par_chunks(width)).with_min_len(64);
        rows.for_each(|(out, sums)| add_to(&mut out[task * piece..][..width], sums));
    }
}

vectorised! {
    /// out += x
    pub(crate) fn add_to(out: &mut [f32], x: &[f32]) -> () {
        for (out, &x) in out.iter_mut().zip(x) {
            *out += x;
        }
    }
}

/// One thread's part of the result, dense.
struct Task<'a> {
    out: &'a mut [f32],
    into: Into,
    a: Mat<'a>,
    b: Mat<'a>,
}

impl WithSimd for Task<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { out, into, a, b } = self;
        COPIES.with_borrow_mut(|(tiles, panels)| {
            tiles.resize(tiles.len().max(GROUP.min(a.cols).div_ceil(TILE) * DEPTH), [0.0; TILE]);
            let wanted = DEPTH * b.cols.next_multiple_of(PANEL) + LANES;
            panels.resize(panels.len().max(wanted), 0.0);
            let panels = aligned(panels).as_chunks_mut::<PANEL>().0;
            for group in (0..a.cols).step_by(GROUP) {
                let a = a.columns(group, GROUP.min(a.cols - group));
                let out = &mut out[group * b.cols..];
                let in_group = a.cols.div_ceil(TILE);
                for first in (0..a.rows).step_by(DEPTH) {
                    let depth = DEPTH.min(a.rows - first);
                    let into = if first == 0 { into } else { Into::Add };
                    copy_tiles(tiles, a, first, depth);
                    copy_panels(panels, b, first, depth);
                    for (col, panel) in (0..b.cols).step_by(PANEL).zip(panels.chunks_exact(depth)) {
                        let cols = PANEL.min(b.cols - col);
                        let mut to = Place { out: &mut out[col..], stride: b.cols, cols, into };
                        for (index, tile) in tiles.chunks_exact(depth).take(in_group).enumerate() {
                            column_tiles(simd, &mut to, index * TILE, a.cols, tile, panel);
                        }
                    }
                }
            }
        });
    }
}

/// The rows of one tile from `row` on, of `rows` in all.
#[inline(always)]
fn column_tiles<S: Simd>(
    simd: S,
    to: &mut Place,
    row: usize,
    rows: usize,
    a: &[[f32; TILE]],
    b: &[[f32; PANEL]],
) {
    let (a, end) = (&a[..b.len()], rows.min(row + TILE));
    let mut at = row;
    while at < end {
        let from = at - row;
        at += match (end - at, S::F32_LANES >= LANES) {
            (TILE.., true) => tile::<S, TILE, 4>(simd, to, at, b, |k, r| a[k][r]),
            (4.., true) => tile::<S, 4, 4>(simd, to, at, b, |k, r| a[k][from + r]),
            (2.., true) => tile::<S, 2, 4>(simd, to, at, b, |k, r| a[k][from + r]),
            (_, true) => tile::<S, 1, 4>(simd, to, at, b, |k, r| a[k][from + r]),
            (TILE.., false) => tile::<S, TILE, 2>(simd, to, at, b, |k, r| a[k][r]),
            (_, false) => tile::<S, 1, 2>(simd, to, at, b, |k, r| a[k][from + r]),
        };
    }
}

/// tiles`[tile · depth + r][i]` = a`[first + r, tile · TILE + i]`
#[inline(always)]
fn copy_tiles(tiles: &mut [[f32; TILE]], a: Mat, first: usize, depth: usize) {
    for r in 0..depth {
        let row = &a.data[(first + r) * a.row_stride..][..a.cols];
        let (whole, rest) = row.as_chunks::<TILE>();
        for (tile, values) in tiles.chunks_exact_mut(depth).zip(whole) {
            tile[r] = *values;
        }
        if !rest.is_empty() {
            tiles[whole.len() * depth + r][..rest.len()].copy_from_slice(rest);
        }
    }
}

/// panels`[panel · depth + r][j]` = b`[first + r, panel · PANEL + j]`, and 0 past the last column.
#[inline(always)]
fn copy_panels(panels: &mut [[f32; PANEL]], b: Mat, first: usize, depth: usize) {
    for r in 0..depth {
        let row = &b.data[(first + r) * b.row_stride..][..b.cols];
        let (whole, rest) = row.as_chunks::<PANEL>();
        for (panel, values) in panels.chunks_exact_mut(depth).zip(whole) {
            panel[r] = *values;
        }
        if !rest.is_empty() {
            let place = &mut panels[whole.len() * depth + r];
            place[..rest.len()].copy_from_slice(rest);
            place[rest.len()..].fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matmul::matmul;
    use crate::params::{RandomSource, SplitMix};

    #[test]
    fn agrees_with_the_general_product() {
        let random = SplitMix::new(9);
        let numbers =
            |stream: &str, n: usize| (0..n as u64).map(|i| random.normal(stream, i)).collect::<Vec<f32>>();
        for [rows, i, j] in
            [[1, 1, 1], [7, 5, 32], [300, 50, 18], [257, 3, 130], [100, 600, 33], [520, 13, 200]]
        {
            let (a, b, start) = (numbers("a", rows * i), numbers("b", rows * j), numbers("start", i * j));
            let (a, b) = (Mat::dense(&a, rows, i), Mat::dense(&b, rows, j));
            let (mut fast, mut general) = (start.clone(), start.clone());
            add_outer_products(&mut fast, a, b, &mut vec![f32::NAN; i * j]);
            matmul(&mut general, j, Into::Add, a.t(), b);
            let error = fast.iter().zip(&general).fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
            assert!(error < 3e-4, "{rows} rows, {i} × {j}: off by {error}");
        }
    }
}
