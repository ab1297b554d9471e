//! The Newton–Schulz iteration, once for each size that matters and once for any.

use super::product::{add_product, matmul};
use super::vectorised;

/// One Newton–Schulz iteration M ← 2M − M S M, with `scratch` to be used again in the next.
pub(crate) fn newton_schulz(s: &[f64], m: &mut [f64], scratch: &mut Vec<f64>, d: usize) {
    relaxed_newton_schulz(2.0, s, m, scratch, d);
}

/// M ← aM − (a−1) M S M, with `scratch` to be used again in the next.
pub(crate) fn relaxed_newton_schulz(a: f64, s: &[f64], m: &mut [f64], scratch: &mut Vec<f64>, d: usize) {
    scratch.resize(2 * d * d, 0.0);
    let (first, second) = scratch.split_at_mut(d * d);
    if !matches!(d, 5 | 10 | 20) {
        return newton_schulz_of_any_size(a, s, m, first, second, d);
    }
    vectorised(
        #[inline(always)]
        || match d {
            5 => newton_schulz_of_size::<5>(a, s, m, first),
            10 => newton_schulz_of_size::<10>(a, s, m, first),
            _ => newton_schulz_of_size::<20>(a, s, m, first),
        },
    );
}

#[inline(always)]
fn newton_schulz_of_size<const D: usize>(a: f64, s: &[f64], m: &mut [f64], scratch: &mut [f64]) {
    let (s, m) = (&s.as_chunks::<D>().0[..D], &mut m.as_chunks_mut::<D>().0[..D]);
    let sm = &mut scratch.as_chunks_mut::<D>().0[..D];
    let mut msm = [[0.0; D]; D];
    product(s, m, sm);
    product(m, sm, &mut msm);
    for i in 0..D {
        for j in 0..D {
            m[i][j] = a * m[i][j] - (a - 1.0) * msm[i][j];
        }
    }
}

/// out = A·B, a few rows at a time: enough independent sums to keep the multiply-add units busy, and as many as the
/// sixteen registers of AVX2 hold.
#[inline(always)]
fn product<const D: usize>(a: &[[f64; D]], b: &[[f64; D]], out: &mut [[f64; D]]) {
    let mut i = 0;
    while D <= 12 && i + 4 <= D {
        product_rows::<D, 4>(a, b, i, out);
        i += 4;
    }
    while i + 2 <= D {
        product_rows::<D, 2>(a, b, i, out);
        i += 2;
    }
    if i < D {
        product_rows::<D, 1>(a, b, i, out);
    }
}

#[inline(always)]
fn product_rows<const D: usize, const R: usize>(
    a: &[[f64; D]],
    b: &[[f64; D]],
    i: usize,
    out: &mut [[f64; D]],
) {
    let mut sums = [[0.0; D]; R];
    for k in 0..D {
        for r in 0..R {
            for j in 0..D {
                sums[r][j] = a[i + r][k].mul_add(b[k][j], sums[r][j]);
            }
        }
    }
    out[i..i + R].copy_from_slice(&sums);
}

/// Both products are symmetric, and half of each would do in exact arithmetic. It does not here: where S has a null space, M
/// grows on it from step to step, and what is mirrored brings its round-off back among the rest.
fn newton_schulz_of_any_size(a: f64, s: &[f64], m: &mut [f64], sm: &mut [f64], old: &mut [f64], d: usize) {
    matmul(s, m, sm, d);
    old.copy_from_slice(m);
    add_product(m, a, old, sm, 1.0 - a, d);
}
