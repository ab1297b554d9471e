//! Linear maps between slots, kept without their empty rows and columns.
//!
//! Constructed weights are mostly zero. A [`Map`] remembers the whole matrix but multiplies only the part that is not
//! zero, which changes no result and makes a layer several times cheaper.

use ndarray::{Array2, ArrayView2, Axis, s};

/// A matrix `[into, from]`, stored without empty rows and columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    shape: (usize, usize),
    rows: Vec<usize>,
    columns: Vec<usize>,
    /// The part that is not empty, transposed: `[columns, rows]`.
    part: Array2<f64>,
}

impl Map {
    /// Finds the part of a matrix that is not empty.
    pub fn of(matrix: &Array2<f64>) -> Map {
        let full = |lane: ndarray::ArrayView1<f64>| lane.iter().any(|v| *v != 0.0);
        let kept = |axis: Axis| -> Vec<usize> {
            matrix.axis_iter(axis).enumerate().filter(|(_, lane)| full(*lane)).map(|(i, _)| i).collect()
        };
        let (rows, columns) = (kept(Axis(0)), kept(Axis(1)));
        let part = Array2::from_shape_fn((columns.len(), rows.len()), |(c, r)| matrix[[rows[r], columns[c]]]);
        Map { shape: matrix.dim(), rows, columns, part }
    }

    /// The whole matrix `[into, from]`.
    pub fn matrix(&self) -> Array2<f64> {
        let mut matrix = Array2::zeros(self.shape);
        for (c, &column) in self.columns.iter().enumerate() {
            for (r, &row) in self.rows.iter().enumerate() {
                matrix[[row, column]] = self.part[[c, r]];
            }
        }
        matrix
    }

    /// Rows of the whole matrix that are not empty, ascending: where [`Map::apply`]'s columns belong.
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// Images `[p, rows]` of the hidden states `h` `[p, from]`, only the rows that are not empty.
    pub fn apply(&self, h: ArrayView2<f64>) -> Array2<f64> {
        match (self.columns.first(), self.columns.last()) {
            (Some(&first), Some(&last)) if last + 1 - first == self.columns.len() => {
                h.slice(s![.., first..=last]).dot(&self.part)
            }
            _ => h.select(Axis(1), &self.columns).dot(&self.part),
        }
    }

    /// Adds images `[p, rows]` to hidden states `[p, into]`.
    pub fn add_to(&self, images: &Array2<f64>, h: &mut ndarray::ArrayViewMut2<f64>) {
        for (mut h, image) in h.outer_iter_mut().zip(images.outer_iter()) {
            self.rows.iter().zip(image).for_each(|(&row, v)| h[row] += v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaving_out_zeros_changes_nothing() {
        let mut matrix = Array2::zeros((5, 6));
        (matrix[[1, 2]], matrix[[1, 5]], matrix[[4, 2]]) = (2.0, -3.0, 0.5);
        let map = Map::of(&matrix);
        assert_eq!(map.matrix(), matrix);
        assert_eq!(map.rows(), [1, 4]);
        let h = Array2::from_shape_fn((3, 6), |(p, w)| (p * 6 + w) as f64);
        let mut found = Array2::zeros((3, 5));
        map.add_to(&map.apply(h.view()), &mut found.view_mut());
        assert_eq!(found, h.dot(&matrix.t()));
        assert_eq!(Map::of(&Array2::zeros((2, 3))).apply(h.slice(s![.., ..3])).dim(), (3, 0));
    }
}
