//! One LSTM layer over all tokens, with PyTorch's gate order (input, forget, candidate, output).

use super::CpuOp;
use super::read_in::ReadInGradients;
use crate::cpu::arena::with_scratch;
use crate::cpu::backward::Grads;
use crate::cpu::gemm::general::{Accumulate, Mat};
use crate::cpu::gemm::{PackedB, product};
use crate::cpu::simd::{L2, prefetch_row, sigmoid, tanh, vectorised};
use crate::cpu::weight_gradients::WeightGradient;
use crate::cpu::workspace::{Buffers, Context, GroupView, KeptBuffers};
use crate::model::ops::LstmLayer;
use crate::model::plan::Var;

impl CpuOp for LstmLayer {
    fn forward(&self, view: &mut GroupView, context: Context) {
        let weights = [self.w_ih, self.w_hh].map(|param| context.packed.of(param));
        let mut layer = Activations {
            out: view.take(self.out),
            gates: view.take(self.gates),
            cells: view.take(self.cells),
            previous: view.take(self.previous),
        };
        self.recur(&mut layer, view.value(self.x), &self.bias(context.params), weights);
        let Activations { out, gates, cells, previous } = layer;
        view.put(self.out, out);
        view.put(self.cells, cells);
        view.put(self.previous, previous);
        view.put(self.gates, gates);
    }

    fn backward(&self, view: &mut GroupView, context: Context, grads: &mut Grads) {
        let &Self { tokens, width, .. } = self;
        let [w_ih, w_hh] = [self.w_ih, self.w_hh].map(|param| context.packed.of(param));
        let gates = view.take(self.gates);
        let prompts = grads.dout.len() / (tokens * width);
        with_scratch(2 * prompts * width, |states| {
            self.recur_backward(gates, states, grads, view.value(self.cells), [w_ih, w_hh]);
        });
        view.put(self.gates, gates);
    }

    fn weight_gradients<'a>(&self, kept: &KeptBuffers<'a>, _: usize) -> Vec<WeightGradient<'a>> {
        let rows = self.batch * self.tokens;
        let dout = Mat::dense(kept.value(self.gates), rows, 4 * self.width);
        let gradient = |w, b, x, width| {
            let x = Mat::dense(kept.value(x), rows, width);
            WeightGradient { w, b, transposed: true, x, dout }
        };
        let recurrent = gradient(self.w_hh, self.b_hh, self.previous, self.width);
        match self.read_in {
            Some(_) => vec![recurrent],
            None => vec![gradient(self.w_ih, self.b_ih, self.x, self.inner), recurrent],
        }
    }

    fn other_gradients(&self, buffers: &Buffers, params: &[f32], dparams: &mut [f32], _: &[f32]) {
        if let Some(read_in) = self.read_in {
            let tokens = Mat::dense(buffers.value(read_in.x), read_in.rows, read_in.inner);
            let dgates = Mat::dense(buffers.value(self.gates), read_in.rows, 4 * self.width);
            ReadInGradients::new(tokens, dgates).add(self, &read_in, params, dparams);
        }
    }

    fn passes_gradient(&self) -> bool {
        self.read_in.is_none()
    }

    fn needed_by_backward(&self) -> [Option<Var>; 3] {
        [Some(self.gates), Some(self.cells), None]
    }

    fn recurrent(&self) -> bool {
        true
    }
}

/// What the forward pass through a layer fills, for a group of prompts.
struct Activations<'a> {
    out: &'a mut [f32],
    gates: &'a mut [f32],
    cells: &'a mut [f32],
    previous: &'a mut [f32],
}

impl LstmLayer {
    /// Both biases in one.
    pub(super) fn bias(&self, params: &[f32]) -> Vec<f32> {
        self.b_ih.of(params).iter().zip(self.b_hh.of(params)).map(|(i, h)| i + h).collect()
    }

    /// Takes prompts through all tokens. What a token's gates get from x is computed just before they are needed: for
    /// all tokens at once, they would pass through main memory three times.
    fn recur(&self, layer: &mut Activations, x: &[f32], bias: &[f32], [w_ih, w_hh]: [PackedB; 2]) {
        let &Self { tokens, inner, width, .. } = self;
        let Activations { out, gates, cells, previous } = layer;
        let (gate_width, prompts) = (4 * width, out.len() / (tokens * width));
        for t in 0..tokens {
            let place = &mut gates[t * gate_width..];
            let x = Mat::strided(&x[t * inner..], prompts, inner, tokens * inner);
            product(place, tokens * gate_width, Accumulate::Overwrite, x, w_ih);
            if t > 0 {
                let h = Mat::strided(&out[(t - 1) * width..], prompts, width, tokens * width);
                product(place, tokens * gate_width, Accumulate::Add, h, w_hh);
            }
            for prompt in 0..prompts {
                let row = (prompt * tokens + t) * width;
                let next = row + tokens * width;
                for values in [&*out, &*cells, &*previous] {
                    prefetch_row::<L2>(values, next, width);
                }
                prefetch_row::<L2>(gates, 4 * next, gate_width);
                let (before, cell) = cells[..row + width].split_at_mut(row);
                let before = if t > 0 { &before[row - width..] } else { &[] };
                let h = &mut out[row..][..width];
                step(h, cell, &mut gates[4 * row..][..gate_width], bias, before);
                if t == 0 {
                    previous[row..][..width].fill(0.0);
                }
                if t + 1 < tokens {
                    previous[row + width..][..width].copy_from_slice(h);
                }
            }
        }
    }

    /// Walks prompts back through all tokens, turning gates into their gradients and these into those of x.
    fn recur_backward(
        &self,
        gates: &mut [f32],
        states: &mut [f32],
        grads: &mut Grads,
        cells: &[f32],
        [w_ih, w_hh]: [PackedB; 2],
    ) {
        let &Self { tokens, inner, width, .. } = self;
        let accumulate = if grads.add_dx { Accumulate::Add } else { Accumulate::Overwrite };
        let (dout, dx) = (&*grads.dout, &mut *grads.dx);
        let (gate_width, prompts) = (4 * width, dout.len() / (tokens * width));
        let (dh, dc) = states.split_at_mut(states.len() / 2);
        dh.fill(0.0);
        dc.fill(0.0);
        for t in (0..tokens).rev() {
            for prompt in 0..prompts {
                let row = (prompt * tokens + t) * width;
                let next = row + tokens * width;
                // From main memory, where they have been since the forward pass.
                for values in [cells, dout] {
                    prefetch_row::<L2>(values, next, width);
                }
                prefetch_row::<L2>(gates, 4 * next, gate_width);
                let (dh, dc) = (&dh[prompt * width..][..width], &mut dc[prompt * width..][..width]);
                let before = if t > 0 { &cells[row - width..row] } else { &[] };
                let (dout, cell) = (&dout[row..][..width], &cells[row..][..width]);
                let gates = &mut gates[4 * row..][..gate_width];
                step_backward(gates, dc, dh, dout, cell, before);
            }
            let d = Mat::strided(&gates[t * gate_width..], prompts, gate_width, tokens * gate_width);
            if t > 0 {
                product(dh, width, Accumulate::Overwrite, d, w_hh);
            }
            if !dx.is_empty() {
                product(&mut dx[t * inner..], tokens * inner, accumulate, d, w_ih);
            }
        }
    }
}

vectorised! {
    /// One token: adds the bias to the gates and activates them in place, then computes cell and h. `before` is empty for
    /// the first token.
    pub(super) fn step(h: &mut [f32], cell: &mut [f32], gates: &mut [f32], bias: &[f32], before: &[f32]) -> () {
        let n = h.len();
        let (i, rest) = gates.split_at_mut(n);
        let (f, rest) = rest.split_at_mut(n);
        let (g, o) = rest.split_at_mut(n);
        let (cell, o) = (&mut cell[..n], &mut o[..n]);
        let [b_i, b_f, b_g, b_o] = [0, 1, 2, 3].map(|gate| &bias[gate * n..][..n]);
        for k in 0..n {
            i[k] = sigmoid(i[k] + b_i[k]);
            f[k] = sigmoid(f[k] + b_f[k]);
            g[k] = tanh(g[k] + b_g[k]);
            o[k] = sigmoid(o[k] + b_o[k]);
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
