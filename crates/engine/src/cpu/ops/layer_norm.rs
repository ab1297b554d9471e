//! LayerNorm over the last axis.

use super::{Grads, Op};
use crate::cpu::lanes::{Lanes, sum};
use crate::cpu::simd::vectorised;
use crate::cpu::workspace::{Buffers, Context, Share};
use crate::model::parameters::Param;
use crate::model::plan::{Mode, PlanBuilder, Var};

/// out`[r, e]` = (x`[r, e]` − mean_r) · rstd_r · gain`[e]` + bias`[e]`
#[derive(Debug, Clone, Copy)]
pub struct LayerNorm {
    /// Input `[rows, width]`.
    pub x: Var,
    /// Gain `[width]`.
    pub gain: Param,
    /// Bias `[width]`.
    pub bias: Param,
    /// Output `[rows, width]`.
    pub out: Var,
    /// Mean and reciprocal standard deviation of each row, `[rows, 2]`.
    pub stats: Var,
    /// Gradients of gain and bias that each prompt contributes, `[batch, 2, width]`; absent in inference.
    pub contributions: Option<Var>,
    /// Width of a row.
    pub width: usize,
    /// Tokens per prompt.
    pub tokens: usize,
    /// Rows: batch times tokens.
    pub rows: usize,
}

impl LayerNorm {
    /// Added to the variance, as in GPT-2.
    pub const EPSILON: f32 = 1e-5;

    /// Adds the operation to a plan, writing to `out`.
    pub fn add(
        plan: &mut PlanBuilder,
        x: Var,
        [gain, bias]: [Param; 2],
        [batch, tokens, width]: [usize; 3],
        out: Var,
    ) {
        assert!(plan.wants_grad(x), "a LayerNorm passes its gradient on");
        let rows = batch * tokens;
        let stats = plan.aside(rows * 2);
        let contributions = (plan.mode() == Mode::Train).then(|| plan.aside(batch * 2 * width));
        plan.push(Op::LayerNorm(Self { x, gain, bias, out, stats, contributions, width, tokens, rows }));
    }

    pub(super) fn forward(&self, share: &mut Share, context: Context) {
        let (gain, bias) = (self.gain.of(context.params), self.bias.of(context.params));
        let (out, stats) = (share.take(self.out), share.take(self.stats));
        normalise(out, stats, share.value(self.x), gain, bias);
        share.put(self.out, out);
        share.put(self.stats, stats);
    }

    fn contributions(&self) -> Var {
        self.contributions.expect("plans with a backward pass have a place for contributions")
    }

    pub(super) fn backward(&self, share: &mut Share, context: Context, grads: &mut Grads) {
        let gain = self.gain.of(context.params);
        let contributions = share.take(self.contributions());
        let prompt = self.tokens * self.width;
        for (i, sums) in contributions.chunks_exact_mut(2 * self.width).enumerate() {
            let range = i * prompt..(i + 1) * prompt;
            let dx = &mut grads.dx[range.clone()];
            let before = match (grads.with.get(range.clone()), grads.add_dx) {
                (Some(with), _) => Before::Is(with),
                (None, true) => Before::There,
                (None, false) => Before::Nothing,
            };
            let (x, dout) = (&share.value(self.x)[range.clone()], &grads.dout[range]);
            let stats = &share.value(self.stats)[2 * i * self.tokens..][..2 * self.tokens];
            normalise_backward(dx, before, sums, dout, x, stats, gain);
        }
        share.put(self.contributions(), contributions);
    }

    /// Adds up what the prompts contributed, in their order.
    pub(super) fn other_gradients(&self, buffers: &Buffers, dparams: &mut [f32]) {
        for contribution in buffers.value(self.contributions()).chunks_exact(2 * self.width) {
            let (dgain, dbias) = contribution.split_at(self.width);
            self.gain.of_mut(dparams).iter_mut().zip(dgain).for_each(|(t, &d)| *t += d);
            self.bias.of_mut(dparams).iter_mut().zip(dbias).for_each(|(t, &d)| *t += d);
        }
    }
}

/// What a gradient is added to.
#[derive(Clone, Copy)]
enum Before<'a> {
    Nothing,
    /// What is there.
    There,
    Is(&'a [f32]),
}

vectorised! {
    fn normalise[simd](out: &mut [f32], stats: &mut [f32], x: &[f32], gain: &[f32], bias: &[f32]) -> () {
        let n = gain.len();
        let bias = &bias[..n];
        for ((out, stats), x) in out.chunks_exact_mut(n).zip(stats.chunks_exact_mut(2)).zip(x.chunks_exact(n)) {
            let mean = sum!(simd, |x| x) / n as f32;
            let centre = Lanes::splat(simd, mean);
            let variance = sum!(simd, |x| (x - centre) * (x - centre)) / n as f32;
            let rstd = 1.0 / (variance + LayerNorm::EPSILON).sqrt();
            for i in 0..n {
                out[i] = (x[i] - mean) * rstd * gain[i] + bias[i];
            }
            stats[0] = mean;
            stats[1] = rstd;
        }
    }

    /// `partial` receives the sums over these rows for gain and bias, one after the other.
    fn normalise_backward[simd](
        dx: &mut [f32],
        before: Before<'_>,
        partial: &mut [f32],
        dout: &[f32],
        x: &[f32],
        stats: &[f32],
        gain: &[f32],
    ) -> () {
        let n = gain.len();
        partial.fill(0.0);
        let (dgain, dbias) = partial.split_at_mut(n);
        let dbias = &mut dbias[..n];
        let rows = dx.chunks_exact_mut(n).zip(dout.chunks_exact(n));
        for (row, ((dx, dout), (x, stats))) in rows.zip(x.chunks_exact(n).zip(stats.chunks_exact(2))).enumerate() {
            // With z the normalised row and g = dout·gain: dx = rstd (g − mean(g) − z mean(g z)).
            let (mean, rstd) = (stats[0], stats[1]);
            let mean_g = sum!(simd, |dout, gain| dout * gain) / n as f32;
            let centre = Lanes::splat(simd, mean);
            let mean_gz = sum!(simd, |dout, gain, x| dout * gain * (x - centre)) * rstd / n as f32;
            match before {
                Before::Nothing => dx.fill(0.0),
                Before::There => {}
                Before::Is(before) => dx.copy_from_slice(&before[row * n..][..n]),
            }
            for i in 0..n {
                let z = (x[i] - mean) * rstd;
                dgain[i] += dout[i] * z;
                dbias[i] += dout[i];
                let d = rstd * (dout[i] * gain[i] - mean_g - z * mean_gz);
                dx[i] += d;
            }
        }
    }
}
