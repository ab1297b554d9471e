//! The last tokens of prompts: each sees the tokens before them, which another run has computed, and those of their own that its mask
//! lets it see.

use super::CpuOp;
use super::scores::{VisibleRows, gather, gather_transposed, padded, weigh};
use crate::cpu::arena::with_scratch;
use crate::cpu::backward::Grads;
use crate::cpu::gemm::general::{Accumulate, Mat};
use crate::cpu::gemm::small::small_matmul;
use crate::cpu::workspace::{Context, GroupView};
use crate::model::ops::{Attention, Mask, SuffixAttention};

impl CpuOp for SuffixAttention {
    fn forward(&self, view: &mut GroupView, context: Context) {
        let prefix = context.prefix.expect("a suffix comes after a prefix");
        let width = self.prefix.width();
        let out = view.take(self.out);
        let prompts = out.chunks_exact_mut(self.tokens * width);
        let prompts = prompts.zip(view.value(self.qkv).chunks_exact(self.tokens * 3 * width));
        let before = prefix.buffers.value(self.prefix.qkv).chunks_exact(prefix.total * 3 * width);
        let all = prefix.tokens + self.tokens;
        let scratch = 3 * self.prefix.size * padded(all) + Attention::BLOCK * padded(all);
        with_scratch(scratch, |scratch| {
            for ((out, qkv), before) in prompts.zip(before.skip(view.first)) {
                for head in 0..self.prefix.heads {
                    self.head(head, prefix.tokens, out, scratch, qkv, before);
                }
            }
        });
        view.put(self.out, out);
    }

    fn backward(&self, _: &mut GroupView, _: Context, _: &mut Grads) {
        unreachable!("plans of suffixes have no loss")
    }
}

impl SuffixAttention {
    fn head(
        &self,
        head: usize,
        seen: usize,
        out: &mut [f32],
        scratch: &mut [f32],
        qkv: &[f32],
        before: &[f32],
    ) {
        let (size, width, all) = (self.prefix.size, self.prefix.width(), seen + self.tokens);
        let (row, pad) = (3 * width, padded(all));
        let [q_at, k_at, v_at] = [0, 1, 2].map(|part| part * width + head * size);
        let (keys, rest) = scratch.split_at_mut(size * pad);
        let (dense, rest) = rest.split_at_mut(size * pad);
        let (values, scores) = rest.split_at_mut(size * pad);
        for (to, at) in [(&mut *dense, k_at), (&mut *values, v_at)] {
            let (old, own) = to.split_at_mut(seen * size);
            gather(old, &before[at..], [seen, size, row]);
            gather(own, &qkv[at..], [self.tokens, size, row]);
        }
        gather_transposed(keys, dense, [all, size, size]);
        for start in (0..self.tokens).step_by(Attention::BLOCK) {
            let end = (start + Attention::BLOCK).min(self.tokens);
            let (n, causal) = (end - start, self.prefix.kind.mask == Mask::Causal);
            let columns = if causal { padded(seen + end) } else { pad };
            let scores = &mut scores[..n * pad];
            let queries = Mat::strided(&qkv[start * row + q_at..], n, size, row);
            small_matmul(scores, pad, Accumulate::Overwrite, queries, Mat::strided(keys, size, columns, pad));
            let (first, more) = if causal { (seen + start, 1) } else { (all - 1, 0) };
            weigh(self.prefix.kind.weighting, scores, pad, VisibleRows { first, more, columns, size });
            let inner = columns.min(all);
            small_matmul(
                &mut out[start * width + head * size..],
                width,
                Accumulate::Overwrite,
                Mat::strided(scores, n, inner, pad),
                Mat::dense(values, inner, size),
            );
        }
    }
}
