//! LayerNorm: a warp per row.

use super::{Lowering, Partials, WARP_ROW_THREADS as THREADS, WARP_ROWS as WARPS};
use crate::cuda::error::CudaError;
use crate::cuda::matmul::DType;
use crate::model::ops::LayerNorm;

/// Blocks per multiprocessor: few enough that every warp has several rows, of which it prefetches the next.
const BLOCKS: usize = 4;

impl Lowering<'_> {
    pub(super) fn layer_norm(&mut self, op: &LayerNorm) -> Result<(), CudaError> {
        let (out, stats) = (self.store(op.out, self.storage())?, self.store(op.stats, DType::Float)?);
        let [x, gain, bias] = [self.value(op.x), self.param(op.gain), self.param(op.bias)];
        let arguments = [out, stats, x, gain, bias].map(Into::into);
        let arguments = [&arguments[..], &[op.rows.into()]].concat();
        let blocks = op.rows.div_ceil(WARPS).min(BLOCKS * self.device.info.multiprocessors);
        self.launch("layer_norm", blocks, THREADS, &arguments)
    }

    pub(super) fn layer_norm_backward(&mut self, op: &LayerNorm) -> Result<(), CudaError> {
        let dout = self.gradient(op.out);
        let residual = self.gradients[op.x.0].unwrap_or(0);
        let dx = self.storage_buffer(op.rows * op.width)?;
        let per_block = self.rows_per_block(op.rows);
        let (count, stride) = (op.rows.div_ceil(per_block), 3 * op.width);
        let at = self.float_buffer(count * stride)?;
        let [x, stats, gain] = [self.value(op.x), self.value(op.stats), self.param(op.gain)];
        let pointers = [dx, at, residual, dout, x, stats, gain].map(Into::into);
        let arguments = [&pointers[..], &[op.rows.into(), per_block.into()]].concat();
        self.launch("layer_norm_backward", count, THREADS, &arguments)?;
        let partials = |which: usize| Partials { at: at + (4 * which * op.width) as u64, count, stride };
        self.reduce(self.dparam(op.gain), partials(0), op.width);
        self.reduce(self.dparam(op.bias), partials(1), op.width);
        self.bias_partials.insert(op.x.0, partials(2));
        self.gradients[op.x.0] = Some(dx);
        Ok(())
    }
}
