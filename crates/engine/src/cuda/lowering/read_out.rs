//! The read-out of predictions, and the loss with its gradients.

use super::{Lowering, Partials, WARP_ROW_THREADS as THREADS, WARP_ROWS as WARPS};
use crate::cuda::error::CudaError;
use crate::model::ops::{Op, ReadOut};

/// Predictions per block of the loss.
const PREDICTIONS: usize = 32;

impl Lowering<'_> {
    pub(super) fn read_out(&mut self, op: &ReadOut) -> Result<(), CudaError> {
        let predictions = self.store_float("predictions", op.out)?;
        let count = self.graph.plan.len_of(op.out);
        let points = op.tokens.div_ceil(op.stride);
        let pointers = [
            predictions.pointer(count)?,
            self.in_storage(op.x)?.pointer(count / points * op.tokens * self.width)?,
            self.param(op.w)?.pointer(self.width)?,
            self.param(op.bias)?.pointer(1)?,
        ]
        .map(Into::into);
        let sizes = [count, points, op.tokens, op.stride].map(Into::into);
        self.launch("read_out", count.div_ceil(WARPS), THREADS, &[&pointers[..], &sizes].concat())
    }

    /// The loss with the gradients of the read-out.
    pub(super) fn loss_backward(&mut self, op: &ReadOut) -> Result<(), CudaError> {
        let targets = self.graph.targets.expect("training has targets");
        let (count, points) = (self.graph.plan.len_of(op.out), op.tokens.div_ceil(op.stride));
        debug_assert!(self.graph.plan.ops().iter().any(|op| matches!(op, Op::MeanSquare(_))));
        let dx = self.new_gradient("read_out dx", op.x)?;
        let (blocks, stride) = (count.div_ceil(PREDICTIONS), self.width + 2);
        let sums = self.float_buffer("loss partials", blocks * stride)?;
        let all = count / points * op.tokens * self.width;
        let pointers = [
            dx.pointer(all)?,
            sums.pointer(blocks * stride)?,
            self.float_value(op.out)?.pointer(count)?,
            self.float_value(targets)?.pointer(count)?,
            self.in_storage(op.x)?.pointer(all)?,
            self.param(op.w)?.pointer(self.width)?,
        ]
        .map(Into::into);
        let sizes = [count, points, op.tokens, PREDICTIONS].map(Into::into);
        self.launch("loss_backward", blocks, THREADS, &[&pointers[..], &sizes].concat())?;
        let partials = |first: usize| Partials::new(sums, first, [blocks, stride]);
        self.reduce(self.dparam(op.w)?, partials(0)?, self.width)?;
        self.reduce(self.dparam(op.bias)?, partials(self.width)?, 1)?;
        self.reduce(self.parameters.loss, partials(self.width + 1)?, 1)?;
        Ok(())
    }
}
