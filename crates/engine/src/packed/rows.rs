//! x · W for packed W, rows of x where they lie.

use pulp::{Simd, WithSimd};

use super::tile::{Later, Left, Place, tiles};
use super::{DEPTH, PANEL, Packed, ROWS, rows_per_pass};
use crate::matmul::{Into, Mat};
use crate::simd::arch;

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
        let most = if x.row_stride == w.inner.min(DEPTH) { ROWS } else { ROWS / 2 };
        let pass = rows_per_pass(x.rows, most);
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
