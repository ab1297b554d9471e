//! The read-in of tokens into the residual stream, with positions.

use super::{Lowering, Partials};
use crate::cuda::buffer::DType;
use crate::cuda::error::CudaError;
use crate::cuda::graph::ABSENT;
use crate::model::ops::{Epilogue, Linear};

/// Tokens per block.
const ROWS: usize = 16;

impl Lowering<'_> {
    pub(super) fn read_in(&mut self, op: &Linear) -> Result<(), CudaError> {
        let all = op.rows * self.width;
        let out = self.store_float("read_in out", op.out)?;
        // A residual stream stays float32; without positions an LSTM begins.
        let (positions, period, seen) = match op.epilogue {
            Epilogue::Positions { table, tokens } => {
                (self.param(table)?.pointer(tokens * self.width)?, tokens, ABSENT)
            }
            Epilogue::QueryPosition { table } => (self.param(table)?.pointer(table.len)?, 1, self.seen()?),
            _ => (ABSENT, 1, ABSENT),
        };
        let out_storage = match self.storage() {
            DType::Bf16 if positions == ABSENT => {
                self.storage_copy("read_in out, stored", op.out)?.pointer(all)?
            }
            _ => ABSENT,
        };
        let arguments = [
            out.pointer(all)?.into(),
            out_storage.into(),
            self.float_value(op.x)?.pointer(op.rows * op.inner)?.into(),
            self.param(op.w)?.pointer(self.width * op.inner)?.into(),
            self.param(op.b)?.pointer(self.width)?.into(),
            positions.into(),
            seen.into(),
            op.rows.into(),
            ROWS.into(),
            period.into(),
        ];
        self.launch("read_in", op.rows.div_ceil(ROWS), self.width, &arguments)
    }

    pub(super) fn read_in_backward(&mut self, op: &Linear) -> Result<(), CudaError> {
        let d = self.gradient(op.out).pointer(op.rows * self.width)?;
        if let Epilogue::Positions { table, tokens } = op.epilogue {
            let stream = self.side_stream();
            let grid = [table.len / self.width, self.width];
            let dtable = self.dparam(table)?.pointer(grid[0] * self.width)?;
            let arguments = [dtable.into(), d.into(), (op.rows / tokens).into(), tokens.into()];
            self.launch_on(stream, "positions_backward", grid, &arguments)?;
        }
        let per_block = self.rows_per_block(op.rows);
        let blocks = op.rows.div_ceil(per_block);
        let stride = self.width * (op.inner + 1);
        let sums = self.float_buffer("read_in partials", blocks * stride)?;
        let tokens = self.float_value(op.x)?.pointer(op.rows * op.inner)?;
        let at = sums.pointer(blocks * stride)?;
        let arguments = [at.into(), d.into(), tokens.into(), op.rows.into(), per_block.into()];
        self.launch("read_in_backward", blocks, self.width, &arguments)?;
        let partials = |first: usize| Partials::new(sums, first, [blocks, stride]);
        self.reduce(self.dparam(op.w)?, partials(0)?, op.w.len)?;
        self.reduce(self.dparam(op.b)?, partials(op.w.len)?, op.b.len)?;
        Ok(())
    }
}
