//! A matrix of doubles with the few operations that the formulas need.

use std::ops::{Add, Index, IndexMut};

/// A row-major matrix; a vector is a matrix of one row.
#[derive(Debug, Clone)]
pub(super) struct Matrix {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) data: Vec<f64>,
}

impl Matrix {
    pub(super) fn zeros(rows: usize, columns: usize) -> Self {
        Self { rows, columns, data: vec![0.0; rows * columns] }
    }

    /// The matrix of f(row, column).
    pub(super) fn from_fn(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f64) -> Self {
        let f = &f;
        let data = (0..rows).flat_map(|row| (0..columns).map(move |column| f(row, column))).collect();
        Self { rows, columns, data }
    }

    pub(super) fn row(&self, row: usize) -> &[f64] {
        &self.data[row * self.columns..][..self.columns]
    }

    /// The `count` columns from `first` on.
    pub(super) fn columns_from(&self, first: usize, count: usize) -> Matrix {
        Matrix::from_fn(self.rows, count, |row, column| self[(row, first + column)])
    }

    /// The transpose.
    pub(super) fn t(&self) -> Matrix {
        Matrix::from_fn(self.columns, self.rows, |row, column| self[(column, row)])
    }

    /// The matrix product.
    pub(super) fn dot(&self, other: &Matrix) -> Matrix {
        assert_eq!(self.columns, other.rows, "inner sizes of a product");
        let mut out = Matrix::zeros(self.rows, other.columns);
        for (row, sums) in out.data.chunks_exact_mut(other.columns).enumerate() {
            for (inner, &factor) in self.row(row).iter().enumerate() {
                sums.iter_mut().zip(other.row(inner)).for_each(|(sum, x)| *sum += factor * x);
            }
        }
        out
    }

    /// Adds a row to every row.
    pub(super) fn add_row(&self, bias: &Matrix) -> Matrix {
        Matrix::from_fn(self.rows, self.columns, |row, column| self[(row, column)] + bias[(0, column)])
    }

    /// The sum of all rows.
    pub(super) fn sum_rows(&self) -> Matrix {
        Matrix::from_fn(1, self.columns, |_, column| (0..self.rows).map(|row| self[(row, column)]).sum())
    }

    /// Every value through a function.
    pub(super) fn map(&self, f: impl Fn(f64) -> f64) -> Matrix {
        Matrix::from_fn(self.rows, self.columns, |row, column| f(self[(row, column)]))
    }

    /// Every value and its counterpart in another matrix through a function.
    pub(super) fn zip(&self, other: &Matrix, f: impl Fn(f64, f64) -> f64) -> Matrix {
        assert_eq!((self.rows, self.columns), (other.rows, other.columns), "equal shapes");
        Matrix::from_fn(self.rows, self.columns, |row, column| f(self[(row, column)], other[(row, column)]))
    }
}

impl Add<Matrix> for &Matrix {
    type Output = Matrix;

    fn add(self, other: Matrix) -> Matrix {
        self.zip(&other, |a, b| a + b)
    }
}

impl Index<(usize, usize)> for Matrix {
    type Output = f64;

    fn index(&self, (row, column): (usize, usize)) -> &f64 {
        &self.data[row * self.columns + column]
    }
}

impl IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut f64 {
        &mut self.data[row * self.columns + column]
    }
}
