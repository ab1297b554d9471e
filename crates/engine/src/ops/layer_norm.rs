//! LayerNorm over the last axis.

use rayon::prelude::*;

use super::{Grads, Op};
use crate::parallel::{partial_sums, rows_per_partial_sum, rows_per_task};
use crate::params::Param;
use crate::plan::{Buffers, Context, PlanBuilder, Var};
use crate::simd::{sum, vectorised};

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
    /// Width of a row.
    pub width: usize,
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
        [rows, width]: [usize; 2],
        out: Var,
    ) {
        assert!(plan.wants_grad(x), "a LayerNorm passes its gradient on");
        let stats = plan.aside(rows * 2);
        plan.push(Op::LayerNorm(Self { x, gain, bias, out, stats, width, rows }));
    }

    pub(super) fn forward(&self, buffers: &mut Buffers, context: Context) {
        let (gain, bias) = (self.gain.of(context.params), self.bias.of(context.params));
        let (mut out, mut stats) = (buffers.take(self.out), buffers.take(self.stats));
        let (n, task) = (self.width, rows_per_task(self.rows));
        let x = buffers.value(self.x).par_chunks(task * n);
        (out.par_chunks_mut(task * n), stats.par_chunks_mut(task * 2), x)
            .into_par_iter()
            .for_each(|(out, stats, x)| normalise(out, stats, x, gain, bias));
        buffers.put(self.out, out);
        buffers.put(self.stats, stats);
    }

    /// Partial gradients of gain and bias, one pair per task.
    pub(super) fn scratch(&self) -> usize {
        2 * self.width * partial_sums(self.rows)
    }

    pub(super) fn backward(
        &self,
        buffers: &mut Buffers,
        context: Context,
        dparams: &mut [f32],
        grads: &mut Grads,
    ) {
        let (n, task) = (self.width, rows_per_partial_sum(self.rows));
        let gain = self.gain.of(context.params);
        let mut scratch = std::mem::take(&mut buffers.scratch);
        let partials = &mut scratch[..self.scratch()];
        let add = grads.add_dx;
        (
            grads.dx.par_chunks_mut(task * n),
            partials.par_chunks_mut(2 * n),
            grads.dout.par_chunks(task * n),
            buffers.value(self.x).par_chunks(task * n),
            buffers.value(self.stats).par_chunks(task * 2),
        )
            .into_par_iter()
            .for_each(|(dx, partial, dout, x, stats)| {
                normalise_backward(dx, add, partial, dout, x, stats, gain);
            });
        for partial in partials.chunks_exact(2 * n) {
            let (dgain, dbias) = partial.split_at(n);
            self.gain.of_mut(dparams).iter_mut().zip(dgain).for_each(|(t, &d)| *t += d);
            self.bias.of_mut(dparams).iter_mut().zip(dbias).for_each(|(t, &d)| *t += d);
        }
        buffers.scratch = scratch;
    }
}

vectorised! {
    fn normalise(out: &mut [f32], stats: &mut [f32], x: &[f32], gain: &[f32], bias: &[f32]) -> () {
        let n = gain.len();
        let bias = &bias[..n];
        for ((out, stats), x) in out.chunks_exact_mut(n).zip(stats.chunks_exact_mut(2)).zip(x.chunks_exact(n)) {
            let mean = sum([x], |[x]| x) / n as f32;
            let variance = sum([x], |[x]| (x - mean) * (x - mean)) / n as f32;
            let rstd = 1.0 / (variance + LayerNorm::EPSILON).sqrt();
            for i in 0..n {
                out[i] = (x[i] - mean) * rstd * gain[i] + bias[i];
            }
            stats[0] = mean;
            stats[1] = rstd;
        }
    }

    /// `partial` receives the sums over these rows for gain and bias, one after the other.
    fn normalise_backward(
        dx: &mut [f32],
        add: bool,
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
        for ((dx, dout), (x, stats)) in rows.zip(x.chunks_exact(n).zip(stats.chunks_exact(2))) {
            // With z the normalised row and g = dout·gain: dx = rstd (g − mean(g) − z mean(g z)).
            let (mean, rstd) = (stats[0], stats[1]);
            let mean_g = sum([dout, gain], |[d, gain]| d * gain) / n as f32;
            let mean_gz = sum([dout, gain, x], |[d, gain, x]| d * gain * (x - mean)) * rstd / n as f32;
            if !add {
                dx.fill(0.0);
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
