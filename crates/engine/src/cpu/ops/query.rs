//! Single query tokens after a shared prefix: each query sees the prefix and itself, no other query.
//!
//! The prefix is run once; its keys and values (or its LSTM state) serve all queries.

use super::lstm::step;
use super::scores::{Rows, gather, gather_transposed, padded, weigh};
use super::{Attention, LstmLayer, Op};
use crate::cpu::arena::with_scratch;
use crate::cpu::gemm::general::{Into, Mat};
use crate::cpu::gemm::product;
use crate::cpu::gemm::small::small_matmul;
use crate::cpu::lanes::sum;
use crate::cpu::simd::{LANES, NEAREST, prefetch, vectorised};
use crate::cpu::workspace::{Context, Share};
use crate::model::plan::{PlanBuilder, Var};

/// Attention of queries `[batch, queries]` over the keys and values of a prefix run, and over themselves.
#[derive(Debug, Clone, Copy)]
pub struct QueryAttention {
    /// Queries, keys and values of the query tokens, `[batch, queries, 3·heads·size]`.
    pub qkv: Var,
    /// The same layer in the plan of the prefix.
    pub prefix: Attention,
    /// Output `[batch, queries, heads·size]`.
    pub out: Var,
    /// Queries per prompt.
    pub queries: usize,
}

impl QueryAttention {
    /// Adds the operation to a plan, writing to `out`.
    pub fn add(plan: &mut PlanBuilder, qkv: Var, prefix: Attention, queries: usize, out: Var) {
        plan.push(Op::QueryAttention(Self { qkv, prefix, out, queries }));
    }

    pub(super) fn forward(&self, share: &mut Share, context: Context) {
        let prefix = context.prefix.expect("queries come after a prefix");
        let width = self.prefix.heads * self.prefix.size;
        let out = share.take(self.out);
        let prompts = out.chunks_exact_mut(self.queries * width);
        let prompts = prompts.zip(share.value(self.qkv).chunks_exact(self.queries * 3 * width));
        let before = prefix.buffers.value(self.prefix.qkv).chunks_exact(prefix.total * 3 * width);
        let scratch = (2 * self.prefix.size + self.queries) * padded(self.prefix.tokens + 1);
        with_scratch(scratch, |scratch| {
            for ((out, qkv), before) in prompts.zip(before.skip(share.first)) {
                for head in 0..self.prefix.heads {
                    self.head(head, prefix.tokens, out, scratch, qkv, before);
                }
            }
        });
        share.put(self.out, out);
    }

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
            small_matmul(scores, pad, Into::Overwrite, queries, Mat::dense(keys, size, columns));
        }
        own_scores(&mut scores[seen..], &qkv[q_at..], &qkv[k_at..], [n, size, row, pad]);
        let rows = Rows { first: seen, more: 0, columns: pad, size };
        weigh(self.prefix.kind.weighting, scores, pad, rows);
        own_values(&mut out[head * size..], &scores[seen..], &qkv[v_at..], [n, size, row, pad, width]);
        if seen > 0 {
            let weights = Mat::strided(scores, n, seen, pad);
            gather(values, &before[v_at..], [seen, size, row]);
            small_matmul(&mut out[head * size..], width, Into::Add, weights, Mat::dense(values, seen, size));
        }
    }
}

/// Rows that are asked for before they are read: they lie too far apart for the caches to guess them.
const AHEAD: usize = 8;

/// Asks for the values of a row from `from` on.
#[inline(always)]
fn ask_for(x: &[f32], from: usize, size: usize) {
    let row = x.as_ptr().wrapping_add(from);
    (0..size).step_by(LANES).for_each(|i| prefetch::<NEAREST>(row.wrapping_add(i)));
}

vectorised! {
    /// scores`[i]` = q`[i]`·k`[i]`, of each query with its own key.
    fn own_scores[simd](scores: &mut [f32], q: &[f32], k: &[f32], sizes: [usize; 4]) -> () {
        let [n, size, row, pad] = sizes;
        for i in 0..n {
            ask_for(k, (i + AHEAD) * row, size);
            let (q, k) = (&q[i * row..][..size], &k[i * row..][..size]);
            scores[i * pad] = sum!(simd, |q, k| q * k);
        }
    }

    /// out`[i]` = weights`[i]` v`[i]`, of each query with its own value.
    fn own_values(out: &mut [f32], weights: &[f32], v: &[f32], sizes: [usize; 5]) -> () {
        let [n, size, row, pad, width] = sizes;
        for i in 0..n {
            ask_for(v, (i + AHEAD) * row, size);
            let weight = weights[i * pad];
            let (out, v) = (&mut out[i * width..][..size], &v[i * row..][..size]);
            for (o, &v) in out.iter_mut().zip(v) {
                *o = weight * v;
            }
        }
    }
}

/// One LSTM step of each query from the state after the prefix.
#[derive(Debug, Clone, Copy)]
pub struct LstmQuery {
    /// Input `[batch, queries, inner]`.
    pub x: Var,
    /// The same layer in the plan of the prefix.
    pub prefix: LstmLayer,
    /// Output h `[batch, queries, width]`.
    pub out: Var,
    /// Gates `[batch, queries, 4·width]`.
    pub gates: Var,
    /// Cells `[batch, queries, width]`.
    pub cells: Var,
    /// Queries per prompt.
    pub queries: usize,
}

impl LstmQuery {
    /// Adds the operation to a plan and returns its output.
    pub fn add(plan: &mut PlanBuilder, x: Var, prefix: LstmLayer, queries: usize) -> Var {
        let rows = prefix.batch * queries;
        let out = plan.kept(rows * prefix.width);
        let gates = plan.temporary("gates", rows * 4 * prefix.width);
        let cells = plan.temporary("cells", rows * prefix.width);
        plan.push(Op::LstmQuery(Self { x, prefix, out, gates, cells, queries }));
        out
    }

    pub(super) fn forward(&self, share: &mut Share, context: Context) {
        let prefix = context.prefix.expect("queries come after a prefix");
        let &LstmLayer { inner, width, .. } = &self.prefix;
        let (gate_width, bias) = (4 * width, self.prefix.bias(context.params));
        let [w_ih, w_hh] = [self.prefix.w_ih, self.prefix.w_hh].map(|param| context.packed.of(param));
        let (out, gates, cells) = (share.take(self.out), share.take(self.gates), share.take(self.cells));
        let last = prefix.tokens.checked_sub(1);
        let states = |var| prefix.buffers.value(var).chunks_exact(prefix.total * width).skip(share.first);
        let before = states(self.prefix.out).zip(states(self.prefix.cells));
        let outs =
            out.chunks_exact_mut(self.queries * width).zip(cells.chunks_exact_mut(self.queries * width));
        let prompts = outs.zip(gates.chunks_exact_mut(self.queries * gate_width));
        let x = share.value(self.x).chunks_exact(self.queries * inner);
        for ((((out, cells), gates), x), (prefix_h, prefix_c)) in prompts.zip(x).zip(before) {
            // The prefix's share of the gates is the same for all queries.
            let (first, others) = gates.split_at_mut(gate_width);
            match last {
                Some(last) => {
                    let h = Mat::dense(&prefix_h[last * width..][..width], 1, width);
                    product(first, gate_width, Into::Overwrite, h, w_hh);
                }
                None => first.fill(0.0),
            }
            others.chunks_exact_mut(gate_width).for_each(|gates| gates.copy_from_slice(first));
            product(gates, gate_width, Into::Add, Mat::dense(x, self.queries, inner), w_ih);
            let before = last.map_or(&[][..], |last| &prefix_c[last * width..][..width]);
            let rows = out.chunks_exact_mut(width).zip(cells.chunks_exact_mut(width));
            for ((h, cell), gates) in rows.zip(gates.chunks_exact_mut(gate_width)) {
                step(h, cell, gates, &bias, before);
            }
        }
        share.put(self.out, out);
        share.put(self.gates, gates);
        share.put(self.cells, cells);
    }
}
