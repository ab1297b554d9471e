//! LayerNorm over the last axis.

use super::CpuOp;
use crate::cpu::backward::Grads;
use crate::cpu::simd::lanes::{Lanes, sum};
use crate::cpu::simd::vectorised;
use crate::cpu::workspace::{Buffers, Context, GroupView};
use crate::model::ops::LayerNorm;
use crate::model::plan::Var;

/// Where gradients of gain and bias are saved.
fn contributions(op: &LayerNorm) -> Var {
    op.contributions.expect("plans with a backward pass have a place for contributions")
}

impl CpuOp for LayerNorm {
    fn forward(&self, view: &mut GroupView, context: Context) {
        let (gain, bias) = (self.gain.of(context.params), self.bias.of(context.params));
        let (out, stats) = (view.take(self.out), view.take(self.stats));
        normalise(out, stats, view.value(self.x), gain, bias);
        view.put(self.out, out);
        view.put(self.stats, stats);
    }

    fn backward(&self, view: &mut GroupView, context: Context, grads: &mut Grads) {
        let gain = self.gain.of(context.params);
        let sums = view.take(contributions(self));
        let prompt = self.tokens * self.width;
        for (i, sums) in sums.chunks_exact_mut(2 * self.width).enumerate() {
            let range = i * prompt..(i + 1) * prompt;
            let dx = &mut grads.dx[range.clone()];
            let before = match (grads.with.get(range.clone()), grads.add_dx) {
                (Some(with), _) => Before::Is(with),
                (None, true) => Before::There,
                (None, false) => Before::Nothing,
            };
            let (x, dout) = (&view.value(self.x)[range.clone()], &grads.dout[range]);
            let stats = &view.value(self.stats)[2 * i * self.tokens..][..2 * self.tokens];
            normalise_backward(dx, before, sums, dout, x, stats, gain);
        }
        view.put(contributions(self), sums);
    }

    /// Adds up what the prompts contributed, in their order.
    fn other_gradients(&self, buffers: &Buffers, _: &[f32], dparams: &mut [f32], _: &[f32]) {
        for contribution in buffers.value(contributions(self)).chunks_exact(2 * self.width) {
            let (dgain, dbias) = contribution.split_at(self.width);
            self.gain.of_mut(dparams).iter_mut().zip(dgain).for_each(|(t, &d)| *t += d);
            self.bias.of_mut(dparams).iter_mut().zip(dbias).for_each(|(t, &d)| *t += d);
        }
    }

    fn fills(&self) -> [Option<(usize, Var)>; 2] {
        [Some((0, self.out)), None]
    }

    fn needed_by_backward(&self) -> [Option<Var>; 3] {
        [Some(self.x), Some(self.stats), self.contributions]
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
