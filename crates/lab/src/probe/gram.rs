//! Sums over hidden states, from which a least-squares read-out and the loss of any affine read-out follow.

use engine::cpu::gemm::general::add_gram;

use crate::linalg::{dot, solve_positive_definite};

/// Σ rᵀr over rows r = [h, 1, y]: a state, a one for the bias, and what should be read from it.
#[derive(Clone)]
pub struct Gram {
    /// Width of a row.
    size: usize,
    /// Rows added so far.
    count: usize,
    /// `[size, size]`; only what is on or above the diagonal counts.
    sums: Vec<f64>,
}

impl Gram {
    /// No rows yet, of states `width` wide.
    pub fn new(width: usize) -> Gram {
        let size = width + 2;
        Gram { size, count: 0, sums: vec![0.0; size * size] }
    }

    /// Adds rows `[n, width + 2]`.
    pub fn add(&mut self, rows: &[f64]) {
        self.count += rows.len() / self.size;
        add_gram(&mut self.sums, rows, self.size);
    }

    /// Adds the rows of another.
    pub fn merge(&mut self, other: &Gram) {
        self.count += other.count;
        self.sums.iter_mut().zip(&other.sums).for_each(|(a, b)| *a += b);
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.sums[i.min(j) * self.size + i.max(j)]
    }

    /// The symmetric part `[width + 1, width + 1]` that belongs to states and bias, and the products with y.
    pub fn normal_equations(&self) -> (Vec<f64>, Vec<f64>) {
        let n = self.size - 1;
        let matrix = (0..n * n).map(|k| self.at(k / n, k % n)).collect();
        (matrix, (0..n).map(|i| self.at(i, n)).collect())
    }

    /// The least-squares read-out, weights and then bias; `None` where states are not finite. A ridge of 10⁻¹⁰ of the
    /// mean square keeps directions in which no state lies from exploding.
    pub fn solve(&self) -> Option<Vec<f64>> {
        let (mut matrix, target) = self.normal_equations();
        let n = target.len();
        let trace: f64 = (0..n).map(|i| matrix[i * n + i]).sum();
        (0..n).for_each(|i| matrix[i * n + i] += 1e-10 * trace / n as f64);
        solve_positive_definite(&matrix, &target)
    }

    /// Mean squared error of a read-out (weights, then bias) over all rows.
    pub fn loss(&self, read_out: &[f64]) -> f64 {
        let mut v = read_out.to_vec();
        v.push(-1.0);
        let n = self.size;
        // Σ_ij v_i v_j A_ij from the upper triangle: what is beside the diagonal counts twice.
        let rows = (0..n).map(|i| {
            let row = &self.sums[i * n + i..(i + 1) * n];
            v[i] * (2.0 * dot(row, &v[i..]) - row[0] * v[i])
        });
        rows.sum::<f64>() / self.count as f64
    }

    /// Rows added so far.
    pub fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::seed::Seed;
    use crate::linalg::least_squares;

    /// Rows `[n, width + 2]` of states, a one, and a target that is affine but for noise.
    fn rows(width: usize, n: usize) -> Vec<f64> {
        let mut draws = Seed(5).at("rows", 0);
        let mut rows = Vec::new();
        for _ in 0..n {
            let state = draws.normals(width);
            let target = 0.5 + state.iter().enumerate().map(|(i, h)| h * i as f64).sum::<f64>();
            rows.extend(&state);
            rows.extend([1.0, target + 0.1 * draws.normal()]);
        }
        rows
    }

    #[test]
    fn the_read_out_is_least_squares_and_its_loss_is_the_mean_square() {
        // wider than a block of the product, and in uneven pieces
        for (width, n) in [(3, 20), (70, 400)] {
            let rows = rows(width, n);
            let mut gram = Gram::new(width);
            let (one, two) = rows.split_at(7 * (width + 2));
            gram.add(one);
            let mut rest = Gram::new(width);
            rest.add(two);
            gram.merge(&rest);
            assert_eq!(gram.count(), n);
            let xs: Vec<f64> = rows.chunks(width + 2).flat_map(|r| r[..=width].to_vec()).collect();
            let ys: Vec<f64> = rows.chunks(width + 2).map(|r| r[width + 1]).collect();
            let direct = least_squares(&xs, &ys, width + 1);
            let found = gram.solve().unwrap();
            for (a, b) in found.iter().zip(&direct) {
                assert!((a - b).abs() < 1e-7 * (1.0 + b.abs()), "{a} {b}");
            }
            let guess: Vec<f64> = (0..=width).map(|i| (i as f64).sin()).collect();
            for read_out in [&found, &guess] {
                let errors = xs.chunks(width + 1).zip(&ys).map(|(x, y)| (dot(x, read_out) - y).powi(2));
                let loss = errors.sum::<f64>() / n as f64;
                assert!((gram.loss(read_out) - loss).abs() < 1e-9 * (1.0 + loss));
            }
        }
    }
}
