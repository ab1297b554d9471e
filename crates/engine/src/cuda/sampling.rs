//! One batch from a sampling kernel, to be compared with what the host samples.

use std::sync::Arc;

use super::Precision;
use super::compiler::KernelSource;
use super::device::Device;
use super::error::CudaError;
use super::graph::{Launch, MAIN, Streams};
use super::memory::DeviceMemory;
use super::runner::read_floats;

/// Runs the kernel `sample` of a [`Feed::Kernel`](crate::trainer::Feed::Kernel) once, as step `step` with `dims` dimensions in use:
/// tokens `[batch, 2·points, features]` and targets `[batch, points]`.
pub fn sample_once(
    device: &Arc<Device>,
    (source, threads): (&str, u32),
    [batch, points, features]: [usize; 3],
    step: u64,
    dims: u32,
) -> Result<(Vec<f32>, Vec<f32>), CudaError> {
    let _preparing = device.preparing();
    let stream = device.stream()?;
    let mut memory = DeviceMemory::new(stream.clone());
    let streams = Streams::new(device, stream, &mut memory)?;
    let row: Vec<u8> = [0, 0, dims, 0].iter().flat_map(|n: &u32| n.to_ne_bytes()).collect();
    let progress: Vec<u8> = [step, step, 0].iter().flat_map(|n| n.to_ne_bytes()).collect();
    let tokens = memory.zeros(4 * batch * 2 * points * features)?;
    let targets = memory.zeros(4 * batch * points)?;
    let pointers = [tokens, targets, memory.filled(&row)?, memory.filled(&progress)?];
    let kernels = device.compile(&KernelSource::sampler(Precision::Float32, source))?;
    let grid = [batch, threads as usize];
    let launch = Launch::new(&kernels, "sample", grid, pointers.map(Into::into).to_vec())?;
    streams.enqueue(&[launch.on(MAIN)])?;
    let read = |at, len| read_floats(&memory, at, len);
    Ok((read(tokens, batch * 2 * points * features)?, read(targets, batch * points)?))
}
