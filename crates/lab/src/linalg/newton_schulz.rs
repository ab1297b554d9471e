//! The Newton–Schulz iteration, once for each size that matters and once for any.

use super::{axpy, multiply, vectorised};

/// One Newton–Schulz iteration M ← 2M − M S M, with `scratch` of the same size.
pub(crate) fn newton_schulz(s: &[f64], m: &mut [f64], scratch: &mut [f64], d: usize) {
    relaxed_newton_schulz(2.0, s, m, scratch, d);
}

/// M ← aM − (a−1) M S M, with `scratch` of the same size.
pub(crate) fn relaxed_newton_schulz(a: f64, s: &[f64], m: &mut [f64], scratch: &mut [f64], d: usize) {
    vectorised(
        #[inline(always)]
        || match d {
            5 => newton_schulz_of_size::<5>(a, s, m, scratch),
            10 => newton_schulz_of_size::<10>(a, s, m, scratch),
            20 => newton_schulz_of_size::<20>(a, s, m, scratch),
            _ => newton_schulz_of_any_size(a, s, m, scratch, d),
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

/// out = A·B, four rows at a time: enough independent sums to keep the multiply-add units busy.
#[inline(always)]
fn product<const D: usize>(a: &[[f64; D]], b: &[[f64; D]], out: &mut [[f64; D]]) {
    let mut i = 0;
    while i + 4 <= D {
        product_rows::<D, 4>(a, b, i, out);
        i += 4;
    }
    while i < D {
        product_rows::<D, 1>(a, b, i, out);
        i += 1;
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

#[inline(always)]
fn newton_schulz_of_any_size(a: f64, s: &[f64], m: &mut [f64], scratch: &mut [f64], d: usize) {
    multiply(s, m, scratch, d);
    let mut sum = vec![0.0; d];
    let old = m.to_vec();
    for i in 0..d {
        sum.fill(0.0);
        for k in 0..d {
            axpy(old[i * d + k], &scratch[k * d..(k + 1) * d], &mut sum);
        }
        for j in 0..d {
            m[i * d + j] = a * old[i * d + j] - (a - 1.0) * sum[j];
        }
    }
}
