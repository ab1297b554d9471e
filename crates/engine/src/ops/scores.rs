//! Scores of attention: how they become weights, and the copies of a head's parts that products read.

use crate::matmul::{Into, Mat};
use crate::simd::{LANES, exp, max, sum, vectorised};
use crate::transpose::transpose;

/// How scores become weights; n is the number of tokens seen, s = q·k/√(head size).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weighting {
    /// exp(s) / Σ exp(s)
    #[default]
    Softmax,
    /// max(s, 0) / n
    Relu,
    /// s / n
    Linear,
}

/// Rounds up to whole registers.
pub(super) fn padded(n: usize) -> usize {
    n.next_multiple_of(LANES)
}

/// out`[t, i]` = x`[t, i]`, without the gaps between rows: those would make rows collide in the nearest cache.
pub(super) fn gather(out: &mut [f32], x: &[f32], [tokens, size, row]: [usize; 3]) {
    for (t, out) in out.chunks_exact_mut(size).take(tokens).enumerate() {
        let x = &x[t * row..][..size];
        // The usual size of a head, known in advance, is copied without a call.
        match (out.as_chunks_mut::<32>(), x.as_chunks::<32>()) {
            (([out], []), ([x], [])) => *out = *x,
            _ => out.copy_from_slice(x),
        }
    }
}

/// out`[i, t]` = x`[t, i]`, columns padded with zeros to whole registers.
pub(super) fn gather_transposed(out: &mut [f32], x: &[f32], [tokens, size, row]: [usize; 3]) {
    let pad = padded(tokens);
    transpose(out, pad, Into::Overwrite, Mat::strided(x, tokens, size, row));
    for out in out.chunks_exact_mut(pad).take(size) {
        out[tokens..].fill(0.0);
    }
}

/// A few rows of scores: the first sees the tokens up to `first`, each of the others so many more than the one before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    /// The last token that the first row sees.
    pub first: usize,
    /// Tokens that a row sees more than the row before.
    pub more: usize,
    /// Columns in use, whole registers.
    pub columns: usize,
    /// Width of a head.
    pub size: usize,
}

impl Rows {
    /// Tokens that a row sees.
    #[inline(always)]
    fn seen(&self, row: usize) -> usize {
        self.first + 1 + row * self.more
    }
}

vectorised! {
    /// Turns scores q·k into weights in place; columns that a row does not see become 0.
    pub(super) fn weigh(weighting: Weighting, scores: &mut [f32], pad: usize, rows: Rows) -> () {
        let scale = 1.0 / (rows.size as f32).sqrt();
        for (row, scores) in scores.chunks_exact_mut(pad).enumerate() {
            let seen = rows.seen(row);
            let factor = scale / seen as f32;
            let (own, rest) = scores[..rows.columns].split_at_mut(padded(seen));
            match weighting {
                Weighting::Softmax => softmax(own, seen, scale),
                Weighting::Relu | Weighting::Linear => {
                    for s in &mut own[..seen] {
                        *s = if weighting == Weighting::Relu && *s < 0.0 { 0.0 } else { *s * factor };
                    }
                    own[seen..].fill(0.0);
                }
            }
            if !rest.is_empty() {
                rest.fill(0.0);
            }
        }
    }

    /// Turns gradients of weights into gradients of q·k, in place.
    pub(super) fn weigh_backward(weighting: Weighting, ds: &mut [f32], w: &[f32], pad: usize, rows: Rows) -> () {
        let scale = 1.0 / (rows.size as f32).sqrt();
        for (row, (ds, w)) in ds.chunks_exact_mut(pad).zip(w.chunks_exact(pad)).enumerate() {
            let seen = rows.seen(row);
            let factor = scale / seen as f32;
            match weighting {
                Weighting::Softmax => {
                    // Weights of masked entries are 0, and so are their gradients.
                    let (ds, w) = (&mut ds[..padded(seen)], &w[..padded(seen)]);
                    let mean = sum([ds, w], |[d, w]| d * w);
                    for (d, &w) in ds.iter_mut().zip(w) {
                        *d = w * (*d - mean) * scale;
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

/// Softmax of the first `seen` scores; the rest, up to a whole register, becomes 0.
#[inline(always)]
fn softmax(scores: &mut [f32], seen: usize, scale: f32) {
    scores[seen..].fill(f32::NEG_INFINITY);
    let largest = max(scores);
    for s in scores.iter_mut() {
        let e = exp((*s - largest) * scale);
        *s = if *s == f32::NEG_INFINITY { 0.0 } else { e };
    }
    let factor = 1.0 / sum([scores], |[s]| s);
    for s in scores.iter_mut() {
        *s *= factor;
    }
}
