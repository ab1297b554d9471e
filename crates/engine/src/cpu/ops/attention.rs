//! Attention over all heads of all prompts, as one operation.
//!
//! One prompt after the other: a head's keys, values and scores then stay in the nearest caches. Scores
//! live in rows padded to whole registers, and under a causal mask only blocks on or below the diagonal are computed.

use std::ops::Range;

use super::scores::{Rows, Weighting, gather, gather_transposed, padded, weigh, weigh_backward};
use super::{Grads, Op};
use crate::cpu::arena::with_scratch;
use crate::cpu::gemm::general::{Into, Mat};
use crate::cpu::gemm::small::small_matmul;
use crate::cpu::workspace::Share;
use crate::model::plan::{Mode, PlanBuilder, Var};

/// Which tokens a token sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mask {
    /// Itself and those before it.
    #[default]
    Causal,
    /// All tokens of the prompt.
    Full,
}

/// The variant of attention: mask and weighting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttentionKind {
    /// Which tokens a token sees.
    pub mask: Mask,
    /// How scores become weights.
    pub weighting: Weighting,
}

/// out`[b, a, h·k]` = Σ_s weight(q`[b,t,h]`·k`[b,s,h]`) v`[b,s,h]` for the token t = a·every
#[derive(Debug, Clone, Copy)]
pub struct Attention {
    /// Queries, keys and values side by side, `[batch, tokens, 3·heads·size]`.
    pub qkv: Var,
    /// Attention weights `[batch, heads, asking tokens, padded tokens]`, kept for the backward pass.
    pub weights: Option<Var>,
    /// Output `[batch, asking tokens, heads·size]`.
    pub out: Var,
    /// Mask and weighting.
    pub kind: AttentionKind,
    /// Prompts.
    pub batch: usize,
    /// Tokens per prompt.
    pub tokens: usize,
    /// Distance of the tokens that ask; the first of a prompt always does.
    pub every: usize,
    /// Heads.
    pub heads: usize,
    /// Width of one head.
    pub size: usize,
}

/// Rows of scores computed together.
const BLOCK: usize = 32;

/// Rows, or columns, of a score matrix in blocks.
fn blocks(count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(BLOCK).map(move |start| start..(start + BLOCK).min(count))
}

impl Attention {
    /// Adds the operation to a plan, writing to `out`. Every `every`-th token asks, all are asked.
    pub fn add(
        plan: &mut PlanBuilder,
        qkv: Var,
        kind: AttentionKind,
        [batch, tokens, heads, size]: [usize; 4],
        every: usize,
        out: Var,
    ) -> Self {
        assert!(BLOCK.is_multiple_of(every), "blocks begin with a token that asks");
        let mut op = Self { qkv, weights: None, out, kind, batch, tokens, every, heads, size };
        op.weights = (plan.mode() == Mode::Train).then(|| plan.aside(batch * heads * op.square()));
        plan.push(Op::Attention(op));
        op
    }

    fn width(&self) -> usize {
        self.heads * self.size
    }

    /// Tokens of a prompt that ask.
    fn asking(&self) -> usize {
        self.tokens.div_ceil(self.every)
    }

    /// Values in one score matrix.
    fn square(&self) -> usize {
        self.asking() * padded(self.tokens)
    }

    /// Scratch of one prompt: one head's keys or values transposed, one part of it dense, and one score matrix.
    fn scratch(&self) -> usize {
        2 * self.size * padded(self.tokens) + self.square()
    }

    /// Columns of scores that rows in `block` need, in whole registers.
    fn columns(&self, block: &Range<usize>) -> usize {
        match self.kind.mask {
            Mask::Causal => padded((block.end - 1) * self.every + 1),
            Mask::Full => padded(self.tokens),
        }
    }

    /// What the rows of a block see.
    fn rows(&self, block: &Range<usize>) -> Rows {
        let (first, more) = match self.kind.mask {
            Mask::Causal => (block.start * self.every, self.every),
            Mask::Full => (self.tokens - 1, 0),
        };
        Rows { first, more, columns: self.columns(block), size: self.size }
    }

    /// Rows whose scores in columns `block` are not masked.
    fn seers(&self, block: &Range<usize>) -> Range<usize> {
        match self.kind.mask {
            Mask::Causal => block.start / self.every..self.asking(),
            Mask::Full => 0..self.asking(),
        }
    }

    pub(super) fn forward(&self, share: &mut Share) {
        let out = share.take(self.out);
        let mut kept = self.weights.map(|weights| share.take(weights));
        let (tokens, width) = (self.tokens, self.width());
        let prompts = out
            .chunks_exact_mut(self.asking() * width)
            .zip(share.value(self.qkv).chunks_exact(tokens * 3 * width));
        with_scratch(self.scratch(), |scratch| {
            let (parts, own) = scratch.split_at_mut(2 * self.size * padded(tokens));
            for (prompt, (out, qkv)) in prompts.enumerate() {
                for head in 0..self.heads {
                    let weights = match &mut kept {
                        Some(kept) => {
                            &mut kept[(prompt * self.heads + head) * self.square()..][..self.square()]
                        }
                        None => &mut *own,
                    };
                    self.head_forward(head, out, qkv, parts, weights);
                }
            }
        });
        if let (Some(var), Some(weights)) = (self.weights, kept) {
            share.put(var, weights);
        }
        share.put(self.out, out);
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
        let asking_row = self.every * row;
        let q = &qkv[head * size..];
        let (keys, values) = parts.split_at_mut(size * pad);
        gather_transposed(keys, &qkv[width + head * size..], [tokens, size, row]);
        gather(values, &qkv[2 * width + head * size..], [tokens, size, row]);
        for block in blocks(self.asking()) {
            let (n, columns) = (block.len(), self.columns(&block));
            let scores = &mut weights[block.start * pad..block.end * pad];
            let queries = Mat::strided(&q[block.start * asking_row..], n, size, asking_row);
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

    pub(super) fn backward(&self, share: &Share, grads: &mut Grads) {
        let (tokens, width) = (self.tokens, self.width());
        let weights = self.weights.expect("plans with a backward pass keep the weights");
        let into = if grads.add_dx { Into::Add } else { Into::Overwrite };
        let values = share.value(self.qkv).chunks_exact(tokens * 3 * width);
        let values = values.zip(share.value(weights).chunks_exact(self.heads * self.square()));
        let prompts =
            grads.dx.chunks_exact_mut(tokens * 3 * width).zip(grads.dout.chunks_exact(self.asking() * width));
        with_scratch(self.scratch(), |scratch| {
            for ((dqkv, dout), (qkv, weights)) in prompts.zip(values) {
                for (head, weights) in weights.chunks_exact(self.square()).enumerate() {
                    self.head_backward(head, dqkv, into, scratch, dout, qkv, weights);
                }
            }
        });
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
        let (asking, row, pad) = (self.asking(), 3 * width, padded(tokens));
        let asking_row = self.every * row;
        let [q_at, k_at, v_at] = [0, 1, 2].map(|part| part * width + head * size);
        let dout = &dout[head * size..];
        let (values, rest) = scratch.split_at_mut(size * pad);
        let (dense, dscores) = rest.split_at_mut(size * pad);
        gather_transposed(values, &qkv[v_at..], [tokens, size, row]);
        gather(dense, &qkv[k_at..], [tokens, size, row]);
        for block in blocks(asking) {
            let (n, columns) = (block.len(), self.columns(&block));
            let ds = &mut dscores[block.start * pad..block.end * pad];
            let w = &weights[block.start * pad..block.end * pad];
            let d = Mat::strided(&dout[block.start * width..], n, size, width);
            small_matmul(ds, pad, Into::Overwrite, d, Mat::strided(values, size, columns, pad));
            weigh_backward(self.kind.weighting, ds, w, pad, self.rows(&block));
            let inner = columns.min(tokens);
            let keys = Mat::dense(dense, inner, size);
            let place = &mut dqkv[block.start * asking_row + q_at..];
            small_matmul(place, asking_row, into, Mat::strided(ds, n, inner, pad), keys);
        }
        if self.every > 1 && into == Into::Overwrite {
            let silent = |token: &usize| !token.is_multiple_of(self.every);
            (0..tokens).filter(silent).for_each(|token| dqkv[token * row + q_at..][..size].fill(0.0));
        }
        gather(dense, dout, [asking, size, width]);
        self.transposed_products(&mut dqkv[v_at..], into, weights, dense);
        gather(dense, &qkv[q_at..], [asking, size, asking_row]);
        self.transposed_products(&mut dqkv[k_at..], into, dscores, dense);
    }

    /// out[s, :] (+)= Σ_a scores`[a, s]` x[a, :] over the asking tokens a that see s.
    fn transposed_products(&self, out: &mut [f32], into: Into, scores: &[f32], x: &[f32]) {
        let (size, pad, row) = (self.size, padded(self.tokens), 3 * self.width());
        for block in blocks(self.tokens) {
            let seers = self.seers(&block);
            let scores = &scores[seers.start * pad + block.start..];
            let scores = Mat::strided(scores, seers.len(), block.len(), pad).t();
            let x = Mat::dense(&x[seers.start * size..], seers.len(), size);
            small_matmul(&mut out[block.start * row..], row, into, scores, x);
        }
    }
}
