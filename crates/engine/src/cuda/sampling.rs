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
    let tokens = memory.zeros::<f32>("tokens", len[0])?;
    let targets = memory.zeros::<f32>("targets", len[1])?;
    let row = memory.filled("schedule", &[0, 0, dims, 0])?;
    let progress = memory.filled("progress", &[step, step, 0])?;
    let pointers =
        [tokens.pointer(len[0])?, targets.pointer(len[1])?, row.pointer(ROW)?, progress.pointer(PROGRESS)?];
    let kernels = device.compile(&KernelSource::sampler(Precision::Float32, kernel.source))?;
    let grid = [batch, kernel.threads as usize];
    let launch = Launch::new(&kernels, "sample", grid, pointers.map(Into::into).to_vec())?;
    let launch = if kernel.cooperative { launch.cooperative() } else { launch };
    streams.enqueue(&[launch.on(MAIN)])?;
    Ok((memory.values(tokens)?, memory.values(targets)?))
}
