//! A problem among the inputs read, while these are fewer than dimensions.
//!
//! For every polynomial p, with S = XᵀX, c = Xᵀy and G = XXᵀ,
//!
//! ```text
//! p(S) c = p(XᵀX) Xᵀ y = Xᵀ p(XXᵀ) y,   so that   xᵀ p(S) c = (Xx)ᵀ p(G) y
//! ```
//!
//! An algorithm of polynomials sees G in place of S, y in place of c and Xx in place of x: t³ work in place of d³, and no null
//! space. G has the eigenvalues of S that are not zero, so step sizes by norms and eigenvalues stay the same, too; with a
//! ridge they would not.

use super::problem::Problem;
use crate::linalg::{dot, vectorised};

/// Up to this dimension S costs no more.
const SMALL: usize = 32;

/// G of the inputs of a growing prefix.
pub(super) struct Dual {
    gram: Vec<f64>,
}

impl Dual {
    /// Before the first pair; `None` where S will do.
    pub fn new(dim: usize, lambda: f64) -> Option<Dual> {
        (dim > SMALL && lambda == 0.0).then(|| Dual { gram: Vec::new() })
    }

    /// Reads the newest of the inputs `[t,d]`; `None` as soon as they are as many as dimensions.
    pub fn add(mut self, xs: &[f64], dim: usize) -> Option<Dual> {
        let t = xs.len() / dim;
        let (newest, before) = (&xs[(t - 1) * dim..], t - 1);
        if t >= dim {
            return None;
        }
        let gram = &mut self.gram;
        gram.resize(t * t, 0.0);
        // room for one more column: the last row moves first, so that none is overwritten
        (1..before).rev().for_each(|i| gram.copy_within(i * before..(i + 1) * before, i * t));
        vectorised(
            #[inline(always)]
            || {
                for i in 0..t {
                    let product = dot(&xs[i * dim..(i + 1) * dim], newest);
                    (gram[i * t + before], gram[before * t + i]) = (product, product);
                }
            },
        );
        Some(self)
    }

    /// The problem that stands for this one. The algorithms that ask for it read S and c alone.
    pub fn problem<'a>(&'a self, of: &Problem<'a>) -> Problem<'a> {
        Problem { prompt: of.prompt, xs: &[], ys: &[], dim: of.read(), s: &self.gram, c: of.ys }
    }

    /// What `queries` `[q,d]` are there: Xx for each, `[q,t]`.
    pub fn queries(of: &Problem, queries: &[f64]) -> Vec<f64> {
        let products = |query| of.xs.chunks_exact(of.dim).map(move |x| dot(x, query));
        queries.chunks_exact(of.dim).flat_map(products).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::seed::Seed;

    #[test]
    fn the_gram_matrix_grows_by_a_row_and_a_column() {
        let (dim, mut dual) = (40, Dual::new(40, 0.0));
        let xs = Seed(1).at("dual", 0).normals(dim * dim);
        for t in 1..dim {
            let read = &xs[..t * dim];
            let now = dual.and_then(|dual| dual.add(read, dim)).expect("fewer pairs than dimensions");
            for (i, row) in now.gram.chunks_exact(t).enumerate() {
                for (j, value) in row.iter().enumerate() {
                    let right = dot(&xs[i * dim..(i + 1) * dim], &xs[j * dim..(j + 1) * dim]);
                    assert!((value - right).abs() < 1e-12, "t={t} {i} {j}: {value} {right}");
                }
            }
            dual = Some(now);
        }
        assert!(dual.and_then(|dual| dual.add(&xs, dim)).is_none(), "S is no larger");
        assert!(Dual::new(20, 0.0).is_none() && Dual::new(40, 0.1).is_none());
    }
}
