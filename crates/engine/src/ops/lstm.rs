//! One LSTM layer over all tokens, with PyTorch's gate order (input, forget, candidate, output).

use rayon::prelude::*;

use super::linear::weight_gradient;
use super::{Grads, Op};
use crate::matmul::{Into, Mat};
use crate::packed::{self, Packed, product};
use crate::parallel::{prompts_per_task, rows_per_task};
use crate::params::Param;
use crate::plan::{Buffers, Context, PlanBuilder, Var};
use crate::simd::{sigmoid, tanh, vectorised};

/// h_t = o·tanh(c_t), c_t = f·c_{t−1} + i·g with gates from x_t and h_{t−1}.
#[derive(Debug, Clone, Copy)]
pub struct LstmLayer {
    /// Input `[batch, tokens, inner]`.
    pub x: Var,
    /// Input weights `[4·width, inner]`.
    pub w_ih: Param,
    /// Recurrent weights `[4·width, width]`.
    pub w_hh: Param,
    /// Input bias `[4·width]`.
    pub b_ih: Param,
    /// Recurrent bias `[4·width]`.
    pub b_hh: Param,
    /// Output h `[batch, tokens, width]`.
    pub out: Var,
    /// Gates after their activation `[batch, tokens, 4·width]`; the backward pass turns them into their gradients.
    pub gates: Var,
    /// Cells c `[batch, tokens, width]`.
    pub cells: Var,
    /// h one token earlier `[batch, tokens, width]`.
    pub previous: Var,
    /// Prompts.
    pub batch: usize,
    /// Tokens per prompt.
    pub tokens: usize,
    /// Width of a token of x.
    pub inner: usize,
    /// Width of h.
    pub width: usize,
}

impl LstmLayer {
    /// Adds the operation to a plan and returns its output. Parameters: w_ih, w_hh, b_ih, b_hh.
    pub fn add(
        plan: &mut PlanBuilder,
        x: Var,
        [w_ih, w_hh, b_ih, b_hh]: [Param; 4],
        [batch, tokens, inner, width]: [usize; 4],
    ) -> Self {
        let rows = batch * tokens;
        let out = plan.kept(rows * width);
        let gates = plan.temporary("gates", rows * 4 * width);
        let cells = plan.aside(rows * width);
        let previous = plan.temporary("previous", rows * width);
        let op = Self { x, w_ih, w_hh, b_ih, b_hh, out, gates, cells, previous, batch, tokens, inner, width };
        plan.push(Op::LstmLayer(op));
        op
    }

    /// Both packed weight matrices, the sum of both biases, and two states per prompt.
    pub(super) fn scratch(&self) -> usize {
        let [w_ih, w_hh] = self.packed_lens();
        (2 * self.batch + 4) * self.width + w_ih + w_hh
    }

    /// Places for both weight matrices, whichever way they are packed.
    fn packed_lens(&self) -> [usize; 2] {
        let gate_width = 4 * self.width;
        [self.inner, self.width]
            .map(|width| Packed::len_of(gate_width, width).max(Packed::len_of(width, gate_width)))
    }

    pub(super) fn forward(&self, buffers: &mut Buffers, context: Context) {
        let &Self { tokens, inner, width, .. } = self;
        let gate_width = 4 * width;
        let params = context.params;
        let mut scratch = std::mem::take(&mut buffers.scratch);
        let [ih, hh] = self.packed_lens();
        let (w_ih, rest) = scratch.split_at_mut(ih);
        let (w_hh, rest) = rest.split_at_mut(hh);
        let bias = &mut rest[..gate_width];
        let w_ih = Packed::new(w_ih, Mat::dense(self.w_ih.of(params), gate_width, inner).t());
        let w_hh = Packed::new(w_hh, Mat::dense(self.w_hh.of(params), gate_width, width).t());
        for ((b, &i), &h) in bias.iter_mut().zip(self.b_ih.of(params)).zip(self.b_hh.of(params)) {
            *b = i + h;
        }
        let mut gates = buffers.take(self.gates);
        let task = rows_per_task(self.batch * tokens);
        let bias = &*bias;
        (gates.par_chunks_mut(task * gate_width), buffers.value(self.x).par_chunks(task * inner))
            .into_par_iter()
            .for_each(|(gates, x)| {
                let pieces = gates.chunks_mut(packed::ROWS * gate_width).zip(x.chunks(packed::ROWS * inner));
                for (gates, x) in pieces {
                    gates.chunks_exact_mut(gate_width).for_each(|g| g.copy_from_slice(bias));
                    let x = Mat::dense(x, gates.len() / gate_width, inner);
                    product(gates, gate_width, Into::Add, x, w_ih);
                }
            });
        let (mut out, mut cells) = (buffers.take(self.out), buffers.take(self.cells));
        let mut previous = buffers.take(self.previous);
        let prompts = prompts_per_task(self.batch);
        let piece = prompts * tokens * width;
        (
            out.par_chunks_mut(piece),
            gates.par_chunks_mut(4 * piece),
            cells.par_chunks_mut(piece),
            previous.par_chunks_mut(piece),
        )
            .into_par_iter()
            .for_each(|(out, gates, cells, previous)| self.recur(out, gates, cells, previous, w_hh));
        buffers.put(self.out, out);
        buffers.put(self.cells, cells);
        buffers.put(self.previous, previous);
        buffers.put(self.gates, gates);
        buffers.scratch = scratch;
    }

    /// Carries a few prompts through all tokens.
    fn recur(
        &self,
        out: &mut [f32],
        gates: &mut [f32],
        cells: &mut [f32],
        previous: &mut [f32],
        w_hh: Packed,
    ) {
        let &Self { tokens, width, .. } = self;
        let (gate_width, prompts) = (4 * width, out.len() / (tokens * width));
        for t in 0..tokens {
            if t > 0 {
                let h = Mat::strided(&previous[t * width..], prompts, width, tokens * width);
                product(&mut gates[t * gate_width..], tokens * gate_width, Into::Add, h, w_hh);
            }
            for prompt in 0..prompts {
                let row = (prompt * tokens + t) * width;
                let (before, cell) = cells[..row + width].split_at_mut(row);
                let before = if t > 0 { &before[row - width..] } else { &[] };
                let h = &mut out[row..][..width];
                step(h, cell, &mut gates[4 * row..][..gate_width], before);
                if t == 0 {
                    previous[row..][..width].fill(0.0);
                }
                if t + 1 < tokens {
                    previous[row + width..][..width].copy_from_slice(h);
                }
            }
        }
    }

    pub(super) fn backward(
        &self,
        buffers: &mut Buffers,
        context: Context,
        dparams: &mut [f32],
        grads: &mut Grads,
    ) {
        let &Self { tokens, inner, width, .. } = self;
        let gate_width = 4 * width;
        let mut gates = buffers.take(self.gates);
        let mut scratch = std::mem::take(&mut buffers.scratch);
        let (states, rest) = scratch.split_at_mut(2 * self.batch * width);
        let [ih, hh] = self.packed_lens();
        let (w_ih, rest) = rest.split_at_mut(ih);
        let w_hh = &mut rest[..hh];
        let w_hh = Packed::new(w_hh, Mat::dense(self.w_hh.of(context.params), gate_width, width));
        let prompts = prompts_per_task(self.batch);
        let piece = prompts * tokens * width;
        (
            gates.par_chunks_mut(4 * piece),
            states.par_chunks_mut(2 * prompts * width),
            grads.dout.par_chunks(piece),
            buffers.value(self.cells).par_chunks(piece),
        )
            .into_par_iter()
            .for_each(|(gates, states, dout, cells)| self.recur_backward(gates, states, dout, cells, w_hh));
        if !grads.dx.is_empty() {
            let into = if grads.add_dx { Into::Add } else { Into::Overwrite };
            let w_ih = Packed::new(w_ih, Mat::dense(self.w_ih.of(context.params), gate_width, inner));
            let task = rows_per_task(self.batch * tokens);
            (grads.dx.par_chunks_mut(task * inner), gates.par_chunks(task * gate_width))
                .into_par_iter()
                .for_each(|(dx, dgates)| {
                    let d = Mat::dense(dgates, dx.len() / inner, gate_width);
                    product(dx, inner, into, d, w_ih);
                });
        }
        let rows = self.batch * tokens;
        let d = Mat::dense(&gates, rows, gate_width);
        let x = Mat::dense(buffers.value(self.x), rows, inner);
        let previous = Mat::dense(buffers.value(self.previous), rows, width);
        weight_gradient(dparams, [self.w_ih, self.b_ih], true, x, d);
        weight_gradient(dparams, [self.w_hh, self.b_hh], true, previous, d);
        buffers.put(self.gates, gates);
        buffers.scratch = scratch;
    }

    /// Walks a few prompts back through all tokens, turning gates into their gradients.
    fn recur_backward(
        &self,
        gates: &mut [f32],
        states: &mut [f32],
        dout: &[f32],
        cells: &[f32],
        w_hh: Packed,
    ) {
        let &Self { tokens, width, .. } = self;
        let (gate_width, prompts) = (4 * width, dout.len() / (tokens * width));
        let (dh, dc) = states.split_at_mut(states.len() / 2);
        dh.fill(0.0);
        dc.fill(0.0);
        for t in (0..tokens).rev() {
            for prompt in 0..prompts {
                let row = (prompt * tokens + t) * width;
                let (dh, dc) = (&dh[prompt * width..][..width], &mut dc[prompt * width..][..width]);
                let before = if t > 0 { &cells[row - width..row] } else { &[] };
                let (dout, cell) = (&dout[row..][..width], &cells[row..][..width]);
                let gates = &mut gates[4 * row..][..gate_width];
                step_backward(gates, dc, dh, dout, cell, before);
            }
            if t > 0 {
                let d = Mat::strided(&gates[t * gate_width..], prompts, gate_width, tokens * gate_width);
                product(dh, width, Into::Overwrite, d, w_hh);
            }
        }
    }
}

vectorised! {
    /// One token: activates the gates in place, then computes cell and h. `before` is empty for the first token.
    pub(super) fn step(h: &mut [f32], cell: &mut [f32], gates: &mut [f32], before: &[f32]) -> () {
        let n = h.len();
        let (i, rest) = gates.split_at_mut(n);
        let (f, rest) = rest.split_at_mut(n);
        let (g, o) = rest.split_at_mut(n);
        let (cell, o) = (&mut cell[..n], &mut o[..n]);
        for k in 0..n {
            i[k] = sigmoid(i[k]);
            f[k] = sigmoid(f[k]);
            g[k] = tanh(g[k]);
            o[k] = sigmoid(o[k]);
            cell[k] = i[k] * g[k];
        }
        if !before.is_empty() {
            let before = &before[..n];
            for k in 0..n {
                cell[k] += f[k] * before[k];
            }
        }
        for k in 0..n {
            h[k] = o[k] * tanh(cell[k]);
        }
    }

    /// One token backward: gates become gradients of their arguments; dc moves to the token before.
    fn step_backward(gates: &mut [f32], dc: &mut [f32], dh: &[f32], dout: &[f32], cell: &[f32], before: &[f32]) -> () {
        let n = dc.len();
        let (i, rest) = gates.split_at_mut(n);
        let (f, rest) = rest.split_at_mut(n);
        let (g, o) = rest.split_at_mut(n);
        let (o, dh, dout, cell) = (&mut o[..n], &dh[..n], &dout[..n], &cell[..n]);
        for k in 0..n {
            let dh = dh[k] + dout[k];
            let squashed = tanh(cell[k]);
            let d = dc[k] + dh * o[k] * (1.0 - squashed * squashed);
            let (di, dg) = (d * g[k] * i[k] * (1.0 - i[k]), d * i[k] * (1.0 - g[k] * g[k]));
            o[k] = dh * squashed * o[k] * (1.0 - o[k]);
            i[k] = di;
            g[k] = dg;
            dc[k] = d;
        }
        if before.is_empty() {
            f.fill(0.0);
            return;
        }
        let before = &before[..n];
        for k in 0..n {
            let forget = f[k];
            f[k] = dc[k] * before[k] * forget * (1.0 - forget);
            dc[k] *= forget;
        }
    }
}
