//! A symmetric matrix made tridiagonal by Householder reflections, where it no longer fits the first-level cache.
//!
//! Reflection k, I − βuuᵀ, makes row k tridiagonal and asks for A ← A − uwᵀ − wuᵀ in the rows below, which need βAu first.
//! The update by one reflection and the product with the next are one pass over A, a few rows at a time. Rows are cut into
//! cache lines at the same columns, so that they share the registers of u, w and the product, and kept from the line on that
//! meets the diagonal; the rest follows by symmetry.
//!
//! SIMD registers are used by name: left to the compiler, these loops came out element by element.

use pulp::{Arch, Simd, WithSimd};

use super::spectrum::{Tridiagonal, reflection};
use super::{axpy, dot};

/// Values in a cache line: as many sums side by side, however many a register holds.
const LANES: usize = 8;

type Line = [f64; LANES];

/// Reflects S `[d,d]` to a tridiagonal matrix, and `vectors` `[m,d]` with it.
pub(super) fn reduce_by_lines(s: &[f64], d: usize, vectors: &mut [f64], reduced: &mut Tridiagonal) {
    Arch::new().dispatch(Reduction { s, d, vectors, reduced });
}

struct Reduction<'a> {
    s: &'a [f64],
    d: usize,
    vectors: &'a mut [f64],
    reduced: &'a mut Tridiagonal,
}

impl WithSimd for Reduction<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // a row takes a sum and three factors, and four operands are common to all: 20 of 32 registers, or 12 of 16
        if S::F64_LANES == LANES { self.run::<S, 4>(simd) } else { self.run::<S, 2>(simd) }
    }
}

impl Reduction<'_> {
    #[inline(always)]
    fn run<S: Simd, const ROWS: usize>(self, simd: S) {
        let Reduction { s, d, vectors, reduced } = self;
        let width = d.div_ceil(LANES);
        let height = width * LANES;
        let mut memory = vec![0.0; (height + 4) * width * LANES + LANES];
        let aligned = memory.as_ptr().align_offset(size_of::<Line>()).min(LANES);
        let (a, rest) = memory[aligned..].as_chunks_mut::<LANES>().0.split_at_mut(height * width);
        for (row, s) in a.chunks_exact_mut(width).zip(s.chunks_exact(d)) {
            row.as_flattened_mut()[..d].copy_from_slice(s);
        }
        let (mut u, rest) = rest.split_at_mut(width); // u and w: the update that A still waits for
        let (mut w, rest) = rest.split_at_mut(width);
        let (mut next, rest) = rest.split_at_mut(width); // the next u, and A times that
        let mut image = &mut rest[..width];
        for k in 0..d {
            let row = &mut a[k * width..(k + 1) * width].as_flattened_mut()[..d];
            update_row(row, k, u.as_flattened_mut(), w.as_flattened_mut());
            reduced.diagonal[k] = row[k];
            if k + 1 == d {
                return;
            }
            let reflected = next.as_flattened_mut();
            reflected[..=k].fill(0.0);
            reflected[k + 1..d].copy_from_slice(&row[k + 1..]);
            let beta = reflection(&mut reflected[k + 1..d], &mut reduced.beside[k]);
            image.fill([0.0; LANES]);
            for i in ((k + 1) / ROWS * ROWS..d).step_by(ROWS) {
                let rows = &mut a[i * width..(i + ROWS) * width];
                update_and_multiply::<S, ROWS>(simd, rows, i, (u, w), next, image);
            }
            image.as_flattened_mut()[..=k].fill(0.0);
            let (next_below, image_below) =
                (&next.as_flattened()[k + 1..d], &mut image.as_flattened_mut()[k + 1..d]);
            image_below.iter_mut().for_each(|v| *v *= beta);
            let half = beta / 2.0 * dot(next_below, image_below);
            axpy(-half, next_below, image_below);
            for z in vectors.chunks_exact_mut(d) {
                let z = &mut z[k + 1..];
                axpy(-beta * dot(next_below, z), next_below, z);
            }
            std::mem::swap(&mut u, &mut next);
            std::mem::swap(&mut w, &mut image);
        }
    }
}

/// The update of row k, after which u and w let it alone.
#[inline(always)]
fn update_row(row: &mut [f64], k: usize, u: &mut [f64], w: &mut [f64]) {
    let (uk, wk) = (u[k], w[k]);
    for ((value, u), w) in row[k..].iter_mut().zip(&u[k..]).zip(&w[k..]) {
        *value -= uk * w + wk * u;
    }
    (u[k], w[k]) = (0.0, 0.0);
}

/// Rows i, i + 1, … of A: row ← row − uᵢw − wᵢu, and what they add to A·next: to their own entries of `image`, and by symmetry
/// to those in the lines after.
#[inline(always)]
fn update_and_multiply<S: Simd, const ROWS: usize>(
    simd: S,
    rows: &mut [Line],
    i: usize,
    (u, w): (&[Line], &[Line]),
    next: &[Line],
    image: &mut [Line],
) {
    let registers = LANES / S::F64_LANES;
    let (width, line, lane) = (u.len(), i / LANES, i % LANES);
    let negative =
        |v: &[Line]| -> [S::f64s; ROWS] { std::array::from_fn(|r| simd.splat_f64s(-v[line][lane + r])) };
    let (ui, wi) = (negative(u), negative(w));
    let next_i: [S::f64s; ROWS] = std::array::from_fn(|r| simd.splat_f64s(next[line][lane + r]));
    let mut sums = [[simd.splat_f64s(0.0); LANES]; ROWS];
    for l in line..width {
        let (u, w, next) = (S::as_simd_f64s(&u[l]).0, S::as_simd_f64s(&w[l]).0, S::as_simd_f64s(&next[l]).0);
        for v in 0..registers {
            let image = &mut S::as_mut_simd_f64s(&mut image[l]).0[v];
            let mut symmetric = *image;
            for r in 0..ROWS {
                let row = &mut S::as_mut_simd_f64s(&mut rows[r * width + l]).0[v];
                *row = simd.mul_add_f64s(wi[r], u[v], simd.mul_add_f64s(ui[r], w[v], *row));
                sums[r][v] = simd.mul_add_f64s(*row, next[v], sums[r][v]);
                symmetric = simd.mul_add_f64s(*row, next_i[r], symmetric);
            }
            if l > line {
                *image = symmetric;
            }
        }
    }
    for r in 0..ROWS {
        let mut all = [0.0; LANES];
        S::as_mut_simd_f64s(&mut all).0.copy_from_slice(&sums[r][..registers]);
        let [a, b, c, d, e, f, g, h] = all;
        image[line][lane + r] += ((a + b) + (c + d)) + ((e + f) + (g + h));
    }
}
