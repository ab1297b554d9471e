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
        if weighting == Weighting::Softmax {
            return softmax(scores, pad, rows, scale);
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

/// Softmax of what each row sees; the rest becomes 0.
///
/// Largest score, exponentials, their sum: each step of a row waits for the one before, but rows do not wait for each
/// other. Some rows are therefore taken through each step together.
#[inline(always)]
fn softmax(scores: &mut [f32], pad: usize, rows: Rows, scale: f32) {
    const TOGETHER: usize = 16;
    for (block, scores) in scores.chunks_mut(TOGETHER * pad).enumerate() {
        let seen = |row: usize| rows.seen(block * TOGETHER + row);
        let mut largest = [0.0; TOGETHER];
        for (row, (scores, largest)) in scores.chunks_exact_mut(pad).zip(&mut largest).enumerate() {
            let (own, rest) = scores[..rows.columns].split_at_mut(padded(seen(row)));
            let (own, _) = own.as_chunks_mut::<LANES>();
            if let Some(last) = own.last_mut() {
                let unmasked = LANES - (padded(seen(row)) - seen(row));
                for (lane, s) in last.iter_mut().enumerate() {
                    *s = if lane < unmasked { *s } else { f32::NEG_INFINITY };
                }
            }
            *largest = max(own.as_flattened());
            if !rest.is_empty() {
                rest.fill(0.0);
            }
        }
        for (row, (scores, &largest)) in scores.chunks_exact_mut(pad).zip(&largest).enumerate() {
            for s in &mut scores[..padded(seen(row))] {
                let e = exp((*s - largest) * scale);
                *s = if *s == f32::NEG_INFINITY { 0.0 } else { e };
            }
        }
        for (row, scores) in scores.chunks_exact_mut(pad).enumerate() {
            let own = &mut scores[..padded(seen(row))];
            let factor = 1.0 / sum([own], |[s]| s);
            for s in own {
                *s *= factor;
            }
        }
    }
}
