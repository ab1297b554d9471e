//! The read-out of predictions, and the loss with its gradients.

use super::{Lowering, Partials, WARP_ROW_THREADS as THREADS, WARP_ROWS as WARPS};
use crate::cuda::error::CudaError;
use crate::cuda::matmul::DType;
use crate::model::ops::{Op, ReadOut};

/// Predictions per block of the loss.
const PREDICTIONS: usize = 32;

impl Lowering<'_> {
    pub(super) fn read_out(&mut self, op: &ReadOut) -> Result<(), CudaError> {
        let predictions = self.store(op.out, DType::Float)?;
        let count = self.graph.plan.len_of(op.out);
        let x = self.in_storage(op.x)?;
        let pointers = [predictions, x, self.param(op.w), self.param(op.bias)].map(Into::into);
        let points = op.tokens.div_ceil(op.stride);
        let sizes = [count, points, op.tokens, op.stride].map(Into::into);
        self.launch("read_out", count.div_ceil(WARPS), THREADS, &[&pointers[..], &sizes].concat())
    }

    /// The loss with the gradients of the read-out.
    pub(super) fn loss_backward(&mut self, op: &ReadOut) -> Result<(), CudaError> {
        let targets = self.graph.targets.expect("training has targets");
        let (count, points) = (self.graph.plan.len_of(op.out), op.tokens.div_ceil(op.stride));
        debug_assert!(self.graph.plan.ops().iter().any(|op| matches!(op, Op::MeanSquare(_))));
        let dx = self.storage_buffer(self.graph.plan.len_of(op.x))?;
        let (blocks, stride) = (count.div_ceil(PREDICTIONS), self.width + 2);
        let at = self.float_buffer(blocks * stride)?;
        let [predictions, x, w] = [self.value(op.out), self.in_storage(op.x)?, self.param(op.w)];
        let pointers = [dx, at, predictions, self.value(targets), x, w].map(Into::into);
        let sizes = [count, points, op.tokens, PREDICTIONS].map(Into::into);
        self.launch("loss_backward", blocks, THREADS, &[&pointers[..], &sizes].concat())?;
        let partials = |first: usize| Partials { at: at + 4 * first as u64, count: blocks, stride };
        self.reduce(self.dparam(op.w), partials(0), self.width);
        self.reduce(self.dparam(op.bias), partials(self.width), 1);
        self.reduce(self.parameters.loss, partials(self.width + 1), 1);
        self.gradients[op.x.0] = Some(dx);
        Ok(())
    }
}
