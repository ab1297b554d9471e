//! Copies of matrices with rows and columns exchanged, eight by eight values at a time in registers.

use crate::cpu::gemm::general::{Accumulate, Mat};

/// out`[j, i]` (+)= x`[i, j]` for a row-major x; rows of `out` begin `out_stride` values apart.
///
/// # Panics
/// If x is not row-major or reaches past its slice, or `out` is too short.
pub(crate) fn transpose(out: &mut [f32], out_stride: usize, accumulate: Accumulate, x: Mat) {
    assert!(x.col_stride == 1 && x.extent() <= x.data.len(), "a transposed matrix is row-major");
    let fits = x.cols == 0 || x.rows <= out_stride && (x.cols - 1) * out_stride + x.rows <= out.len();
    assert!(fits, "place for a transposed matrix is too short");
    let [rows, cols] = squares(out, out_stride, accumulate, x);
    for j in 0..x.cols {
        let first = if j < cols { rows } else { 0 };
        for i in first..x.rows {
            let place = &mut out[j * out_stride + i];
            *place = match accumulate {
                Accumulate::Overwrite => x.data[i * x.row_stride + j],
                Accumulate::Add => *place + x.data[i * x.row_stride + j],
            };
        }
    }
}

/// Copies the first rows and columns, and says how many.
#[cfg(not(target_arch = "x86_64"))]
fn squares(_: &mut [f32], _: usize, _: Accumulate, _: Mat) -> [usize; 2] {
    [0, 0]
}

#[cfg(target_arch = "x86_64")]
use x86::squares;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::__m256;
    use std::array;

    use pulp::x86::V3;
    use pulp::{Arch, NullaryFnOnce};

    use super::{Accumulate, Mat};
    use crate::cpu::simd::arch;

    const SQUARE: usize = 8;

    /// Copies the first rows and columns, and says how many: those that make whole squares.
    pub(super) fn squares(out: &mut [f32], out_stride: usize, accumulate: Accumulate, x: Mat) -> [usize; 2] {
        let simd = match arch() {
            Arch::V3(simd) => simd,
            Arch::V4(simd) => *simd,
            _ => return [0, 0],
        };
        let [rows, cols] = [x.rows, x.cols].map(|n| n / SQUARE * SQUARE);
        let x = Mat { rows, cols, ..x };
        simd.vectorize(Squares { simd, out, out_stride, accumulate, x });
        [rows, cols]
    }

    struct Squares<'a> {
        simd: V3,
        out: &'a mut [f32],
        out_stride: usize,
        accumulate: Accumulate,
        x: Mat<'a>,
    }

    impl NullaryFnOnce for Squares<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Self { simd, out, out_stride, accumulate, x } = self;
            for j in (0..x.cols).step_by(SQUARE) {
                for i in (0..x.rows).step_by(SQUARE) {
                    let from = x.data.as_ptr().wrapping_add(i * x.row_stride + j);
                    let to = out.as_mut_ptr().wrapping_add(j * out_stride + i);
                    // `transpose` has asserted that all rows and columns lie within both slices, and the square from (i, j)
                    // on lies within the matrix. Checks would take longer than the copy.
                    let rows = array::from_fn(|r| {
                        let row = from.wrapping_add(r * x.row_stride).cast::<__m256>();
                        // SAFETY: as above.
                        unsafe { row.read_unaligned() }
                    });
                    for (c, column) in transposed(simd, rows).into_iter().enumerate() {
                        let place = to.wrapping_add(c * out_stride).cast::<__m256>();
                        let column = if accumulate == Accumulate::Add {
                            // SAFETY: as above.
                            let there = unsafe { place.read_unaligned() };
                            simd.avx._mm256_add_ps(there, column)
                        } else {
                            column
                        };
                        // SAFETY: as above.
                        unsafe { place.write_unaligned(column) };
                    }
                }
            }
        }
    }

    /// Exchanges rows and columns: first of 2 × 2 values, then of 2 × 2 pairs, then of 2 × 2 halves.
    #[inline(always)]
    fn transposed(simd: V3, r: [__m256; SQUARE]) -> [__m256; SQUARE] {
        let avx = simd.avx;
        let pairs: [[__m256; 2]; 4] = array::from_fn(|i| {
            let (a, b) = (r[2 * i], r[2 * i + 1]);
            [avx._mm256_unpacklo_ps(a, b), avx._mm256_unpackhi_ps(a, b)]
        });
        let fours: [[__m256; 4]; 2] = array::from_fn(|i| {
            let ([a, b], [c, d]) = (pairs[2 * i], pairs[2 * i + 1]);
            [
                avx._mm256_shuffle_ps::<0x44>(a, c),
                avx._mm256_shuffle_ps::<0xee>(a, c),
                avx._mm256_shuffle_ps::<0x44>(b, d),
                avx._mm256_shuffle_ps::<0xee>(b, d),
            ]
        });
        array::from_fn(|c| {
            let (above, below) = (fours[0][c % 4], fours[1][c % 4]);
            match c < 4 {
                true => avx._mm256_permute2f128_ps::<0x20>(above, below),
                false => avx._mm256_permute2f128_ps::<0x31>(above, below),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        for (rows, cols, stride, out_stride) in [
            (8, 8, 8, 8),
            (82, 32, 96, 96),
            (17, 5, 7, 20),
            (3, 30, 33, 3),
            (40, 19, 19, 48),
            (0, 4, 4, 1),
            (5, 0, 3, 6),
        ] {
            let x: Vec<f32> = (0..rows * stride).map(|i| i as f32).collect();
            let mut out = vec![-1.0; cols * out_stride];
            for (accumulate, before) in [(Accumulate::Overwrite, 0.0), (Accumulate::Add, -1.0)] {
                out.fill(-1.0);
                transpose(&mut out, out_stride, accumulate, Mat::strided(&x, rows, cols, stride));
                for (j, out) in out.chunks_exact(out_stride).enumerate() {
                    let expected: Vec<f32> = (0..rows).map(|i| before + x[i * stride + j]).collect();
                    assert_eq!(out[..rows], expected, "column {j} of {rows} × {cols}");
                    assert!(out[rows..].iter().all(|&x| x == -1.0), "past {rows} × {cols}");
                }
            }
        }
    }
}
