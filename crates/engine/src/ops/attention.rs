//! Attention over all heads of all prompts, as one operation.
//!
//! One task handles one prompt: a head's keys, values and scores then stay in the nearest caches. Scores
//! live in rows padded to whole registers, and under a causal mask only blocks on or below the diagonal are computed.

use std::ops::Range;

use rayon::prelude::*;

use super::{Grads, Op};
use crate::matmul::{Into, Mat};
use crate::plan::{Buffers, Mode, PlanBuilder, Var};
use crate::simd::{LANES, exp, max, sum, vectorised};
use crate::small_matmul::small_matmul;

/// Which tokens a token sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mask {
    /// Itself and those before it.
    #[default]
    Causal,
    /// All tokens of the prompt.
    Full,
}

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

/// The variant of attention: mask and weighting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttentionKind {
    /// Which tokens a token sees.
    pub mask: Mask,
    /// How scores become weights.
    pub weighting: Weighting,
}

/// out[b, t, h·k] = Σ_s weight(q[b,t,h]·k[b,s,h]) v[b,s,h]
#[derive(Debug, Clone, Copy)]
pub struct Attention {
    /// Queries, keys and values side by side, [batch, tokens, 3·heads·size].
    pub qkv: Var,
    /// Attention weights [batch, heads, tokens, padded tokens], kept for the backward pass.
    pub weights: Option<Var>,
    /// Output [batch, tokens, heads·size].
    pub out: Var,
    /// Mask and weighting.
    pub kind: AttentionKind,
    /// Prompts.
    pub batch: usize,
    /// Tokens per prompt.
    pub tokens: usize,
    /// Heads.
    pub heads: usize,
    /// Width of one head.
    pub size: usize,
}

/// Rows of scores computed together.
const BLOCK: usize = 32;

/// Rounds up to whole registers.
pub(super) fn padded(n: usize) -> usize {
    n.next_multiple_of(LANES)
}

impl Attention {
    /// Adds the operation to a plan, writing to `out`.
    pub fn add(
        plan: &mut PlanBuilder,
        qkv: Var,
        kind: AttentionKind,
        [batch, tokens, heads, size]: [usize; 4],
        out: Var,
    ) -> Self {
        let weights =
            (plan.mode() == Mode::Train).then(|| plan.aside(batch * heads * tokens * padded(tokens)));
        let op = Self { qkv, weights, out, kind, batch, tokens, heads, size };
        plan.push(Op::Attention(op));
        op
    }

    fn width(&self) -> usize {
        self.heads * self.size
    }

    /// Values in one score matrix.
    fn square(&self) -> usize {
        self.tokens * padded(self.tokens)
    }

    /// Scratch of one task: one head's keys or values transposed, one part of it dense, and one score matrix.
    fn task_scratch(&self) -> usize {
        2 * self.size * padded(self.tokens) + self.square()
    }

    pub(super) fn scratch(&self) -> usize {
        self.batch * self.task_scratch()
    }

    /// Columns of scores that rows in `block` need, in whole registers.
    fn columns(&self, block: &Range<usize>) -> usize {
        match self.kind.mask {
            Mask::Causal => padded(block.end),
            Mask::Full => padded(self.tokens),
        }
    }

    /// What the rows of a block see.
    fn rows(&self, block: &Range<usize>) -> Rows {
        let (first, seen_grows) = match self.kind.mask {
            Mask::Causal => (block.start, true),
            Mask::Full => (self.tokens - 1, false),
        };
        Rows { first, seen_grows, columns: self.columns(block), size: self.size }
    }

    /// Rows whose scores in columns `block` are not masked.
    fn seers(&self, block: &Range<usize>) -> Range<usize> {
        match self.kind.mask {
            Mask::Causal => block.start..self.tokens,
            Mask::Full => 0..self.tokens,
        }
    }

    fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let tokens = self.tokens;
        (0..tokens).step_by(BLOCK).map(move |start| start..(start + BLOCK).min(tokens))
    }

    pub(super) fn forward(&self, buffers: &mut Buffers) {
        let mut out = buffers.take(self.out);
        let mut scratch = std::mem::take(&mut buffers.scratch);
        let mut kept = self.weights.map(|weights| buffers.take(weights));
        let (tokens, width) = (self.tokens, self.width());
        let prompts = (
            out.par_chunks_mut(tokens * width),
            scratch.par_chunks_mut(self.task_scratch()),
            buffers.value(self.qkv).par_chunks(tokens * 3 * width),
        );
        let split = 2 * self.size * padded(tokens);
        match &mut kept {
            Some(weights) => {
                (prompts.0, prompts.1, prompts.2, weights.par_chunks_mut(self.heads * self.square()))
                    .into_par_iter()
                    .for_each(|(out, scratch, qkv, weights)| {
                        for (head, weights) in weights.chunks_exact_mut(self.square()).enumerate() {
                            self.head_forward(head, out, qkv, &mut scratch[..split], weights);
                        }
                    })
            }
            None => prompts.into_par_iter().for_each(|(out, scratch, qkv)| {
                let (parts, weights) = scratch.split_at_mut(split);
                (0..self.heads).for_each(|head| self.head_forward(head, out, qkv, parts, weights));
            }),
        }
        if let (Some(var), Some(weights)) = (self.weights, kept) {
            buffers.put(var, weights);
        }
        buffers.scratch = scratch;
        buffers.put(self.out, out);
    }

    fn head_forward(
        &self,
        head: usize,
        out: &mut [f32],
        qkv: &[f32],
        parts: &mut [f32],
        weights: &mut [f32],
    ) {
        let (tokens, size, width) = (self.tokens, self.size, self.width());
        let (row, pad) = (3 * width, padded(tokens));
        let q = &qkv[head * size..];
        let (keys, values) = parts.split_at_mut(size * pad);
        gather_transposed(keys, &qkv[width + head * size..], [tokens, size, row]);
        gather(values, &qkv[2 * width + head * size..], [tokens, size, row]);
        for block in self.blocks() {
            let (n, columns) = (block.len(), self.columns(&block));
            let scores = &mut weights[block.start * pad..block.end * pad];
            let queries = Mat::strided(&q[block.start * row..], n, size, row);
            small_matmul(scores, pad, Into::Overwrite, queries, Mat::strided(keys, size, columns, pad));
            weigh(self.kind.weighting, scores, pad, self.rows(&block));
            let inner = columns.min(tokens);
            small_matmul(
                &mut out[block.start * width + head * size..],
                width,
                Into::Overwrite,
                Mat::strided(scores, n, inner, pad),
                Mat::dense(values, inner, size),
            );
        }
    }

    pub(super) fn backward(&self, buffers: &mut Buffers, grads: &mut Grads) {
        let (tokens, width) = (self.tokens, self.width());
        let mut scratch = std::mem::take(&mut buffers.scratch);
        let weights = self.weights.expect("plans with a backward pass keep the weights");
        let into = if grads.add_dx { Into::Add } else { Into::Overwrite };
        (
            grads.dx.par_chunks_mut(tokens * 3 * width),
            scratch.par_chunks_mut(self.task_scratch()),
            grads.dout.par_chunks(tokens * width),
            buffers.value(self.qkv).par_chunks(tokens * 3 * width),
            buffers.value(weights).par_chunks(self.heads * self.square()),
        )
            .into_par_iter()
            .for_each(|(dqkv, scratch, dout, qkv, weights)| {
                for (head, weights) in weights.chunks_exact(self.square()).enumerate() {
                    self.head_backward(head, dqkv, into, scratch, dout, qkv, weights);
                }
            });
        buffers.scratch = scratch;
    }

    #[allow(clippy::too_many_arguments)]
    fn head_backward(
        &self,
        head: usize,
        dqkv: &mut [f32],
        into: Into,
        scratch: &mut [f32],
        dout: &[f32],
        qkv: &[f32],
        weights: &[f32],
    ) {
        let (tokens, size, width) = (self.tokens, self.size, self.width());
        let (row, pad) = (3 * width, padded(tokens));
        let [q_at, k_at, v_at] = [0, 1, 2].map(|part| part * width + head * size);
        let dout = &dout[head * size..];
        let (values, rest) = scratch.split_at_mut(size * pad);
        let (dense, dscores) = rest.split_at_mut(size * pad);
        gather_transposed(values, &qkv[v_at..], [tokens, size, row]);
        gather(dense, &qkv[k_at..], [tokens, size, row]);
        for block in self.blocks() {
            let (n, columns) = (block.len(), self.columns(&block));
            let ds = &mut dscores[block.start * pad..block.end * pad];
            let w = &weights[block.start * pad..block.end * pad];
            let d = Mat::strided(&dout[block.start * width..], n, size, width);
            small_matmul(ds, pad, Into::Overwrite, d, Mat::strided(values, size, columns, pad));
            weigh_backward(self.kind.weighting, ds, w, pad, self.rows(&block));
            let inner = columns.min(tokens);
            let keys = Mat::dense(dense, inner, size);
            let place = &mut dqkv[block.start * row + q_at..];
            small_matmul(place, row, into, Mat::strided(ds, n, inner, pad), keys);
        }
        gather(dense, dout, [tokens, size, width]);
        self.transposed_products(&mut dqkv[v_at..], into, weights, dense);
        gather(dense, &qkv[q_at..], [tokens, size, row]);
        self.transposed_products(&mut dqkv[k_at..], into, dscores, dense);
    }

    /// out[s, :] (+)= Σ_t scores[t, s] x[t, :] over the tokens t that see s.
    fn transposed_products(&self, out: &mut [f32], into: Into, scores: &[f32], x: &[f32]) {
        let (size, pad, row) = (self.size, padded(self.tokens), 3 * self.width());
        for block in self.blocks() {
            let seers = self.seers(&block);
            let scores = &scores[seers.start * pad + block.start..];
            let scores = Mat::strided(scores, seers.len(), block.len(), pad).t();
            let x = Mat::dense(&x[seers.start * size..], seers.len(), size);
            small_matmul(&mut out[block.start * row..], row, into, scores, x);
        }
    }
}

/// out[t, i] = x[t, i], without the gaps between rows: those would make rows collide in the nearest cache.
fn gather(out: &mut [f32], x: &[f32], [tokens, size, row]: [usize; 3]) {
    for (t, out) in out.chunks_exact_mut(size).take(tokens).enumerate() {
        out.copy_from_slice(&x[t * row..][..size]);
    }
}

/// out[i, t] = x[t, i], columns padded with zeros to whole registers.
pub(super) fn gather_transposed(out: &mut [f32], x: &[f32], [tokens, size, row]: [usize; 3]) {
    let pad = padded(tokens);
    for t in 0..tokens {
        for (i, &x) in x[t * row..][..size].iter().enumerate() {
            out[i * pad + t] = x;
        }
    }
    for out in out.chunks_exact_mut(pad).take(size) {
        out[tokens..].fill(0.0);
    }
}

/// A few rows of scores: the first sees the tokens up to `first`, the others as many or one more each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    /// The last token that the first row sees.
    pub first: usize,
    /// Whether each row sees one token more than the row before.
    pub seen_grows: bool,
    /// Columns in use, whole registers.
    pub columns: usize,
    /// Width of a head.
    pub size: usize,
}

impl Rows {
    /// Tokens that a row sees.
    #[inline(always)]
    fn seen(&self, row: usize) -> usize {
        self.first + 1 + if self.seen_grows { row } else { 0 }
    }
}

vectorised! {
    /// Turns scores q·k into weights in place; columns that a row does not see become 0.
    pub(super) fn weigh(weighting: Weighting, scores: &mut [f32], pad: usize, rows: Rows) -> () {
        let scale = 1.0 / (rows.size as f32).sqrt();
        for (row, scores) in scores.chunks_exact_mut(pad).enumerate() {
            let seen = rows.seen(row);
            let factor = scale / seen as f32;
            match weighting {
                Weighting::Softmax => softmax(&mut scores[..padded(seen)], seen, scale),
                Weighting::Relu => {
                    for s in &mut scores[..seen] {
                        *s = if *s < 0.0 { 0.0 } else { *s * factor };
                    }
                }
                Weighting::Linear => {
                    for s in &mut scores[..seen] {
                        *s *= factor;
                    }
                }
            }
            scores[seen..rows.columns].fill(0.0);
        }
    }

    /// Turns gradients of weights into gradients of q·k, in place.
    fn weigh_backward(weighting: Weighting, ds: &mut [f32], w: &[f32], pad: usize, rows: Rows) -> () {
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
        *s = exp((*s - largest) * scale);
    }
    scores[seen..].fill(0.0);
    let factor = 1.0 / sum([scores], |[s]| s);
    for s in scores.iter_mut() {
        *s *= factor;
    }
}
