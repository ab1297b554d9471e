//! Eigenvalues and eigenvectors of symmetric matrices.
//!
//! Householder reflections make S tridiagonal, QL rotations make that diagonal. Whoever needs f(S)c at one query needs no
//! eigenvectors: reflections and rotations act on c and x alone, d² work beside d³.

use std::ops::Deref;

use super::reduction::reduce_by_lines;
use super::{axpy, dot, vectorised};

/// Up to this size a matrix stays in the first-level cache, and its rows are reduced where they lie.
const SMALL: usize = 32;

/// Eigenvalues of a symmetric matrix, descending.
#[derive(Clone, Debug)]
pub struct Eigenvalues(Vec<f64>);

impl Eigenvalues {
    /// Those of a symmetric d×d matrix.
    pub fn of(s: &[f64], d: usize) -> Eigenvalues {
        in_eigenbasis(s, d, &[]).0
    }

    /// The largest; 0 if there is none.
    pub fn largest(&self) -> f64 {
        self.0.first().copied().unwrap_or(0.0)
    }

    /// The smallest that is not round-off of the largest; 0 if there is none.
    pub fn smallest_positive(&self) -> f64 {
        let threshold = self.largest() * 1e-12;
        self.0.iter().rev().copied().find(|&v| v > threshold).unwrap_or(0.0)
    }
}

impl Deref for Eigenvalues {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.0
    }
}

/// Eigen-decomposition of a symmetric matrix: S = Σ values`[i]` vᵢvᵢᵀ.
pub struct Spectrum {
    /// Eigenvalues, descending.
    pub values: Eigenvalues,
    /// Eigenvectors: row i is vᵢ.
    pub vectors: Vec<f64>,
}

impl Spectrum {
    /// Decomposes a symmetric d×d matrix.
    pub fn of(s: &[f64], d: usize) -> Spectrum {
        let mut identity = vec![0.0; d * d];
        identity.iter_mut().step_by(d + 1).for_each(|v| *v = 1.0);
        let (values, vectors) = in_eigenbasis(s, d, &identity);
        Spectrum { values, vectors }
    }
}

/// Eigenvalues of S `[d,d]`, and the components of `vectors` `[m,d]` along its eigenvectors: `[d,m]`, vᵢᵀz in row i.
pub(crate) fn in_eigenbasis(s: &[f64], d: usize, vectors: &[f64]) -> (Eigenvalues, Vec<f64>) {
    let m = vectors.len() / d;
    let mut reduced = Tridiagonal { diagonal: vec![0.0; d], beside: vec![0.0; d] };
    let mut rotated = vec![0.0; d * m];
    vectorised(
        #[inline(always)]
        || {
            let mut reflected = vectors.to_vec();
            if d <= SMALL {
                reduce(&mut s.to_vec(), d, &mut reflected, &mut reduced);
            } else {
                reduce_by_lines(s, d, &mut reflected, &mut reduced);
            }
            for (j, z) in reflected.chunks_exact(d).enumerate() {
                z.iter().enumerate().for_each(|(i, z)| rotated[i * m + j] = *z);
            }
            reduced.diagonalise(&mut rotated, m);
        },
    );
    let values = reduced.diagonal;
    let mut order: Vec<usize> = (0..d).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    let rows = order.iter().flat_map(|&i| &rotated[i * m..(i + 1) * m]).copied().collect();
    (Eigenvalues(order.iter().map(|&i| values[i]).collect()), rows)
}

/// A symmetric tridiagonal matrix.
pub(super) struct Tridiagonal {
    /// Its diagonal.
    pub diagonal: Vec<f64>,
    /// Entry i stands beside diagonal entries i and i + 1; the last is 0.
    pub beside: Vec<f64>,
}

/// Reflects `a` `[d,d]`, of which the upper triangle is read, to a tridiagonal matrix, and `vectors` `[m,d]` with it.
///
/// The same as [`reduce_by_lines`], row by row.
#[inline(always)]
fn reduce(a: &mut [f64], d: usize, vectors: &mut [f64], reduced: &mut Tridiagonal) {
    let (mut u, mut w) = (vec![0.0; d], vec![0.0; d]); // the update that A still waits for
    let (mut next, mut image) = (vec![0.0; d], vec![0.0; d]);
    for k in 0..d {
        let row = &mut a[k * d..(k + 1) * d];
        for j in k..d {
            row[j] -= u[k] * w[j] + w[k] * u[j];
        }
        reduced.diagonal[k] = row[k];
        if k + 1 == d {
            return;
        }
        next[..=k].fill(0.0);
        next[k + 1..].copy_from_slice(&row[k + 1..]);
        let beta = reflection(&mut next[k + 1..], &mut reduced.beside[k]);
        image.fill(0.0);
        for i in k + 1..d {
            let (row, image_below) = (&mut a[i * d + i..(i + 1) * d], &mut image[i..]);
            let below = update_and_multiply(row, (u[i], &u[i..]), (w[i], &w[i..]), &next[i..], image_below);
            image[i] = below;
        }
        image.iter_mut().for_each(|v| *v *= beta);
        let half = beta / 2.0 * dot(&next, &image);
        axpy(-half, &next, &mut image);
        for z in vectors.chunks_exact_mut(d) {
            axpy(-beta * dot(&next, z), &next, z);
        }
        std::mem::swap(&mut u, &mut next);
        std::mem::swap(&mut w, &mut image);
    }
}

/// Turns x into u of the reflection I − βuuᵀ that takes it to (`left`, 0, …, 0); returns β, 0 if x is there already.
#[inline(always)]
pub(super) fn reflection(x: &mut [f64], left: &mut f64) -> f64 {
    let rest = dot(&x[1..], &x[1..]);
    if rest < f64::MIN_POSITIVE {
        *left = x[0];
        x.fill(0.0);
        return 0.0;
    }
    *left = -(x[0] * x[0] + rest).sqrt().copysign(x[0]);
    x[0] -= *left;
    2.0 / (x[0] * x[0] + rest)
}

/// A row of the upper triangle, from its diagonal on: row ← row − uᵢw − wᵢu, and what it adds to A·next: to the entries
/// after its own in `image`; returns its own.
#[inline(always)]
fn update_and_multiply(
    row: &mut [f64],
    (ui, u): (f64, &[f64]),
    (wi, w): (f64, &[f64]),
    next: &[f64],
    image: &mut [f64],
) -> f64 {
    const LANES: usize = 8;
    let (own, scale) = (image[0], next[0]);
    let (row, row_rest) = row.as_chunks_mut::<LANES>();
    let (u, u_rest) = u.as_chunks::<LANES>();
    let (w, w_rest) = w.as_chunks::<LANES>();
    let (next, next_rest) = next.as_chunks::<LANES>();
    let (image, image_rest) = image.as_chunks_mut::<LANES>();
    let mut sums = [0.0; LANES];
    for ((((row, u), w), next), image) in row.iter_mut().zip(u).zip(w).zip(next).zip(image) {
        for i in 0..LANES {
            let value = wi.mul_add(-u[i], ui.mul_add(-w[i], row[i]));
            row[i] = value;
            sums[i] = value.mul_add(next[i], sums[i]);
            image[i] = value.mul_add(scale, image[i]);
        }
    }
    let mut sum: f64 = sums.iter().sum();
    for i in 0..row_rest.len() {
        let value = row_rest[i] - ui * w_rest[i] - wi * u_rest[i];
        row_rest[i] = value;
        sum += value * next_rest[i];
        image_rest[i] += value * scale;
    }
    own + sum
}

impl Tridiagonal {
    /// Rotates the matrix until it is diagonal, and the rows of `z` `[d,m]` with it: QL with implicit shifts.
    #[inline(always)]
    fn diagonalise(&mut self, z: &mut [f64], m: usize) {
        let d = self.diagonal.len();
        for first in 0..d {
            // a few sweeps are enough for each eigenvalue; NaN would never be done
            for _ in 0..100 {
                let last = (first..d - 1).find(|&i| self.splits_after(i)).unwrap_or(d - 1);
                if last == first {
                    break;
                }
                self.sweep(first, last, z, m);
            }
        }
    }

    /// Whether the entry beside i and i + 1 is round-off.
    fn splits_after(&self, i: usize) -> bool {
        let around = self.diagonal[i].abs() + self.diagonal[i + 1].abs();
        self.beside[i].abs() <= f64::EPSILON * around
    }

    /// One QL sweep from `last` up to `first`, shifted by the eigenvalue of the first 2×2 block next to its corner.
    #[inline(always)]
    fn sweep(&mut self, first: usize, last: usize, z: &mut [f64], m: usize) {
        let Tridiagonal { diagonal, beside } = self;
        let slope = (diagonal[first + 1] - diagonal[first]) / (2.0 * beside[first]);
        let shift = diagonal[first] - beside[first] / (slope + slope.hypot(1.0).copysign(slope));
        let mut g = diagonal[last] - shift;
        let (mut sin, mut cos, mut moved) = (1.0, 1.0, 0.0);
        for i in (first..last).rev() {
            let (f, b) = (sin * beside[i], cos * beside[i]);
            let r = (f * f + g * g).sqrt();
            beside[i + 1] = r;
            if r == 0.0 {
                // the matrix falls apart here: the next sweep begins anew
                diagonal[i + 1] -= moved;
                beside[last] = 0.0;
                return;
            }
            (sin, cos) = (f / r, g / r);
            let above = diagonal[i + 1] - moved;
            let across = (diagonal[i] - above) * sin + 2.0 * cos * b;
            moved = sin * across;
            diagonal[i + 1] = above + moved;
            g = cos * across - b;
            let (upper, lower) = z[i * m..(i + 2) * m].split_at_mut(m);
            for (upper, lower) in upper.iter_mut().zip(lower) {
                (*upper, *lower) = (cos * *upper - sin * *lower, sin * *upper + cos * *lower);
            }
        }
        diagonal[first] -= moved;
        beside[first] = g;
        beside[last] = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::seed::Seed;
    use crate::linalg::{gram, norm};

    /// Gram matrices of full and of lower rank, of one row, and none.
    fn matrices() -> impl Iterator<Item = (Vec<f64>, usize)> {
        [
            (1, 1),
            (2, 3),
            (7, 10),
            (20, 40),
            (20, 5),
            (33, 1),
            (33, 0),
            (60, 61),
            (60, 20),
            (101, 140),
            (200, 201),
        ]
        .into_iter()
        .map(|(d, n)| {
            let xs = Seed(3).at("spectrum", (100 * d + n) as u64).normals(n * d);
            (gram(&xs, d), d)
        })
    }

    #[test]
    fn spectrum_rebuilds_its_matrix() {
        for (s, d) in matrices() {
            let spectrum = Spectrum::of(&s, d);
            let mut rebuilt = vec![0.0; d * d];
            for (value, v) in spectrum.values.iter().zip(spectrum.vectors.chunks(d)) {
                assert!((norm(v) - 1.0).abs() < 1e-12);
                for i in 0..d {
                    axpy(value * v[i], v, &mut rebuilt[i * d..(i + 1) * d]);
                }
            }
            assert!(s.iter().zip(&rebuilt).all(|(a, b)| (a - b).abs() <= 1e-13 * norm(&s)), "d={d}");
            assert!(spectrum.values.windows(2).all(|w| w[0] >= w[1]));
        }
    }

    #[test]
    fn components_are_those_along_the_eigenvectors() {
        for (s, d) in matrices() {
            let c = Seed(3).at("c", d as u64).normals(2 * d);
            let (values, components) = in_eigenbasis(&s, d, &c);
            // of f(S): signs and the choice of vectors within an eigenspace do not matter
            let f = |value: f64| (-value / (1.0 + norm(&s))).exp();
            let spectrum = Spectrum::of(&s, d);
            let by_vectors: f64 = (0..d)
                .map(|i| &spectrum.vectors[i * d..(i + 1) * d])
                .zip(spectrum.values.iter())
                .map(|(v, value)| f(*value) * dot(v, &c[..d]) * dot(v, &c[d..]))
                .sum();
            let directly: f64 =
                components.chunks(2).zip(values.iter()).map(|(z, value)| f(*value) * z[0] * z[1]).sum();
            assert!((directly - by_vectors).abs() < 1e-12 * d as f64, "{directly} {by_vectors}");
        }
    }

    #[test]
    fn a_diagonal_matrix_is_left_as_it_is() {
        let s = [2.0, 0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 3.0];
        assert_eq!(Eigenvalues::of(&s, 3).to_vec(), [5.0, 3.0, 2.0]);
        assert_eq!(Eigenvalues::of(&s, 3).smallest_positive(), 2.0);
        assert_eq!(Eigenvalues::of(&[0.0; 9], 3).smallest_positive(), 0.0);
    }
}
