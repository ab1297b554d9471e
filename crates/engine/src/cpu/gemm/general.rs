//! Matrix products on slices, checked, single-threaded: callers split the work themselves, so that the
//! split, and with it every bit of the result, does not depend on the number of threads.

use gemm::Parallelism;

/// A read-only matrix view: element (i, j) is `data[i * row_stride + j * col_stride]`.
#[derive(Debug, Clone, Copy)]
pub struct Mat<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) row_stride: usize,
    pub(crate) col_stride: usize,
}

impl<'a> Mat<'a> {
    /// A dense row-major matrix.
    pub fn dense(data: &'a [f32], rows: usize, cols: usize) -> Self {
        Self::strided(data, rows, cols, cols)
    }

    /// A row-major matrix whose rows start `row_stride` values apart.
    pub fn strided(data: &'a [f32], rows: usize, cols: usize, row_stride: usize) -> Self {
        Self { data, rows, cols, row_stride, col_stride: 1 }
    }

    /// The `[rows, cols]` of a row-major matrix that begin at `[row, col]`.
    pub(crate) fn part(self, [row, col]: [usize; 2], [rows, cols]: [usize; 2]) -> Self {
        Self { data: &self.data[row * self.row_stride + col..], rows, cols, ..self }
    }

    /// The transposed view.
    pub fn t(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// One past the largest index the view touches.
    pub(crate) fn extent(&self) -> usize {
        if self.rows == 0 || self.cols == 0 {
            return 0;
        }
        (self.rows - 1) * self.row_stride + (self.cols - 1) * self.col_stride + 1
    }
}

/// What happens to the values already in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accumulate {
    /// They are overwritten.
    Overwrite,
    /// The product is added to them.
    Add,
}

/// out (+)= a · b, where `out` has rows `out_stride` values apart.
///
/// # Panics
/// If the shapes do not fit or a view reaches past its slice.
pub fn matmul(out: &mut [f32], out_stride: usize, accumulate: Accumulate, a: Mat, b: Mat) {
    assert_eq!(a.cols, b.rows, "inner sizes of a product differ");
    let (rows, cols) = (a.rows, b.cols);
    if rows == 0 || cols == 0 {
        return;
    }
    assert!(cols <= out_stride || rows == 1, "rows of the output overlap");
    assert!((rows - 1) * out_stride + cols <= out.len(), "output of a product is too short");
    assert!(a.extent() <= a.data.len() && b.extent() <= b.data.len(), "input of a product is too short");
    // SAFETY: all three views lie inside their slices (asserted above), `out` is borrowed mutably and so
    // cannot overlap the inputs, and rows of `out` do not overlap each other.
    unsafe {
        gemm::gemm(
            rows,
            cols,
            a.cols,
            out.as_mut_ptr(),
            1,
            out_stride as isize,
            accumulate == Accumulate::Add,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            1.0f32,
            1.0f32,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// sums += xᵀx for x `[rows, size]` in double precision; only the blocks on and above the diagonal of `sums`
/// `[size, size]` are touched.
///
/// # Panics
/// If a slice has not the length that the shapes say.
pub fn add_gram(sums: &mut [f64], x: &[f64], size: usize) {
    const BLOCK: usize = 64;
    assert!(size > 0 && x.len().is_multiple_of(size) && sums.len() == size * size, "shapes of a Gram matrix");
    let rows = x.len() / size;
    if rows == 0 {
        return;
    }
    for first in (0..size).step_by(BLOCK) {
        let (height, width) = (BLOCK.min(size - first), size - first);
        // SAFETY: rows `first..first+height` and columns `first..size` lie inside `sums`, columns `first..size` of all
        // rows inside `x` (both lengths are asserted above), and `sums` is borrowed mutably, so it overlaps nothing.
        unsafe {
            gemm::gemm(
                height,
                width,
                rows,
                sums.as_mut_ptr().add(first * size + first),
                1,
                size as isize,
                true,
                x.as_ptr().add(first),
                size as isize,
                1,
                x.as_ptr().add(first),
                1,
                size as isize,
                1.0f64,
                1.0f64,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }
}
