//! Read-in, LayerNorm, read-out and loss.

use super::{Lowering, Parts};
use crate::cpu::ops::{Epilogue, LayerNorm, Linear, Op, ReadOut};
use crate::cuda::error::CudaError;
use crate::cuda::product::Kind;

/// Threads of kernels with a warp per row, and rows per block.
const ROW_THREADS: usize = 256;
const ROWS: usize = 8;
/// Rows of tokens per block of the read-in.
const TOKEN_ROWS: usize = 16;
/// Blocks of a LayerNorm per multiprocessor: few enough that every warp has several rows, of which it loads the next ahead.
const NORM_BLOCKS: usize = 4;
/// Predictions per block of the loss.
const PREDICTIONS: usize = 32;

impl Lowering<'_> {
    pub(super) fn read_in(&mut self, op: &Linear) -> Result<(), CudaError> {
        let out = self.store(op.out, Kind::Float)?;
        let (positions, period, out_half) = match op.epilogue {
            // A residual stream begins, which stays float32.
            Epilogue::Positions { table, tokens } => (self.param(table), tokens, 0),
            _ if self.half() == Kind::Float => (0, 1, 0),
            _ => (0, 1, self.half_copy(op.out)?),
        };
        let arguments = [
            out.into(),
            out_half.into(),
            self.value(op.x).into(),
            self.param(op.w).into(),
            self.param(op.b).into(),
            positions.into(),
            op.rows.into(),
            TOKEN_ROWS.into(),
            period.into(),
        ];
        self.launch("read_in", op.rows.div_ceil(TOKEN_ROWS), self.width, &arguments)
    }

    pub(super) fn read_in_backward(&mut self, op: &Linear) -> Result<(), CudaError> {
        let d = self.gradient(op.out);
        if let Epilogue::Positions { table, tokens } = op.epilogue {
            let arguments = [self.dparam(table).into(), d.into(), (op.rows / tokens).into(), tokens.into()];
            let lane = self.side_lane();
            let grid = [table.len / self.width, self.width];
            self.launch_on(lane, "positions_backward", grid, &arguments)?;
        }
        let per_block = self.rows_per_block(op.rows);
        let blocks = op.rows.div_ceil(per_block);
        let stride = self.width * (op.inner + 1);
        let at = self.float_buffer(blocks * stride)?;
        let tokens = self.value(op.x);
        let arguments = [at.into(), d.into(), tokens.into(), op.rows.into(), per_block.into()];
        self.launch("read_in_backward", blocks, self.width, &arguments)?;
        self.sum_parts(self.dparam(op.w), Parts { at, parts: blocks, stride }, op.w.len);
        let at = at + 4 * op.w.len as u64;
        self.sum_parts(self.dparam(op.b), Parts { at, parts: blocks, stride }, op.b.len);
        Ok(())
    }

    pub(super) fn layer_norm(&mut self, op: &LayerNorm) -> Result<(), CudaError> {
        let (out, stats) = (self.store(op.out, self.half())?, self.store(op.stats, Kind::Float)?);
        let [x, gain, bias] = [self.value(op.x), self.param(op.gain), self.param(op.bias)];
        let arguments = [out, stats, x, gain, bias].map(Into::into);
        let arguments = [&arguments[..], &[op.rows.into()]].concat();
        let blocks = op.rows.div_ceil(ROWS).min(NORM_BLOCKS * self.device.info.multiprocessors);
        self.launch("layer_norm", blocks, ROW_THREADS, &arguments)
    }

    pub(super) fn layer_norm_backward(&mut self, op: &LayerNorm) -> Result<(), CudaError> {
        let dout = self.gradient(op.out);
        let before = self.gradients[op.x.0].unwrap_or(0);
        let dx = self.half_buffer(op.rows * op.width)?;
        let per_block = self.rows_per_block(op.rows);
        let (parts, stride) = (op.rows.div_ceil(per_block), 3 * op.width);
        let at = self.float_buffer(parts * stride)?;
        let [x, stats, gain] = [self.value(op.x), self.value(op.stats), self.param(op.gain)];
        let pointers = [dx, at, before, dout, x, stats, gain].map(Into::into);
        let arguments = [&pointers[..], &[op.rows.into(), per_block.into()]].concat();
        self.launch("layer_norm_backward", parts, ROW_THREADS, &arguments)?;
        let part = |which: usize| Parts { at: at + (4 * which * op.width) as u64, parts, stride };
        self.sum_parts(self.dparam(op.gain), part(0), op.width);
        self.sum_parts(self.dparam(op.bias), part(1), op.width);
        self.bias_parts.insert(op.x.0, part(2));
        self.gradients[op.x.0] = Some(dx);
        Ok(())
    }

    pub(super) fn read_out(&mut self, op: &ReadOut) -> Result<(), CudaError> {
        let predictions = self.store(op.out, Kind::Float)?;
        let count = self.graph.plan.len_of(op.out);
        let x = self.half_of(op.x)?;
        let pointers = [predictions, x, self.param(op.w), self.param(op.bias)].map(Into::into);
        let points = op.tokens.div_ceil(op.stride);
        let sizes = [count, points, op.tokens, op.stride].map(Into::into);
        self.launch("read_out", count.div_ceil(ROWS), ROW_THREADS, &[&pointers[..], &sizes].concat())
    }

    /// The loss with the gradients of the read-out.
    pub(super) fn loss_backward(&mut self, op: &ReadOut) -> Result<(), CudaError> {
        let targets = self.graph.targets.expect("training has targets");
        let (count, points) = (self.graph.plan.len_of(op.out), op.tokens.div_ceil(op.stride));
        debug_assert!(self.graph.plan.ops().iter().any(|op| matches!(op, Op::MeanSquare(_))));
        let dx = self.half_buffer(self.graph.plan.len_of(op.x))?;
        let (parts, stride) = (count.div_ceil(PREDICTIONS), self.width + 2);
        let at = self.float_buffer(parts * stride)?;
        let [predictions, x, w] = [self.value(op.out), self.half_of(op.x)?, self.param(op.w)];
        let pointers = [dx, at, predictions, self.value(targets), x, w].map(Into::into);
        let sizes = [count, points, op.tokens, PREDICTIONS].map(Into::into);
        self.launch("loss_backward", parts, ROW_THREADS, &[&pointers[..], &sizes].concat())?;
        let part = |first: usize| Parts { at: at + 4 * first as u64, parts, stride };
        self.sum_parts(self.dparam(op.w), part(0), self.width);
        self.sum_parts(self.dparam(op.bias), part(self.width), 1);
        self.sum_parts(self.parameters.loss, part(self.width + 1), 1);
        self.gradients[op.x.0] = Some(dx);
        Ok(())
    }
}
