//! Dense linear algebra on small row-major slices: hot loops and eigenvalues by hand, other decompositions by `nalgebra`.
//!
//! Matrices are `&[f64]` of length rows × columns. The hot loops are compiled twice, plainly and with AVX2 and
//! fused multiply-add, chosen at run time by `vectorised`, and once for each size that matters, so that a matrix
//! of d ≤ 20 stays in registers and first-level cache through all its iterations. (AVX-512 was measured too: no
//! faster at these sizes, where a row of 20 fills two and a half registers.)

mod newton_schulz;
mod product;
mod reduction;
mod spectrum;

use nalgebra::{DMatrix, DVector};

pub(crate) use newton_schulz::{newton_schulz, relaxed_newton_schulz};
pub(crate) use product::matmul;
pub(crate) use spectrum::in_eigenbasis;
pub use spectrum::{Eigenvalues, Spectrum};

use crate::data::seed::Draws;

/// ⟨a, b⟩, summed in four lanes: the order is fixed, and it vectorises.
#[inline(always)]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (fours_a, rest_a) = a.as_chunks::<4>();
    let (fours_b, rest_b) = b.as_chunks::<4>();
    let mut lanes = [0.0; 4];
    for (x, y) in fours_a.iter().zip(fours_b) {
        for i in 0..4 {
            lanes[i] += x[i] * y[i];
        }
    }
    let rest: f64 = rest_a.iter().zip(rest_b).map(|(x, y)| x * y).sum();
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]) + rest
}

/// ‖a‖₂, safe against overflow of the squares.
pub fn norm(a: &[f64]) -> f64 {
    let largest = a.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    largest * a.iter().map(|v| (v / largest).powi(2)).sum::<f64>().sqrt()
}

/// y += a·x
#[inline(always)]
pub fn axpy(a: f64, x: &[f64], y: &mut [f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
}

/// out = A x for a matrix with rows as long as `x`.
pub fn matvec(a: &[f64], x: &[f64], out: &mut [f64]) {
    a.chunks_exact(x.len()).zip(out).for_each(|(row, out)| *out = dot(row, x));
}

/// out = S x for a symmetric S: as a sum of rows, which vectorises better than products of rows, four of them at a time.
pub fn symmetric_matvec(s: &[f64], x: &[f64], out: &mut [f64]) {
    vectorised(
        #[inline(always)]
        || {
            let d = x.len();
            let (fours, rest) = x.as_chunks::<4>();
            let (rows, rest_rows) = s.split_at(fours.len() * 4 * d);
            out.fill(0.0);
            for (rows, x) in rows.chunks_exact((4 * d).max(1)).zip(fours) {
                let (ab, cd) = rows.split_at(2 * d);
                let ((a, b), (c, d)) = (ab.split_at(d), cd.split_at(d));
                for ((((out, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    *out += (a * x[0] + b * x[1]) + (c * x[2] + d * x[3]);
                }
            }
            rest_rows.chunks_exact(d.max(1)).zip(rest).for_each(|(row, &x)| axpy(x, row, out));
        },
    );
}

/// S += x xᵀ
pub fn add_outer(x: &[f64], s: &mut [f64]) {
    vectorised(
        #[inline(always)]
        || s.chunks_exact_mut(x.len()).zip(x).for_each(|(row, &xi)| axpy(xi, x, row)),
    );
}

/// S = Σ x xᵀ over inputs `[t,d]`.
pub fn gram(xs: &[f64], d: usize) -> Vec<f64> {
    let mut s = vec![0.0; d * d];
    xs.chunks_exact(d).for_each(|x| add_outer(x, &mut s));
    s
}

/// ‖S²‖_F for a symmetric S, by the upper half of S² and without keeping it.
pub(crate) fn frobenius_of_square(s: &[f64], d: usize) -> f64 {
    // loops and not sums of iterators, which are not always inlined and stay plain code then
    let sum_of_squares = vectorised(
        #[inline(always)]
        || {
            let (mut diagonal, mut above) = (0.0, 0.0);
            for i in 0..d {
                let row = &s[i * d..(i + 1) * d];
                diagonal += dot(row, row).powi(2);
                for j in i + 1..d {
                    above += dot(row, &s[j * d..(j + 1) * d]).powi(2);
                }
            }
            diagonal + 2.0 * above
        },
    );
    sum_of_squares.sqrt()
}

/// Runs `body` as compiled for the instruction set of this machine. `body` and what it calls must be
/// `#[inline(always)]`, or they stay plain code.
#[inline(always)]
pub(crate) fn vectorised<R>(body: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: both features were detected on this machine just above.
        return unsafe { with_avx2_and_fma(body) };
    }
    body()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2_and_fma<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// Minimum-norm least squares: X⁺y for X `[t,d]`. Full rank goes through QR; the rest through the SVD.
pub fn least_squares(xs: &[f64], ys: &[f64], d: usize) -> Vec<f64> {
    let t = ys.len();
    if t == 0 {
        return vec![0.0; d];
    }
    let x = DMatrix::from_row_slice(t, d, xs);
    let y = DVector::from_column_slice(ys);
    full_rank_least_squares(&x, &y).unwrap_or_else(|| {
        let svd = x.svd(true, true);
        let threshold = svd.singular_values.max() * 1e-12;
        svd.solve(&y, threshold).map(|w| w.as_slice().to_vec()).unwrap_or_else(|_| vec![f64::NAN; d])
    })
}

/// The same for X of full rank; `None` if it is not.
fn full_rank_least_squares(x: &DMatrix<f64>, y: &DVector<f64>) -> Option<Vec<f64>> {
    let wide = x.nrows() < x.ncols();
    let qr = if wide { x.transpose().qr() } else { x.clone().qr() };
    let r = qr.r();
    let diagonal = r.diagonal();
    if diagonal.amin() <= 1e-10 * diagonal.amax() {
        return None;
    }
    let w = if wide {
        // Xᵀ = QR, so Rᵀ z = y and w = Qz is the shortest solution.
        qr.q() * r.tr_solve_upper_triangular(y)?
    } else {
        r.solve_upper_triangular(&(qr.q().transpose() * y))?
    };
    Some(w.as_slice().to_vec())
}

/// S⁻¹c for a symmetric positive definite S; `None` if it is not.
pub fn solve_positive_definite(s: &[f64], c: &[f64]) -> Option<Vec<f64>> {
    let d = c.len();
    let factor = DMatrix::from_row_slice(d, d, s).cholesky()?;
    Some(factor.solve(&DVector::from_column_slice(c)).as_slice().to_vec())
}

/// The same for several right-hand sides `[n,d]`.
pub(crate) fn solve_all_positive_definite(s: &[f64], cs: &[f64], d: usize) -> Option<Vec<f64>> {
    let factor = DMatrix::from_row_slice(d, d, s).cholesky()?;
    // column-major [d,n] is row-major [n,d]
    let mut solved = DMatrix::from_column_slice(d, cs.len() / d, cs);
    factor.solve_mut(&mut solved);
    Some(solved.as_slice().to_vec())
}

/// (XᵀX)⁻¹Xᵀ `[d,q]` for X `[q,d]` of full column rank: maps answers to the weights they imply.
pub(crate) fn left_inverse(xs: &[f64], d: usize) -> Option<Vec<f64>> {
    if xs.len() < d * d {
        return None;
    }
    let x = DMatrix::from_row_slice(xs.len() / d, d, xs);
    let qr = x.qr();
    let diagonal = qr.r().diagonal();
    if diagonal.amin() <= 1e-10 * diagonal.amax() {
        return None;
    }
    let inverse = qr.r().solve_upper_triangular(&qr.q().transpose())?;
    Some(inverse.transpose().as_slice().to_vec())
}

/// ‖w − proj(w)‖ / ‖w‖ for the projection on span{x₁…x_t}.
pub(crate) fn residual_outside_span(xs: &[f64], w: &[f64]) -> f64 {
    let (d, total) = (w.len(), norm(w));
    let t = xs.len() / d;
    if total == 0.0 || t >= d {
        return 0.0;
    }
    let q = DMatrix::from_row_slice(t, d, xs).transpose().qr().q();
    let w = DVector::from_column_slice(w);
    let outside = &w - &q * (q.transpose() * &w);
    outside.norm() / total
}

/// An orthogonal d×d matrix, uniform (Haar): QR of a normal matrix with the signs of R's diagonal made positive.
pub fn random_orthogonal(d: usize, draws: &mut Draws) -> Vec<f64> {
    let qr = DMatrix::from_row_slice(d, d, &draws.normals(d * d)).qr();
    let (mut q, r) = (qr.q(), qr.r());
    for j in 0..d {
        if r[(j, j)] < 0.0 {
            q.column_mut(j).neg_mut();
        }
    }
    q.transpose().as_slice().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::seed::Seed;

    fn gram(d: usize, n: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
        let xs = Seed(seed).at("linalg", 0).normals(n * d);
        let mut s = vec![0.0; d * d];
        xs.chunks(d).for_each(|x| add_outer(x, &mut s));
        (xs, s)
    }

    #[test]
    fn every_size_of_the_newton_kernel_computes_the_same() {
        for d in [1, 3, 5, 10, 20, 23, 50, 101] {
            let (_, s) = gram(d, 2 * d, 1);
            let m: Vec<f64> = s.iter().map(|v| v * 1e-3).collect();
            let (mut fast, mut scratch) = (m.clone(), Vec::new());
            newton_schulz(&s, &mut fast, &mut scratch, d);
            let (s, m) = (DMatrix::from_row_slice(d, d, &s), DMatrix::from_row_slice(d, d, &m));
            let right = &m * 2.0 - &m * &s * &m;
            for i in 0..d {
                for j in 0..d {
                    assert!((fast[i * d + j] - right[(i, j)]).abs() <= 1e-12 * right.norm(), "d={d}");
                }
            }
        }
    }

    #[test]
    fn least_squares_is_minimum_norm_at_any_rank() {
        let d = 6;
        for t in [1, 3, 6, 9] {
            let (mut xs, _) = gram(d, t, 2);
            if t == 3 {
                let (first, rest) = xs.split_at_mut(d); // a repeated row: rank 2
                rest[..d].copy_from_slice(first);
            }
            let truth = Seed(2).at("w", 0).normals(d);
            let ys: Vec<f64> = xs.chunks(d).map(|x| dot(x, &truth)).collect();
            let w = least_squares(&xs, &ys, d);
            for (x, y) in xs.chunks(d).zip(&ys) {
                assert!((dot(x, &w) - y).abs() < 1e-10);
            }
            if t != 3 {
                assert!(residual_outside_span(&xs, &w) < 1e-10);
            }
            assert!(norm(&w) <= norm(&truth) + 1e-10);
        }
    }

    #[test]
    fn orthogonal_matrices_are_orthogonal_and_haar() {
        let d = 5;
        let (mut corner, n) = (0.0, 4000);
        for i in 0..n {
            let q = random_orthogonal(d, &mut Seed(4).at("haar", i));
            for a in 0..d {
                for b in 0..d {
                    let inner = dot(&q[a * d..(a + 1) * d], &q[b * d..(b + 1) * d]);
                    assert!((inner - f64::from(u8::from(a == b))).abs() < 1e-12);
                }
            }
            corner += q[0]; // has mean 0 only when the signs are fixed
        }
        assert!((corner / n as f64).abs() < 5.0 / (n as f64 * d as f64).sqrt());
    }

    #[test]
    fn left_inverse_recovers_weights() {
        let (d, q) = (4, 30);
        let (xs, _) = gram(d, q, 5);
        let w = [1.0, -2.0, 0.5, 3.0];
        let answers: Vec<f64> = xs.chunks(d).map(|x| dot(x, &w)).collect();
        let mut back = vec![0.0; d];
        matvec(&left_inverse(&xs, d).unwrap(), &answers, &mut back);
        assert!(back.iter().zip(w).all(|(a, b)| (a - b).abs() < 1e-12));
        assert!(left_inverse(&xs[..3 * d], d).is_none(), "three answers do not determine four weights");
    }
}
