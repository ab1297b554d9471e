//! How many products with S a learner must have made at least: the lowest degree k such that some polynomial p(S)c comes as
//! close to w_OLS as the learner does.
//!
//! The polynomial is chosen for each prompt by itself, in the knowledge of w_OLS, so that no method that multiplies by S
//! k times can be closer. It is the projection of w_OLS on the span of c, Sc, …, Sᵏc.

use super::asked::Eigen;
use crate::linalg::{axpy, dot, norm};

/// Lowest degree for each of some weights `[s,d]` on one problem; `None` where no degree is enough.
pub(super) fn lowest(problem: &Eigen, weights: &[f64], dim: usize) -> Vec<Option<usize>> {
    let left = distances(problem); // by degree
    let degree = |w: &[f64]| {
        let along = problem.along(w);
        let inside: f64 = along.iter().zip(&problem.exact).map(|(a, e)| (a - e).powi(2)).sum();
        let outside = dot(w, w) - dot(&along, &along);
        left.iter().position(|&left| left <= inside + outside.max(0.0))
    };
    weights.chunks_exact(dim).map(degree).collect()
}

/// Squared distance of w_OLS from the span of c, …, Sᵏc for k = 0, 1, …; in the eigenbasis, where S is diagonal.
fn distances(problem: &Eigen) -> Vec<f64> {
    let Eigen { values, exact, .. } = problem;
    let c: Vec<f64> = values.iter().zip(exact).map(|(value, e)| value * e).collect();
    let mut left = exact.clone();
    let (mut basis, mut found): (Vec<Vec<f64>>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut next = c;
    while basis.len() < values.len() {
        let length = norm(&next);
        // twice is enough for orthogonality to round-off
        for _ in 0..2 {
            for b in &basis {
                let along = dot(b, &next);
                axpy(-along, b, &mut next);
            }
        }
        let kept = norm(&next);
        if kept <= 1e-13 * length {
            break;
        }
        next.iter_mut().for_each(|v| *v /= kept);
        let along = dot(&next, &left);
        axpy(-along, &next, &mut left);
        found.push(dot(&left, &left));
        let image = next.iter().zip(values).map(|(v, value)| v * value).collect();
        basis.push(std::mem::replace(&mut next, image));
    }
    found
}
