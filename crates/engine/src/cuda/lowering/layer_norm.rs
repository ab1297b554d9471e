//! LayerNorm: a warp per row.

use super::{Lowering, Partials, WARP_ROW_THREADS as THREADS, WARP_ROWS as WARPS};
use crate::cuda::Precision;
use crate::cuda::buffer::DeviceBuffer;
use crate::cuda::error::CudaError;
use crate::cuda::graph::ABSENT;
use crate::model::graph::Graph;
use crate::model::ops::LayerNorm;
use crate::model::plan::{Mode, Var};

/// Blocks per multiprocessor: few enough that every warp has several rows, of which it prefetches the next.
const BLOCKS: usize = 4;

/// Rows up to which the gradient of the residual stream is float32 between kernels in bf16, too: 64 prompts of 128 pairs.
const FLOAT_STREAM_ROWS: usize = 64 * 256;

/// Whether the gradient of the residual stream is float32 between kernels, while activations are bf16. It is rounded at every LayerNorm
/// otherwise, as it was in three trainings of half a million steps of 64 prompts that broke down. Where LayerNorms are fused float32
/// costs nothing; elsewhere it takes 5 % of a step of 256 prompts, which no training of so many has needed.
pub(super) fn keeps_stream_in_float(graph: &Graph, precision: Precision) -> bool {
    precision == Precision::Bf16
        && graph.mode == Mode::Train
        && graph.batch * graph.tokens <= FLOAT_STREAM_ROWS
}

impl Lowering<'_> {
    pub(super) fn layer_norm(&mut self, op: &LayerNorm) -> Result<(), CudaError> {
        if self.fused_norms.contains(&op.out.0) {
            return Ok(());
        }
        let out = self.store("layer_norm out", op.out, self.storage())?;
        let stats = self.store_float("layer_norm stats", op.stats)?;
        let all = op.rows * op.width;
        let arguments = [
            out.pointer(all)?,
            stats.pointer(2 * op.rows)?,
            self.float_value(op.x)?.pointer(all)?,
            self.param(op.gain)?.pointer(op.width)?,
            self.param(op.bias)?.pointer(op.width)?,
        ]
        .map(Into::into);
        let arguments = [&arguments[..], &[op.rows.into()]].concat();
        let blocks = op.rows.div_ceil(WARPS).min(BLOCKS * self.device.info.multiprocessors);
        self.launch("layer_norm", blocks, THREADS, &arguments)
    }

    pub(super) fn layer_norm_backward(&mut self, op: &LayerNorm) -> Result<(), CudaError> {
        if self.fused_norm_gradients.contains(&op.out.0) {
            return Ok(());
        }
        let all = op.rows * op.width;
        let residual = match self.float_stream {
            true => self.stream_gradients.get(&op.x.0).map(|gradient| gradient.pointer(all)),
            false => self.gradients[op.x.0].map(|gradient| gradient.pointer(all)),
        };
        let residual = residual.unwrap_or(Ok(ABSENT))?;
        let dx = self.new_gradient("layer_norm dx", op.x)?;
        let stream = if self.float_stream { self.stream_gradient(op.x, all)?.pointer(all)? } else { ABSENT };
        let per_block = self.rows_per_block(op.rows);
        let (count, stride) = (op.rows.div_ceil(per_block), 3 * op.width);
        let sums = self.float_buffer("layer_norm partials", count * stride)?;
        let pointers = [
            dx.pointer(all)?,
            stream,
            sums.pointer(count * stride)?,
            residual,
            self.gradient(op.out).pointer(all)?,
            self.float_value(op.x)?.pointer(all)?,
            self.float_value(op.stats)?.pointer(2 * op.rows)?,
            self.param(op.gain)?.pointer(op.width)?,
        ]
        .map(Into::into);
        let arguments = [&pointers[..], &[op.rows.into(), per_block.into()]].concat();
        self.launch("layer_norm_backward", count, THREADS, &arguments)?;
        self.norm_sums(op, sums, count)
    }

    /// Makes the buffer of the residual stream's gradient at a variable in float32, beside the copy that matmuls read.
    pub(super) fn stream_gradient(&mut self, x: Var, len: usize) -> Result<DeviceBuffer<f32>, CudaError> {
        let stream = self.float_buffer("stream gradient", len)?;
        self.stream_gradients.insert(x.0, stream);
        Ok(stream)
    }

    /// Hands on the sums that a LayerNorm's backward pass left in `count` partials of `[3, width]`: the gradients of gain and
    /// bias, and of the bias that was added to x.
    pub(super) fn norm_sums(
        &mut self,
        op: &LayerNorm,
        sums: DeviceBuffer<f32>,
        count: usize,
    ) -> Result<(), CudaError> {
        let partials = |which: usize| Partials::new(sums, which * op.width, [count, 3 * op.width]);
        self.reduce(self.dparam(op.gain)?, partials(0)?, op.width)?;
        self.reduce(self.dparam(op.bias)?, partials(1)?, op.width)?;
        self.bias_partials.insert(op.x.0, partials(2)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::networks::{Gpt2Config, Network};

    #[test]
    fn the_papers_recipe_keeps_the_streams_gradient_in_float() {
        let keeps = |batch: usize, points: usize, mode, precision| {
            let network = Gpt2Config { positions: 202, layers: 1, ..Gpt2Config::default() };
            let graph = Network::Gpt2(network).graph(batch, 2 * points, mode).unwrap();
            keeps_stream_in_float(&graph, precision)
        };
        // R1, and R8 with its 101 points; the fast recipes have 256 prompts.
        for (batch, points, kept) in [(64, 41, true), (64, 101, true), (256, 41, false), (256, 101, false)] {
            assert_eq!(keeps(batch, points, Mode::Train, Precision::Bf16), kept, "{batch} x {points}");
        }
        assert!(!keeps(64, 41, Mode::Infer, Precision::Bf16));
        // There everything is float32.
        assert!(!keeps(64, 41, Mode::Train, Precision::Tf32));
    }
}
