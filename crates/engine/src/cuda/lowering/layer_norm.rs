//! LayerNorm: a warp per row.

use super::{Lowering, Partials, WARP_ROW_THREADS as THREADS, WARP_ROWS as WARPS};
use crate::cuda::error::CudaError;
use crate::cuda::graph::ABSENT;
use crate::model::ops::LayerNorm;

/// Blocks per multiprocessor: few enough that every warp has several rows, of which it prefetches the next.
const BLOCKS: usize = 4;

impl Lowering<'_> {
    pub(super) fn layer_norm(&mut self, op: &LayerNorm) -> Result<(), CudaError> {
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
        let all = op.rows * op.width;
        let residual = self.gradients[op.x.0].map_or(Ok(ABSENT), |residual| residual.pointer(all))?;
        let dx = self.storage_buffer("layer_norm dx", all)?;
        let per_block = self.rows_per_block(op.rows);
        let (count, stride) = (op.rows.div_ceil(per_block), 3 * op.width);
        let sums = self.float_buffer("layer_norm partials", count * stride)?;
        let pointers = [
            dx.pointer(all)?,
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
        let partials = |which: usize| Partials::new(sums, which * op.width, [count, stride]);
        self.reduce(self.dparam(op.gain)?, partials(0)?, op.width)?;
        self.reduce(self.dparam(op.bias)?, partials(1)?, op.width)?;
        self.bias_partials.insert(op.x.0, partials(2)?);
        self.gradients[op.x.0] = Some(dx);
        Ok(())
    }
}
