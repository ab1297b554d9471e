//! The read-in of tokens into the residual stream, with positions.

use super::{Lowering, Partials};
use crate::cuda::error::CudaError;
use crate::cuda::matmul::DType;
use crate::model::ops::{Epilogue, Linear};

/// Tokens per block.
const ROWS: usize = 16;

impl Lowering<'_> {
    pub(super) fn read_in(&mut self, op: &Linear) -> Result<(), CudaError> {
        let out = self.store(op.out, DType::Float)?;
        let (positions, period, out_storage) = match op.epilogue {
            // A residual stream begins, which stays float32.
            Epilogue::Positions { table, tokens } => (self.param(table), tokens, 0),
            _ if self.storage() == DType::Float => (0, 1, 0),
            _ => (0, 1, self.storage_copy(op.out)?),
        };
        let arguments = [
            out.into(),
            out_storage.into(),
            self.value(op.x).into(),
            self.param(op.w).into(),
            self.param(op.b).into(),
            positions.into(),
            op.rows.into(),
            ROWS.into(),
            period.into(),
        ];
        self.launch("read_in", op.rows.div_ceil(ROWS), self.width, &arguments)
    }

    pub(super) fn read_in_backward(&mut self, op: &Linear) -> Result<(), CudaError> {
        let d = self.gradient(op.out);
        if let Epilogue::Positions { table, tokens } = op.epilogue {
            let arguments = [self.dparam(table).into(), d.into(), (op.rows / tokens).into(), tokens.into()];
            let stream = self.side_stream();
            let grid = [table.len / self.width, self.width];
            self.launch_on(stream, "positions_backward", grid, &arguments)?;
        }
        let per_block = self.rows_per_block(op.rows);
        let blocks = op.rows.div_ceil(per_block);
        let stride = self.width * (op.inner + 1);
        let at = self.float_buffer(blocks * stride)?;
        let tokens = self.value(op.x);
        let arguments = [at.into(), d.into(), tokens.into(), op.rows.into(), per_block.into()];
        self.launch("read_in_backward", blocks, self.width, &arguments)?;
        self.reduce(self.dparam(op.w), Partials { at, count: blocks, stride }, op.w.len);
        let at = at + 4 * op.w.len as u64;
        self.reduce(self.dparam(op.b), Partials { at, count: blocks, stride }, op.b.len);
        Ok(())
    }
}
