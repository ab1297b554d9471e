//! Matrix products on slices, checked, single-threaded: callers split the work themselves, so that the
//! split, and with it every bit of the result, does not depend on the number of threads.

use gemm_common::Parallelism;

/// A read-only matrix view: element (i, j) is `data[i * row_stride + j * col_stride]`.
#[derive(Debug, Clone, Copy)]
pub struct Mat<'a, T = f32> {
    pub(crate) data: &'a [T],
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) row_stride: usize,
    pub(crate) col_stride: usize,
}

impl<'a, T> Mat<'a, T> {
    /// A dense row-major matrix.
    pub fn dense(data: &'a [T], rows: usize, cols: usize) -> Self {
        Self::strided(data, rows, cols, cols)
    }

    /// A row-major matrix whose rows start `row_stride` values apart.
    pub fn strided(data: &'a [T], rows: usize, cols: usize, row_stride: usize) -> Self {
        Self { data, rows, cols, row_stride, col_stride: 1 }
    }

    /// The `[rows, cols]` of a row-major matrix that begin at `[row, col]`.
    pub fn part(self, [row, col]: [usize; 2], [rows, cols]: [usize; 2]) -> Self {
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
    let keep = if accumulate == Accumulate::Add { 1.0 } else { 0.0 };
    add_product(out, out_stride, keep, a, b, 1.0);
}

/// out ← keep·out + times·a·b, where `out` has rows `out_stride` values apart; with keep = 0 it is overwritten, not read.
///
/// # Panics
/// If the shapes do not fit or a view reaches past its slice.
pub fn add_product<T: Float>(
    out: &mut [T],
    out_stride: usize,
    keep: T,
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    times: T,
) {
    assert_eq!(a.cols, b.rows, "inner sizes of a product differ");
    let (rows, cols) = (a.rows, b.cols);
    if rows == 0 || cols == 0 {
        return;
    }
    assert!(cols <= out_stride || rows == 1, "rows of the output overlap");
    assert!((rows - 1) * out_stride + cols <= out.len(), "output of a product is too short");
    assert!(a.extent() <= a.data.len() && b.extent() <= b.data.len(), "input of a product is too short");
    let multiply = T::multiply();
    // The library wants columns one after the other, so it is given the transposed product bᵀaᵀ.
    // SAFETY: all three views lie inside their slices (asserted above), `out` is borrowed mutably and so
    // cannot overlap the inputs, and rows of `out` do not overlap each other.
    unsafe {
        multiply(
            cols,
            rows,
            a.cols,
            out.as_mut_ptr(),
            out_stride as isize,
            1,
            keep != T::default(),
            b.data.as_ptr(),
            b.row_stride as isize,
            b.col_stride as isize,
            a.data.as_ptr(),
            a.row_stride as isize,
            a.col_stride as isize,
            keep,
            times,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// What a product is made of.
pub trait Float: Copy + Default + PartialEq {
    /// The library's product for this machine.
    fn multiply() -> Multiply<Self>;
}

/// dst ← α·dst + β·lhs·rhs: m, n, k; dst with the distances of its columns and rows, and whether it is read; both factors
/// likewise; α, β; what is conjugated; threads.
pub type Multiply<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

impl Float for f32 {
    fn multiply() -> Multiply<f32> {
        gemm_f32::gemm::f32::get_gemm_fn()
    }
}

impl Float for f64 {
    fn multiply() -> Multiply<f64> {
        gemm_f64::gemm::f64::get_gemm_fn()
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
    let x = Mat::dense(x, x.len() / size, size);
    if x.rows == 0 {
        return;
    }
    for first in (0..size).step_by(BLOCK) {
        let (height, width) = (BLOCK.min(size - first), size - first);
        let block = &mut sums[first * size + first..];
        let (left, right) = (x.part([0, first], [x.rows, height]), x.part([0, first], [x.rows, width]));
        add_product(block, size, 1.0, left.t(), right, 1.0);
    }
}
