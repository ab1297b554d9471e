//! Attention over all heads of all prompts, as one operation.
//!
//! One prompt after the other: a head's keys, values and scores then stay in L1 and L2. Scores live in rows padded to
//! whole registers, and under a causal mask only blocks on or below the diagonal are computed.

use std::ops::Range;

use super::CpuOp;
use super::scores::{VisibleRows, gather, gather_transposed, padded, weigh, weigh_backward};
use crate::cpu::arena::with_scratch;
use crate::cpu::backward::Grads;
use crate::cpu::gemm::general::{Accumulate, Mat};
use crate::cpu::gemm::small::small_matmul;
use crate::cpu::workspace::{Context, GroupView};
use crate::model::ops::{Attention, Mask};
use crate::model::plan::Var;

/// Rows, or columns, of a score matrix in blocks.
fn blocks(count: usize) -> impl Iterator<Item = Range<usize>> {
    const BLOCK: usize = Attention::BLOCK;
    (0..count).step_by(BLOCK).map(move |start| start..(start + BLOCK).min(count))
}

impl CpuOp for Attention {
    fn forward(&self, view: &mut GroupView, _: Context) {
        let out = view.take(self.out);
        let mut kept = self.weights.map(|weights| view.take(weights));
        let (tokens, width) = (self.tokens, self.width());
        let prompts = out
            .chunks_exact_mut(self.query_rows() * width)
            .zip(view.value(self.qkv).chunks_exact(tokens * 3 * width));
        with_scratch(self.scratch(), |scratch| {
            let (parts, own) = scratch.split_at_mut(2 * self.size * padded(tokens));
            for (prompt, (out, qkv)) in prompts.enumerate() {
                for head in 0..self.heads {
                    let weights = match &mut kept {
                        Some(kept) => {
                            &mut kept[(prompt * self.heads + head) * self.scores_len()..][..self.scores_len()]
                        }
                        None => &mut *own,
                    };
                    self.head_forward(head, out, qkv, parts, weights);
                }
            }
        });
        if let (Some(var), Some(weights)) = (self.weights, kept) {
            view.put(var, weights);
        }
        view.put(self.out, out);
    }

    fn backward(&self, view: &mut GroupView, _: Context, grads: &mut Grads) {
        let (tokens, width) = (self.tokens, self.width());
        let weights = self.weights.expect("plans with a backward pass keep the weights");
        let accumulate = if grads.add_dx { Accumulate::Add } else { Accumulate::Overwrite };
        let values = view.value(self.qkv).chunks_exact(tokens * 3 * width);
        let values = values.zip(view.value(weights).chunks_exact(self.heads * self.scores_len()));
        let prompts = grads
            .dx
            .chunks_exact_mut(tokens * 3 * width)
            .zip(grads.dout.chunks_exact(self.query_rows() * width));
        with_scratch(self.scratch(), |scratch| {
            for ((dqkv, dout), (qkv, weights)) in prompts.zip(values) {
                for (head, weights) in weights.chunks_exact(self.scores_len()).enumerate() {
                    self.head_backward(head, dqkv, accumulate, scratch, dout, qkv, weights);
                }
            }
        });
    }

    fn fills(&self) -> [Option<(usize, Var)>; 2] {
        [self.weights.map(|weights| (0, weights)), Some((0, self.out))]
    }

    fn needed_by_backward(&self) -> [Option<Var>; 3] {
        [Some(self.qkv), self.weights, None]
    }
}

impl Attention {
    /// Scratch of one prompt: one head's keys or values transposed, one part of it dense, and one score matrix.
    fn scratch(&self) -> usize {
        2 * self.size * padded(self.tokens) + self.scores_len()
    }

    /// Columns of scores that rows in `block` need, in whole registers.
    fn columns(&self, block: &Range<usize>) -> usize {
        match self.kind.mask {
            Mask::Causal => padded((block.end - 1) * self.every + 1),
            Mask::Full => padded(self.tokens),
        }
    }

    /// What the query rows of a block see.
    fn visible_rows(&self, block: &Range<usize>) -> VisibleRows {
        let (first, more) = match self.kind.mask {
            Mask::Causal => (block.start * self.every, self.every),
            Mask::Full => (self.tokens - 1, 0),
        };
        VisibleRows { first, more, columns: self.columns(block), size: self.size }
    }

    /// Query rows that the keys in `block` are visible to.
    fn rows_seeing(&self, block: &Range<usize>) -> Range<usize> {
        match self.kind.mask {
            Mask::Causal => block.start / self.every..self.query_rows(),
            Mask::Full => 0..self.query_rows(),
        }
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
        let query_stride = self.every * row;
        let q = &qkv[head * size..];
        let (keys, values) = parts.split_at_mut(size * pad);
        gather_transposed(keys, &qkv[width + head * size..], [tokens, size, row]);
        gather(values, &qkv[2 * width + head * size..], [tokens, size, row]);
        for block in blocks(self.query_rows()) {
            let (n, columns) = (block.len(), self.columns(&block));
            let scores = &mut weights[block.start * pad..block.end * pad];
            let queries = Mat::strided(&q[block.start * query_stride..], n, size, query_stride);
            small_matmul(scores, pad, Accumulate::Overwrite, queries, Mat::strided(keys, size, columns, pad));
            weigh(self.kind.weighting, scores, pad, self.visible_rows(&block));
            let inner = columns.min(tokens);
            small_matmul(
                &mut out[block.start * width + head * size..],
                width,
                Accumulate::Overwrite,
                Mat::strided(scores, n, inner, pad),
                Mat::dense(values, inner, size),
            );
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn head_backward(
        &self,
        head: usize,
        dqkv: &mut [f32],
        accumulate: Accumulate,
        scratch: &mut [f32],
        dout: &[f32],
        qkv: &[f32],
        weights: &[f32],
    ) {
        let (tokens, size, width) = (self.tokens, self.size, self.width());
        let (query_rows, row, pad) = (self.query_rows(), 3 * width, padded(tokens));
        let query_stride = self.every * row;
        let [q_at, k_at, v_at] = [0, 1, 2].map(|part| part * width + head * size);
        let dout = &dout[head * size..];
        let (values, rest) = scratch.split_at_mut(size * pad);
        let (dense, dscores) = rest.split_at_mut(size * pad);
        gather_transposed(values, &qkv[v_at..], [tokens, size, row]);
        gather(dense, &qkv[k_at..], [tokens, size, row]);
        for block in blocks(query_rows) {
            let (n, columns) = (block.len(), self.columns(&block));
            let ds = &mut dscores[block.start * pad..block.end * pad];
            let w = &weights[block.start * pad..block.end * pad];
            let d = Mat::strided(&dout[block.start * width..], n, size, width);
            small_matmul(ds, pad, Accumulate::Overwrite, d, Mat::strided(values, size, columns, pad));
            weigh_backward(self.kind.weighting, ds, w, pad, self.visible_rows(&block));
            let inner = columns.min(tokens);
            let keys = Mat::dense(dense, inner, size);
            let place = &mut dqkv[block.start * query_stride + q_at..];
            small_matmul(place, query_stride, accumulate, Mat::strided(ds, n, inner, pad), keys);
        }
        if self.every > 1 && accumulate == Accumulate::Overwrite {
            let not_a_query = |token: &usize| !token.is_multiple_of(self.every);
            (0..tokens).filter(not_a_query).for_each(|token| dqkv[token * row + q_at..][..size].fill(0.0));
        }
        gather(dense, dout, [query_rows, size, width]);
        self.transposed_products(&mut dqkv[v_at..], accumulate, weights, dense);
        gather(dense, &qkv[q_at..], [query_rows, size, query_stride]);
        self.transposed_products(&mut dqkv[k_at..], accumulate, dscores, dense);
    }

    /// out[s, :] (+)= Σ_a scores`[a, s]` x[a, :] over the query rows a that see s.
    fn transposed_products(&self, out: &mut [f32], accumulate: Accumulate, scores: &[f32], x: &[f32]) {
        let (size, pad, row) = (self.size, padded(self.tokens), 3 * self.width());
        for block in blocks(self.tokens) {
            let rows = self.rows_seeing(&block);
            let scores = &scores[rows.start * pad + block.start..];
            let scores = Mat::strided(scores, rows.len(), block.len(), pad).t();
            let x = Mat::dense(&x[rows.start * size..], rows.len(), size);
            small_matmul(&mut out[block.start * row..], row, accumulate, scores, x);
        }
    }
}
