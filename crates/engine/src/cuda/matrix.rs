//! Matrices in device memory.

use super::buffer::{BufferError, Pointer, StorageBuffer};

/// A row-major matrix in device memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceMatrix {
    pub buffer: StorageBuffer,
    pub rows: usize,
    pub columns: usize,
    /// Values between the starts of two rows.
    pub stride: usize,
    /// Values between the starts of two matrices of a batch, where they are not one right after the other.
    pub step: Option<usize>,
    pub transposed: bool,
}

impl DeviceMatrix {
    pub(crate) fn new(buffer: StorageBuffer, rows: usize, columns: usize) -> Self {
        Self { buffer, rows, columns, stride: columns, step: None, transposed: false }
    }

    /// The transposed view.
    pub(crate) fn t(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }

    /// Rows and columns of the view.
    pub(crate) fn shape(&self) -> (usize, usize) {
        if self.transposed { (self.columns, self.rows) } else { (self.rows, self.columns) }
    }

    /// Values between the starts of two matrices of a batch.
    pub(super) fn step(&self) -> usize {
        self.step.unwrap_or(self.rows * self.stride)
    }

    /// Values from the first to the last of `batch` such matrices.
    fn reach(&self, batch: usize) -> usize {
        match batch * self.rows {
            0 => 0,
            _ => (batch - 1) * self.step() + (self.rows - 1) * self.stride + self.columns,
        }
    }

    /// Where `batch` such matrices begin, which must lie within the buffer.
    pub(super) fn pointer(&self, batch: usize) -> Result<Pointer, BufferError> {
        self.buffer.pointer(self.reach(batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::buffer::DeviceBuffer;

    fn matrix(len: usize, rows: usize, columns: usize, stride: usize) -> DeviceMatrix {
        let buffer = StorageBuffer::Float(DeviceBuffer::new("matrix", 0, len));
        DeviceMatrix { stride, ..DeviceMatrix::new(buffer, rows, columns) }
    }

    #[test]
    fn a_matrix_reaches_to_the_end_of_its_last_row() {
        assert_eq!(matrix(0, 3, 4, 4).reach(1), 12);
        assert_eq!(matrix(0, 3, 4, 10).reach(1), 24);
        assert_eq!(matrix(0, 3, 4, 4).t().reach(5), 60);
        assert_eq!([matrix(0, 0, 4, 4).reach(2), matrix(0, 3, 4, 4).reach(0)], [0, 0]);
        assert_eq!(DeviceMatrix { step: Some(100), ..matrix(0, 3, 4, 4) }.reach(5), 412);
    }

    #[test]
    fn a_matrix_that_does_not_fit_is_refused() {
        assert!(matrix(24, 3, 4, 10).pointer(1).is_ok());
        assert!(matrix(23, 3, 4, 10).pointer(1).is_err());
        assert!(matrix(24, 3, 4, 4).pointer(2).is_ok() && matrix(24, 3, 4, 4).pointer(3).is_err());
    }
}
