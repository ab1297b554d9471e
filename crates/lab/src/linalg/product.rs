//! Products of d×d matrices: small ones by plain loops, which stay in registers, others by `gemm`, blocked for the caches.

use engine::cpu::gemm::general::{self, Mat};

use super::{axpy, vectorised};

/// Up to this size packing for the blocked product costs more than it saves.
const SMALL: usize = 16;

/// out = A B for d×d matrices.
pub(crate) fn matmul(a: &[f64], b: &[f64], out: &mut [f64], d: usize) {
    if d > SMALL {
        return add_product(out, 0.0, a, b, 1.0, d);
    }
    vectorised(
        #[inline(always)]
        || {
            for (row, out) in a.chunks_exact(d).zip(out.chunks_exact_mut(d)) {
                out.fill(0.0);
                row.iter().zip(b.chunks_exact(d)).for_each(|(&a, b)| axpy(a, b, out));
            }
        },
    );
}

/// out ← keep·out + times·A B for d×d matrices.
pub(super) fn add_product(out: &mut [f64], keep: f64, a: &[f64], b: &[f64], times: f64, d: usize) {
    general::add_product(out, d, keep, Mat::dense(a, d, d), Mat::dense(b, d, d), times);
}
