//! xᵀ · y over many rows, as weight gradients have it: a sum of outer products.

use std::cell::RefCell;

use pulp::{Simd, WithSimd};

use super::matrix::aligned;
use super::tile::{Later, Left, Place, tiles};
use super::{DEPTH, PANEL, TILE};
use crate::matmul::{Into, Mat};
use crate::simd::{LANES, arch};

thread_local! {
    /// A thread's copies of a block of both sides of a sum of outer products.
    static COPIES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
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
                let data = &y.data[from * y.row_stride + col..];
                let b = &mut panel.as_chunks_mut().0[..depth];
                match cols {
                    PANEL => copy_panel(b, data, y.row_stride),
                    _ => copy_narrow(simd, b, data, y.row_stride, cols),
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
                tiles(simd, &mut to, left, b, [&mut Later::new(next), &mut later]);
            }
        }
    }
}

/// sums`[j]` += Σ_k x`[k, j]`, for the first columns of x.
#[inline(always)]
fn add_rows(sums: &mut [f32], x: Mat) {
    let (panels, narrow) = sums.as_chunks_mut::<PANEL>();
    let whole = panels.len() * PANEL;
    for (panel, sums) in panels.iter_mut().enumerate() {
        // A local of known length stays in registers.
        let mut total = *sums;
        for k in 0..x.rows {
            let row: &[f32; PANEL] =
                x.data[k * x.row_stride + panel * PANEL..].first_chunk().expect("a whole panel");
            for (sum, &x) in total.iter_mut().zip(row) {
                *sum += x;
            }
        }
        *sums = total;
    }
    for k in 0..x.rows {
        let row = &x.data[k * x.row_stride + whole..][..narrow.len()];
        for (sum, &x) in narrow.iter_mut().zip(row) {
            *sum += x;
        }
    }
}

impl<'a> Left<'a, TILE> {
    /// A copy of the columns of `x`, which become rows.
    #[inline(always)]
    fn columns(place: &'a mut [f32], x: Mat) -> Self {
        /// Rows of `x` that are in the nearest cache while their values are spread over the strips.
        const NEAR: usize = 16;
        /// Values that are copied at once; what a copy writes too much, the next one overwrites.
        const WIDE: usize = 8;
        let (depth, strips) = (x.rows, x.cols.div_ceil(TILE));
        let (place, _) = place[..strips * depth * TILE].as_chunks_mut::<TILE>();
        assert!(x.extent() <= x.data.len());
        for first in (0..depth).step_by(NEAR) {
            let near = NEAR.min(depth - first);
            for (strip, place) in place.chunks_exact_mut(depth).enumerate() {
                let (col, place) = (strip * TILE, &mut place[first..first + near]);
                let wide = if col + WIDE <= x.cols { near - 1 } else { 0 };
                for k in 0..wide {
                    // SAFETY: the row and `WIDE` columns are x's, which was asserted to lie within its data; as many
                    // values end before `place` does, since another `TILE` follow. Checks would take longer than the copy.
                    unsafe {
                        let from = x.data.as_ptr().add((first + k) * x.row_stride + col);
                        let values = from.cast::<[f32; WIDE]>().read_unaligned();
                        place.as_mut_ptr().add(k).cast::<[f32; WIDE]>().write_unaligned(values);
                    }
                }
                for (k, place) in place.iter_mut().enumerate().skip(wide) {
                    let values = &x.data[(first + k) * x.row_stride + col..][..TILE.min(x.cols - col)];
                    place[..values.len()].copy_from_slice(values);
                }
            }
        }
        Self { data: place.as_flattened(), rows: x.cols, depth, strides: [1, depth * TILE] }
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
