//! From the last hidden state to predictions, and from predictions to the loss.

use super::CpuOp;
use crate::cpu::backward::Grads;
use crate::cpu::simd::lanes::sum;
use crate::cpu::simd::vectorised;
use crate::cpu::workspace::{Buffers, Context, GroupView};
use crate::model::ops::{MeanSquare, ReadOut};
use crate::model::plan::Var;

impl ReadOut {
    /// Predictions per prompt.
    fn points(&self) -> usize {
        self.tokens.div_ceil(self.stride)
    }
}

impl CpuOp for ReadOut {
    fn forward(&self, view: &mut GroupView, context: Context) {
        let (w, bias) = (self.w.of(context.params), self.bias.of(context.params)[0]);
        let out = view.take(self.out);
        let prompts = view.value(self.x).chunks_exact(self.tokens * self.width);
        for (out, prompt) in out.chunks_exact_mut(self.points()).zip(prompts) {
            project(out, prompt, self.width * self.stride, w, bias);
        }
        view.put(self.out, out);
    }

    fn backward(&self, _: &mut GroupView, context: Context, grads: &mut Grads) {
        let (w, n) = (self.w.of(context.params), self.width);
        if !grads.add_dx {
            grads.dx.fill(0.0);
        }
        let prompts = grads.dx.chunks_exact_mut(self.tokens * n).zip(grads.dout.chunks_exact(self.points()));
        for (dx, dout) in prompts {
            for (dx, &d) in dx.chunks_exact_mut(n).step_by(self.stride).zip(dout) {
                dx.iter_mut().zip(w).for_each(|(dx, &w)| *dx += d * w);
            }
        }
    }

    fn other_gradients(&self, buffers: &Buffers, _: &[f32], dparams: &mut [f32], dout: &[f32]) {
        self.bias.of_mut(dparams)[0] += total(dout);
        let dw = self.w.of_mut(dparams);
        let prompts = buffers.value(self.x).chunks_exact(self.tokens * self.width);
        for (prompt, dout) in prompts.zip(dout.chunks_exact(self.points())) {
            add_weighted_rows(dw, prompt, self.width * self.stride, dout);
        }
    }

    fn keeps_dout(&self) -> bool {
        true
    }
}

vectorised! {
    fn total[simd](x: &[f32]) -> f32 {
        sum!(simd, |x| x)
    }

    /// out`[p]` = x[p·step ..]·w + bias
    fn project[simd](out: &mut [f32], x: &[f32], step: usize, w: &[f32], bias: f32) -> () {
        for (point, out) in out.iter_mut().enumerate() {
            let x = &x[point * step..];
            *out = sum!(simd, |w, x| w * x) + bias;
        }
    }

    /// sums += Σ_p weights`[p]` x[p·step ..]
    fn add_weighted_rows(sums: &mut [f32], x: &[f32], step: usize, weights: &[f32]) -> () {
        for (point, &weight) in weights.iter().enumerate() {
            for (sum, &x) in sums.iter_mut().zip(&x[point * step..]) {
                *sum += weight * x;
            }
        }
    }
}

impl CpuOp for MeanSquare {
    fn forward(&self, view: &mut GroupView, _: Context) {
        let out = view.take(self.out);
        let (p, y) = (view.value(self.predictions), view.value(self.targets));
        // Summed in double precision: the loss is a measurement, and there are few terms.
        let total: f64 = p.iter().zip(y).map(|(&p, &y)| f64::from(p - y) * f64::from(p - y)).sum();
        out[0] = (total / p.len() as f64) as f32;
        view.put(self.out, out);
    }

    fn backward(&self, view: &mut GroupView, _: Context, grads: &mut Grads) {
        let (p, y) = (view.value(self.predictions), view.value(self.targets));
        let scale = 2.0 * grads.dout[0] / p.len() as f32;
        for ((d, &p), &y) in grads.dx.iter_mut().zip(p).zip(y) {
            let gradient = scale * (p - y);
            *d = if grads.add_dx { *d + gradient } else { gradient };
        }
    }

    fn needed_by_backward(&self) -> [Option<Var>; 3] {
        [Some(self.predictions), Some(self.targets), None]
    }

    fn full_batch(&self) -> bool {
        true
    }
}
