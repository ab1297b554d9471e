//! One batch from a sampling kernel, to be compared with what the host samples.

use std::sync::Arc;

use super::Precision;
use super::compiler::KernelSource;
use super::device::Device;
use super::error::CudaError;
use super::graph::{Launch, MAIN, Streams};
use super::memory::DeviceMemory;
use super::optim::{PROGRESS, ROW};

/// The kernel `sample` of a [`Feed::Kernel`](crate::trainer::Feed::Kernel), with a block for each prompt.
#[derive(Debug, Clone, Copy)]
pub struct SampleKernel<'a> {
    /// CUDA source.
    pub source: &'a str,
    /// Threads of a block.
    pub threads: u32,
    /// Whether blocks wait for each other, so that all must be resident at once.
    pub cooperative: bool,
}

/// Rows of the schedule's table before the one that is read.
const ROWS_AHEAD: usize = 4;

/// Runs a kernel once, as step `step` with `dims` dimensions in use: tokens `[batch, 2·points, features]` and targets
/// `[batch, points]`.
pub fn sample_once(
    device: &Arc<Device>,
    kernel: SampleKernel<'_>,
    [batch, points, features]: [usize; 3],
    step: u64,
    dims: u32,
) -> Result<(Vec<f32>, Vec<f32>), CudaError> {
    let _preparing = device.preparing();
    let stream = device.stream()?;
    let mut memory = DeviceMemory::new(device, stream.clone());
    let streams = Streams::new(device, stream, &mut memory)?;
    let len = [batch * 2 * points * features, batch * points];
    // What a kernel leaves out is seen, even where it should have written a zero.
    let tokens = memory.filled("tokens", &vec![f32::NAN; len[0]])?;
    let targets = memory.zeros::<f32>("targets", len[1])?;
    // The table begins some steps before.
    let ahead = step.min(ROWS_AHEAD as u64);
    let mut table = vec![u32::MAX; ROW * (ahead as usize + 1)];
    table[ROW * ahead as usize + 2] = dims;
    let rows = memory.filled("schedule", &table)?;
    let progress = memory.filled("progress", &[step, step - ahead, 0])?;
    let (rows, progress) = (rows.pointer(table.len())?, progress.pointer(PROGRESS)?);
    let pointers = [tokens.pointer(len[0])?, targets.pointer(len[1])?, rows, progress];
    let kernels = device.compile(&KernelSource::sampler(Precision::Float32, kernel.source))?;
    let grid = [batch, kernel.threads as usize];
    let launch = Launch::new(&kernels, "sample", grid, pointers.map(Into::into).to_vec())?;
    let launch = if kernel.cooperative { launch.cooperative() } else { launch };
    streams.enqueue(&[launch.on(MAIN)])?;
    Ok((memory.values(tokens)?, memory.values(targets)?))
}
