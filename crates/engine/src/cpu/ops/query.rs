//! Single query tokens after a shared prefix: each query sees the prefix and itself, no other query.
//!
//! The prefix is run once; its KV cache (or its LSTM state) serves all queries.

use super::CpuOp;
use super::lstm::step;
use super::scores::{VisibleRows, gather, gather_transposed, padded, weigh};
use crate::cpu::arena::with_scratch;
use crate::cpu::backward::Grads;
use crate::cpu::gemm::general::{Accumulate, Mat};
use crate::cpu::gemm::product;
use crate::cpu::gemm::small::small_matmul;
use crate::cpu::simd::lanes::sum;
use crate::cpu::simd::{L1, prefetch_row, vectorised};
use crate::cpu::workspace::{Context, GroupView};
use crate::model::ops::{LstmLayer, LstmQuery, QueryAttention};

impl CpuOp for QueryAttention {
    fn forward(&self, view: &mut GroupView, context: Context) {
        let prefix = context.prefix.expect("queries come after a prefix");
        let width = self.prefix.heads * self.prefix.size;
        let out = view.take(self.out);
        let prompts = out.chunks_exact_mut(self.queries * width);
        let prompts = prompts.zip(view.value(self.qkv).chunks_exact(self.queries * 3 * width));
        let before = prefix.buffers.value(self.prefix.qkv).chunks_exact(prefix.total * 3 * width);
        let scratch = (2 * self.prefix.size + self.queries) * padded(self.prefix.tokens + 1);
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
        unreachable!("plans with queries have no loss")
    }
}

impl QueryAttention {
    fn head(
        &self,
        head: usize,
        seen: usize,
        out: &mut [f32],
        scratch: &mut [f32],
        qkv: &[f32],
        before: &[f32],
    ) {
        let (size, n) = (self.prefix.size, self.queries);
        let width = self.prefix.heads * size;
        let (row, pad) = (3 * width, padded(seen + 1));
        let [q_at, k_at, v_at] = [0, 1, 2].map(|part| part * width + head * size);
        let (keys, rest) = scratch.split_at_mut(size * padded(seen));
        let (values, rest) = rest.split_at_mut(size * seen);
        let scores = &mut rest[..n * pad];
        if seen > 0 {
            gather_transposed(keys, &before[k_at..], [seen, size, row]);
            let queries = Mat::strided(&qkv[q_at..], n, size, row);
            let columns = padded(seen);
            small_matmul(scores, pad, Accumulate::Overwrite, queries, Mat::dense(keys, size, columns));
        }
        own_scores(&mut scores[seen..], &qkv[q_at..], &qkv[k_at..], [n, size, row, pad]);
        let rows = VisibleRows { first: seen, more: 0, columns: pad, size };
        weigh(self.prefix.kind.weighting, scores, pad, rows);
        own_values(&mut out[head * size..], &scores[seen..], &qkv[v_at..], [n, size, row, pad, width]);
        if seen > 0 {
            let weights = Mat::strided(scores, n, seen, pad);
            gather(values, &before[v_at..], [seen, size, row]);
            small_matmul(
                &mut out[head * size..],
                width,
                Accumulate::Add,
                weights,
                Mat::dense(values, seen, size),
            );
        }
    }
}

/// Rows between the one that is prefetched and the one that is read: they lie too far apart for the hardware prefetcher.
const PREFETCH_DISTANCE: usize = 8;

vectorised! {
    /// scores`[i]` = q`[i]`·k`[i]`, of each query with its own key.
    fn own_scores[simd](scores: &mut [f32], q: &[f32], k: &[f32], sizes: [usize; 4]) -> () {
        let [n, size, row, pad] = sizes;
        for i in 0..n {
            prefetch_row::<L1>(k, (i + PREFETCH_DISTANCE) * row, size);
            let (q, k) = (&q[i * row..][..size], &k[i * row..][..size]);
            scores[i * pad] = sum!(simd, |q, k| q * k);
        }
    }

    /// out`[i]` = weights`[i]` v`[i]`, of each query with its own value.
    fn own_values(out: &mut [f32], weights: &[f32], v: &[f32], sizes: [usize; 5]) -> () {
        let [n, size, row, pad, width] = sizes;
        for i in 0..n {
            prefetch_row::<L1>(v, (i + PREFETCH_DISTANCE) * row, size);
            let weight = weights[i * pad];
            let (out, v) = (&mut out[i * width..][..size], &v[i * row..][..size]);
            for (o, &v) in out.iter_mut().zip(v) {
                *o = weight * v;
            }
        }
    }
}

impl CpuOp for LstmQuery {
    fn forward(&self, view: &mut GroupView, context: Context) {
        let prefix = context.prefix.expect("queries come after a prefix");
        let &LstmLayer { inner, width, .. } = &self.prefix;
        let (gate_width, bias) = (4 * width, self.prefix.bias(context.params));
        let [w_ih, w_hh] = [self.prefix.w_ih, self.prefix.w_hh].map(|param| context.packed.of(param));
        let (out, gates, cells) = (view.take(self.out), view.take(self.gates), view.take(self.cells));
        let last = prefix.tokens.checked_sub(1);
        let states = |var| prefix.buffers.value(var).chunks_exact(prefix.total * width).skip(view.first);
        let before = states(self.prefix.out).zip(states(self.prefix.cells));
        let outs =
            out.chunks_exact_mut(self.queries * width).zip(cells.chunks_exact_mut(self.queries * width));
        let prompts = outs.zip(gates.chunks_exact_mut(self.queries * gate_width));
        let x = view.value(self.x).chunks_exact(self.queries * inner);
        for ((((out, cells), gates), x), (prefix_h, prefix_c)) in prompts.zip(x).zip(before) {
            // The prefix's part of the gates is the same for all queries.
            let (first, others) = gates.split_at_mut(gate_width);
            match last {
                Some(last) => {
                    let h = Mat::dense(&prefix_h[last * width..][..width], 1, width);
                    product(first, gate_width, Accumulate::Overwrite, h, w_hh);
                }
                None => first.fill(0.0),
            }
            others.chunks_exact_mut(gate_width).for_each(|gates| gates.copy_from_slice(first));
            product(gates, gate_width, Accumulate::Add, Mat::dense(x, self.queries, inner), w_ih);
            let before = last.map_or(&[][..], |last| &prefix_c[last * width..][..width]);
            let rows = out.chunks_exact_mut(width).zip(cells.chunks_exact_mut(width));
            for ((h, cell), gates) in rows.zip(gates.chunks_exact_mut(gate_width)) {
                step(h, cell, gates, &bias, before);
            }
        }
        view.put(self.out, out);
        view.put(self.gates, gates);
        view.put(self.cells, cells);
    }

    fn backward(&self, _: &mut GroupView, _: Context, _: &mut Grads) {
        unreachable!("plans with queries have no loss")
    }
}
