//! From the last hidden state to predictions, and from predictions to the loss.

use super::{Grads, Op};
use crate::cpu::lanes::sum;
use crate::cpu::simd::vectorised;
use crate::cpu::workspace::{Buffers, Context, Share};
use crate::model::parameters::Param;
use crate::model::plan::{PlanBuilder, Var};

/// out`[b, p]` = Σ_e x`[b, p·stride, e]` w`[e]` + bias: one number at every `stride`-th token.
#[derive(Debug, Clone, Copy)]
pub struct ReadOut {
    /// Input `[batch, tokens, width]`.
    pub x: Var,
    /// Weights `[1, width]`.
    pub w: Param,
    /// Bias `[1]`.
    pub bias: Param,
    /// Output [batch, ⌈tokens/stride⌉].
    pub out: Var,
    /// Tokens per prompt.
    pub tokens: usize,
    /// Width of a token.
    pub width: usize,
    /// 2 for prompts, whose x tokens have even places; 1 for queries.
    pub stride: usize,
}

impl ReadOut {
    /// Adds the operation to a plan and returns its output.
    pub fn add(
        plan: &mut PlanBuilder,
        x: Var,
        [w, bias]: [Param; 2],
        [batch, tokens, width]: [usize; 3],
        stride: usize,
    ) -> Var {
        let out = plan.kept(batch * tokens.div_ceil(stride));
        plan.push(Op::ReadOut(Self { x, w, bias, out, tokens, width, stride }));
        out
    }

    /// Predictions per prompt.
    fn points(&self) -> usize {
        self.tokens.div_ceil(self.stride)
    }

    pub(super) fn forward(&self, share: &mut Share, context: Context) {
        let (w, bias) = (self.w.of(context.params), self.bias.of(context.params)[0]);
        let out = share.take(self.out);
        let prompts = share.value(self.x).chunks_exact(self.tokens * self.width);
        for (out, prompt) in out.chunks_exact_mut(self.points()).zip(prompts) {
            project(out, prompt, self.width * self.stride, w, bias);
        }
        share.put(self.out, out);
    }

    pub(super) fn backward(&self, context: Context, grads: &mut Grads) {
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

    pub(super) fn other_gradients(&self, buffers: &Buffers, dparams: &mut [f32], dout: &[f32]) {
        self.bias.of_mut(dparams)[0] += total(dout);
        let dw = self.w.of_mut(dparams);
        let prompts = buffers.value(self.x).chunks_exact(self.tokens * self.width);
        for (prompt, dout) in prompts.zip(dout.chunks_exact(self.points())) {
            add_weighted_rows(dw, prompt, self.width * self.stride, dout);
        }
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

/// out = mean over all predictions of (prediction − target)²
#[derive(Debug, Clone, Copy)]
pub struct MeanSquare {
    /// Predictions `[batch, points]`.
    pub predictions: Var,
    /// Targets `[batch, points]`.
    pub targets: Var,
    /// The loss, one number.
    pub out: Var,
}

impl MeanSquare {
    /// Adds the operation to a plan and returns its output.
    pub fn add(plan: &mut PlanBuilder, predictions: Var, targets: Var) -> Var {
        let out = plan.kept(1);
        plan.push(Op::MeanSquare(Self { predictions, targets, out }));
        out
    }

    pub(super) fn forward(&self, share: &mut Share) {
        let out = share.take(self.out);
        let (p, y) = (share.value(self.predictions), share.value(self.targets));
        // Summed in double precision: the loss is a measurement, and there are few terms.
        let total: f64 = p.iter().zip(y).map(|(&p, &y)| f64::from(p - y) * f64::from(p - y)).sum();
        out[0] = (total / p.len() as f64) as f32;
        share.put(self.out, out);
    }

    pub(super) fn backward(&self, share: &Share, grads: &mut Grads) {
        let (p, y) = (share.value(self.predictions), share.value(self.targets));
        let scale = 2.0 * grads.dout[0] / p.len() as f32;
        for ((d, &p), &y) in grads.dx.iter_mut().zip(p).zip(y) {
            let slope = scale * (p - y);
            *d = if grads.add_dx { *d + slope } else { slope };
        }
    }
}
