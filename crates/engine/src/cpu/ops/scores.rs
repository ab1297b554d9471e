//! Scores of attention: how they become weights, and the copies of a head's parts that products read.

use pulp::Simd;

use crate::cpu::gemm::general::{Accumulate, Mat};
use crate::cpu::gemm::transpose::transpose;
use crate::cpu::simd::lanes::{Lanes, max, sum};
use crate::cpu::simd::{LANES, exp, vectorised};
use crate::model::ops::{Attention, Weighting};

/// Rounds up to whole registers.
pub(super) fn padded(tokens: usize) -> usize {
    const { assert!(Attention::PADDING == LANES) };
    Attention::padded(tokens)
}

/// out`[i, t]` = x`[t, i]`, columns padded with zeros to whole registers.
pub(super) fn gather_transposed(out: &mut [f32], x: &[f32], [tokens, size, row]: [usize; 3]) {
    let pad = padded(tokens);
    transpose(out, pad, Accumulate::Overwrite, Mat::strided(x, tokens, size, row));
    for out in out.chunks_exact_mut(pad).take(size) {
        out[tokens..].fill(0.0);
    }
}

/// A few rows of scores: the first sees the tokens up to `first`, each of the others so many more than the one before.
#[derive(Debug, Clone, Copy)]
pub(super) struct VisibleRows {
    /// The last token that the first row sees.
    pub first: usize,
    /// Tokens that a row sees more than the row before.
    pub more: usize,
    /// Columns in use, whole registers.
    pub columns: usize,
    /// Width of a head.
    pub size: usize,
}

impl VisibleRows {
    /// Tokens that a row sees.
    #[inline(always)]
    fn seen(&self, row: usize) -> usize {
        self.first + 1 + row * self.more
    }
}

vectorised! {
    /// out`[t, i]` = x`[t, i]`, without the gaps between rows: those would make rows collide in L1.
    pub(super) fn gather(out: &mut [f32], x: &[f32], sizes: [usize; 3]) -> () {
        let [tokens, size, row] = sizes;
        for (t, out) in out.chunks_exact_mut(size).take(tokens).enumerate() {
            let x = &x[t * row..][..size];
            // The usual size of a head, known in advance, is copied without a call.
            match (out.as_chunks_mut::<32>(), x.as_chunks::<32>()) {
                (([out], []), ([x], [])) => *out = *x,
                _ => out.copy_from_slice(x),
            }
        }
    }

    /// Turns scores q·k into weights in place; columns that a row does not see become 0.
    pub(super) fn weigh[simd](weighting: Weighting, scores: &mut [f32], pad: usize, rows: VisibleRows) -> () {
        let scale = 1.0 / (rows.size as f32).sqrt();
        if weighting == Weighting::Softmax {
            return softmax(simd, scores, pad, rows, scale);
        }
        for (row, scores) in scores.chunks_exact_mut(pad).enumerate() {
            let seen = rows.seen(row);
            let factor = scale / seen as f32;
            for s in &mut scores[..seen] {
                *s = if weighting == Weighting::Relu && *s < 0.0 { 0.0 } else { *s * factor };
            }
            scores[seen..rows.columns].fill(0.0);
        }
    }

    /// Turns gradients of weights into gradients of q·k, in place.
    pub(super) fn weigh_backward[simd](weighting: Weighting, ds: &mut [f32], w: &[f32], pad: usize, rows: VisibleRows) -> () {
        let scale = 1.0 / (rows.size as f32).sqrt();
        for (row, (ds, w)) in ds.chunks_exact_mut(pad).zip(w.chunks_exact(pad)).enumerate() {
            let seen = rows.seen(row);
            let factor = scale / seen as f32;
            match weighting {
                Weighting::Softmax => {
                    // Weights of masked entries are 0, and so are their gradients.
                    let (ds, w) = (&mut ds[..padded(seen)], &w[..padded(seen)]);
                    let mean = sum!(simd, |ds, w| ds * w);
                    let (mean, scale) = (Lanes::splat(simd, mean), Lanes::splat(simd, scale));
                    for (d, w) in ds.as_chunks_mut().0.iter_mut().zip(w.as_chunks().0) {
                        (Lanes::read(simd, w) * (Lanes::read(simd, d) - mean) * scale).write(d);
                    }
                }
                Weighting::Relu => {
                    for (d, &w) in ds[..seen].iter_mut().zip(w) {
                        *d = if w > 0.0 { *d * factor } else { 0.0 };
                    }
                }
                Weighting::Linear => {
                    for d in &mut ds[..seen] {
                        *d *= factor;
                    }
                }
            }
            ds[seen..rows.columns].fill(0.0);
        }
    }
}

/// Softmax of what each row sees; the rest becomes 0.
///
/// Largest score, exponentials, their sum: each step of a row waits for the one before, but rows do not wait for each
/// other. Some rows are therefore taken through each step together.
#[inline(always)]
fn softmax<S: Simd>(simd: S, scores: &mut [f32], pad: usize, rows: VisibleRows, scale: f32) {
    const TOGETHER: usize = 16;
    for (block, scores) in scores.chunks_mut(TOGETHER * pad).enumerate() {
        let seen = |row: usize| rows.seen(block * TOGETHER + row);
        let mut largest = [0.0; TOGETHER];
        for (row, (scores, largest)) in scores.chunks_exact_mut(pad).zip(&mut largest).enumerate() {
            let registers = seen(row).div_ceil(LANES);
            let (own, rest) = scores[..rows.columns].as_chunks_mut::<LANES>().0.split_at_mut(registers);
            if let Some(last) = own.last_mut() {
                let bounds = BOUNDS[registers * LANES - seen(row)..].first_chunk().expect("a register");
                Lanes::read(simd, last).min(Lanes::read(simd, bounds)).write(last);
            }
            *largest = max(simd, own);
            for register in rest {
                Lanes::splat(simd, 0.0).write(register);
            }
        }
        // One register after the other: rows are too short for loops over several.
        for (row, (scores, &largest)) in scores.chunks_exact_mut(pad).zip(&largest).enumerate() {
            for register in scores[..padded(seen(row))].as_chunks_mut::<LANES>().0 {
                for s in register {
                    let e = exp((*s - largest) * scale);
                    *s = if *s == f32::NEG_INFINITY { 0.0 } else { e };
                }
            }
        }
        for (row, scores) in scores.chunks_exact_mut(pad).enumerate() {
            let own = &mut scores[..padded(seen(row))];
            let factor = Lanes::splat(simd, 1.0 / sum!(simd, |own| own));
            for register in own.as_chunks_mut().0 {
                (Lanes::read(simd, register) * factor).write(register);
            }
        }
    }
}

/// Bounds that leave scores alone, and then bounds that nothing passes.
const BOUNDS: [f32; 2 * LANES] = {
    let mut bounds = [f32::INFINITY; 2 * LANES];
    let mut lane = LANES;
    while lane < 2 * LANES {
        bounds[lane] = f32::NEG_INFINITY;
        lane += 1;
    }
    bounds
};
