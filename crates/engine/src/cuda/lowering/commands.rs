//! How commands are added: kernels, matmuls, and the streams they run on.

use super::Lowering;
use crate::cuda::buffer::StorageBuffer;
use crate::cuda::error::CudaError;
use crate::cuda::graph::{Argument, Command, Launch, MAIN, STREAMS, Work};
use crate::cuda::matmul::{Fused, Matmul, Terms};
use crate::cuda::matrix::DeviceMatrix;

impl Lowering<'_> {
    pub(super) fn launch(
        &mut self,
        name: &'static str,
        blocks: usize,
        threads: usize,
        arguments: &[Argument],
    ) -> Result<(), CudaError> {
        self.launch_on(MAIN, name, [blocks, threads], arguments)
    }

    pub(super) fn launch_on(
        &mut self,
        stream: usize,
        name: &'static str,
        grid: [usize; 2],
        arguments: &[Argument],
    ) -> Result<(), CudaError> {
        let launch = Launch::new(&self.kernels, name, grid, arguments.to_vec())?;
        self.commands.push(launch.pdl(true).on(stream));
        Ok(())
    }

    /// Adds out = x · y (+ c) to the commands if the library offers it with this epilogue; says whether.
    pub(super) fn matmul(
        &mut self,
        stream: usize,
        out: DeviceMatrix,
        factors: [DeviceMatrix; 2],
        c: Option<StorageBuffer>,
        fused: Fused,
    ) -> Result<bool, CudaError> {
        self.matmuls(stream, out, factors, Terms::plus(c), fused)
    }

    pub(super) fn matmuls(
        &mut self,
        stream: usize,
        out: DeviceMatrix,
        factors: [DeviceMatrix; 2],
        terms: Terms,
        fused: Fused,
    ) -> Result<bool, CudaError> {
        let matmul = Matmul::new(self.device, self.precision, out, factors, terms, fused)?;
        let Some(matmul) = matmul else { return Ok(false) };
        self.commands.push(Command { stream, work: Work::Matmul(matmul) });
        Ok(true)
    }

    /// Adds out = x · y to the commands.
    pub(super) fn matmul_or_fail(
        &mut self,
        stream: usize,
        out: DeviceMatrix,
        factors: [DeviceMatrix; 2],
    ) -> Result<(), CudaError> {
        self.matmuls_or_fail(stream, out, factors, 1)
    }

    /// The same for a batch of matrices.
    pub(super) fn matmuls_or_fail(
        &mut self,
        stream: usize,
        out: DeviceMatrix,
        factors: [DeviceMatrix; 2],
        batch: usize,
    ) -> Result<(), CudaError> {
        let inner = factors[0].shape().1;
        let terms = Terms { batch, ..Terms::plus(None) };
        match self.matmuls(stream, out, factors, terms, Fused::Nothing)? {
            true => Ok(()),
            false => Err(unsupported([out.rows, inner, out.columns])),
        }
    }

    /// Side streams take turns.
    pub(super) fn side_stream(&mut self) -> usize {
        self.side = self.side % (STREAMS - 1) + 1;
        self.side
    }

    /// Rows that one block sums over, such that two blocks per multiprocessor suffice.
    pub(super) fn rows_per_block(&self, rows: usize) -> usize {
        let blocks = 2 * self.device.info.multiprocessors;
        rows.div_ceil(blocks).next_multiple_of(8).max(32)
    }
}

pub(super) fn unsupported([rows, inner, columns]: [usize; 3]) -> CudaError {
    CudaError::Unsupported(format!("cuBLASLt offers no matmul [{rows}, {inner}] · [{inner}, {columns}]"))
}
