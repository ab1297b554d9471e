//! Single query tokens after a shared prefix: each query sees the prefix and itself, no other query.
//!
//! The prefix is run once; its keys and values (or its LSTM state) serve all queries.

use rayon::prelude::*;

use super::lstm::step;
use super::scores::{Rows, gather, gather_transposed, padded, weigh};
use super::{Attention, LstmLayer, Op};
use crate::matmul::{Into, Mat, matmul, transpose};
use crate::plan::{Buffers, Context, PlanBuilder, Var};
use crate::simd::{sum, vectorised};
use crate::small_matmul::small_matmul;

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

    fn task_scratch(&self) -> usize {
        (2 * self.prefix.size + self.queries) * padded(self.prefix.tokens + 1)
    }

    pub(super) fn scratch(&self) -> usize {
        self.prefix.batch * self.task_scratch()
    }

    pub(super) fn forward(&self, buffers: &mut Buffers, context: Context) {
        let prefix = context.prefix.expect("queries come after a prefix");
        let width = self.prefix.heads * self.prefix.size;
        let mut out = buffers.take(self.out);
        let mut scratch = std::mem::take(&mut buffers.scratch);
        (
            out.par_chunks_mut(self.queries * width),
            scratch.par_chunks_mut(self.task_scratch()),
            buffers.value(self.qkv).par_chunks(self.queries * 3 * width),
            prefix.buffers.value(self.prefix.qkv).par_chunks(prefix.total * 3 * width),
        )
            .into_par_iter()
            .for_each(|(out, scratch, qkv, before)| {
                for head in 0..self.prefix.heads {
                    self.head(head, prefix.tokens, out, scratch, qkv, before);
                }
            });
        buffers.put(self.out, out);
        buffers.scratch = scratch;
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
        let rows = Rows { first: seen, seen_grows: false, columns: pad, size };
        weigh(self.prefix.kind.weighting, scores, pad, rows);
        own_values(&mut out[head * size..], &scores[seen..], &qkv[v_at..], [n, size, row, pad, width]);
        if seen > 0 {
            let weights = Mat::strided(scores, n, seen, pad);
            gather(values, &before[v_at..], [seen, size, row]);
            small_matmul(&mut out[head * size..], width, Into::Add, weights, Mat::dense(values, seen, size));
        }
    }
}

vectorised! {
    /// scores`[i]` = q`[i]`·k`[i]`, of each query with its own key.
    fn own_scores(scores: &mut [f32], q: &[f32], k: &[f32], sizes: [usize; 4]) -> () {
        let [n, size, row, pad] = sizes;
        for i in 0..n {
            scores[i * pad] = sum([&q[i * row..][..size], &k[i * row..][..size]], |[q, k]| q * k);
        }
    }

    /// out`[i]` = weights`[i]` v`[i]`, of each query with its own value.
    fn own_values(out: &mut [f32], weights: &[f32], v: &[f32], sizes: [usize; 5]) -> () {
        let [n, size, row, pad, width] = sizes;
        for i in 0..n {
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

    /// Both transposed weight matrices, and the prefix's share of the gates for each prompt.
    pub(super) fn scratch(&self) -> usize {
        4 * self.prefix.width * (self.prefix.inner + self.prefix.width + self.prefix.batch)
    }

    pub(super) fn forward(&self, buffers: &mut Buffers, context: Context) {
        let prefix = context.prefix.expect("queries come after a prefix");
        let &LstmLayer { inner, width, .. } = &self.prefix;
        let (gate_width, params) = (4 * width, context.params);
        let mut scratch = std::mem::take(&mut buffers.scratch);
        let (w_ih, rest) = scratch.split_at_mut(gate_width * inner);
        let (w_hh, shares) = rest.split_at_mut(gate_width * width);
        transpose(w_ih, self.prefix.w_ih.of(params), gate_width, inner);
        transpose(w_hh, self.prefix.w_hh.of(params), gate_width, width);
        let (w_ih, w_hh) = (&*w_ih, &*w_hh);
        let (mut out, mut gates) = (buffers.take(self.out), buffers.take(self.gates));
        let mut cells = buffers.take(self.cells);
        let last = prefix.tokens.checked_sub(1);
        (
            out.par_chunks_mut(self.queries * width),
            gates.par_chunks_mut(self.queries * gate_width),
            cells.par_chunks_mut(self.queries * width),
            shares.par_chunks_mut(gate_width),
            buffers.value(self.x).par_chunks(self.queries * inner),
            prefix.buffers.value(self.prefix.out).par_chunks(prefix.total * width),
            prefix.buffers.value(self.prefix.cells).par_chunks(prefix.total * width),
        )
            .into_par_iter()
            .for_each(|(out, gates, cells, share, x, prefix_h, prefix_c)| {
                for ((s, &i), &h) in
                    share.iter_mut().zip(self.prefix.b_ih.of(params)).zip(self.prefix.b_hh.of(params))
                {
                    *s = i + h;
                }
                if let Some(last) = last {
                    let h = Mat::dense(&prefix_h[last * width..][..width], 1, width);
                    matmul(share, gate_width, Into::Add, h, Mat::dense(w_hh, width, gate_width));
                }
                gates.chunks_exact_mut(gate_width).for_each(|g| g.copy_from_slice(share));
                let x = Mat::dense(x, self.queries, inner);
                matmul(gates, gate_width, Into::Add, x, Mat::dense(w_ih, inner, gate_width));
                let before = last.map_or(&[][..], |last| &prefix_c[last * width..][..width]);
                let rows = out.chunks_exact_mut(width).zip(cells.chunks_exact_mut(width));
                for ((h, cell), gates) in rows.zip(gates.chunks_exact_mut(gate_width)) {
                    step(h, cell, gates, before);
                }
            });
        buffers.put(self.out, out);
        buffers.put(self.gates, gates);
        buffers.put(self.cells, cells);
        buffers.scratch = scratch;
    }
}
