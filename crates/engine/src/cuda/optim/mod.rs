//! The end of a training step on the device: gradient norm, clipping, Adam, Muon for matrices, and on to the next step.

mod muon;

use std::ops::Range;
use std::sync::Arc;

use super::buffer::{BufferError, DeviceBuffer, Pointer, StorageBuffer};
use super::compiler::{KernelSource, Kernels};
use super::device::Device;
use super::error::CudaError;
use super::graph::{ABSENT, Argument, Command, Launch, MAIN};
use super::lowering::DeviceParameters;
use super::memory::DeviceMemory;
use super::runner::whole_vectors;
use super::{Precision, kernels, trainer::TABLE};
use crate::model::optim::OptimiserState;
use crate::model::optim::adam::AdamConfig;
use crate::model::optim::muon as newton_schulz;
use muon::{BLOCKS_PER_MATRIX, MatrixStack};

/// Buffers and kernels of the optimiser.
pub(super) struct Optimiser {
    pub mean: DeviceBuffer<f32>,
    pub square: DeviceBuffer<f32>,
    /// Partial sums of the squared gradient norm.
    norm_partials: DeviceBuffer<f64>,
    /// step, first step of the table, whether halted.
    pub progress: DeviceBuffer<u64>,
    /// The schedule's table, by its bits.
    pub rows: DeviceBuffer<u32>,
    /// Loss and norm of every step of the table.
    pub results: DeviceBuffer<f32>,
    config: AdamConfig,
    clip: Option<f32>,
    /// What Adam updates, in chunks.
    chunks: DeviceBuffer<u64>,
    muon: Option<MatrixStack>,
    kernels: Kernels,
}

const THREADS: usize = 256;
const NORM_BLOCKS: usize = 264;
const ADAM_BLOCKS: usize = 1056;
/// Values that a block of threads updates at a time; as in the kernel.
const CHUNK: usize = 4 * THREADS;
/// Words of a step of the schedule's table, and of where training stands; as in the kernels.
pub(super) const ROW: usize = 4;
pub(super) const PROGRESS: usize = 3;

/// What the kernels of this module are compiled from.
pub(super) fn source(precision: Precision) -> KernelSource {
    KernelSource::new("optimiser", precision, &[], kernels::OPTIMISER)
}

impl Optimiser {
    pub fn new(
        device: &Arc<Device>,
        precision: Precision,
        memory: &mut DeviceMemory,
        clip: Option<f32>,
        adam: &OptimiserState,
    ) -> Result<Optimiser, CudaError> {
        let table: Vec<u64> = chunks(adam).iter().flatten().map(|n| *n as u64).collect();
        // Rounded up as the parameters are.
        let mut moment = |label, values: &[f32]| -> Result<DeviceBuffer<f32>, CudaError> {
            let buffer = memory.zeros(label, whole_vectors(values.len()))?;
            memory.write(buffer.part(..values.len())?, values)?;
            Ok(buffer)
        };
        let (mean, square) = (moment("mean", &adam.mean)?, moment("square", &adam.square)?);
        let muon = match &adam.muon[..] {
            [] => None,
            matrices => Some(MatrixStack::new(precision, memory, matrices)?),
        };
        Ok(Optimiser {
            mean,
            square,
            norm_partials: memory.zeros("norm partials", NORM_BLOCKS)?,
            progress: memory.zeros("progress", PROGRESS)?,
            rows: memory.zeros("schedule", ROW * TABLE)?,
            results: memory.zeros("results", 2 * TABLE)?,
            config: adam.config,
            clip,
            chunks: memory.filled("chunks of Adam", &table)?,
            muon,
            kernels: device.compile(&source(precision))?,
        })
    }

    /// The commands that end a step, for parameters at `p`, of which there are `count`.
    pub fn commands(
        &self,
        device: &Arc<Device>,
        precision: Precision,
        p: DeviceParameters,
        count: usize,
    ) -> Result<Vec<Command>, CudaError> {
        // Kernels move whole vectors, in the chunks of the moments.
        let whole = whole_vectors(count).max(self.mean.len());
        let [params, grads] = [p.params.pointer(whole)?, p.grads.pointer(whole)?];
        let [mean, square] = [self.mean.pointer(whole)?, self.square.pointer(whole)?];
        let rounded = match p.rounded {
            StorageBuffer::Float(_) => ABSENT,
            StorageBuffer::Bf16(rounded) => rounded.pointer(whole)?,
        };
        let (loss, progress) = (p.loss.pointer(1)?, self.progress()?);
        let AdamConfig { beta1, beta2, epsilon } = self.config;
        let partials = self.norm_partials.pointer(NORM_BLOCKS)?;
        let norm_partials = [partials.into(), NORM_BLOCKS.into()];
        let clip = Argument::from(self.clip.unwrap_or(0.0));
        let arguments = [partials.into(), grads.into(), count.into()];
        let norm = self.launch("grad_norm_partials", NORM_BLOCKS, &arguments)?;

        let chunk_count = self.chunks.len() / 2;
        let chunks = [self.chunks.pointer(2 * chunk_count)?.into(), chunk_count.into()];
        let pointers = [params, rounded, mean, square, grads].map(Argument::from);
        let state = [loss, self.schedule()?, progress].map(Argument::from);
        let numbers = [clip, beta1.into(), beta2.into(), epsilon.into()];
        let arguments = [&chunks[..], &pointers, &norm_partials, &state, &numbers].concat();
        let adam = self.launch("adam", ADAM_BLOCKS.min(chunk_count), &arguments)?;

        let pointers = [progress, self.results.pointer(2 * TABLE)?, loss].map(Argument::from);
        let advance = self.launch("advance", 1, &[&pointers[..], &norm_partials].concat())?;

        let mut commands = vec![norm];
        if let Some(stack) = &self.muon {
            let blocks = stack.blocks * BLOCKS_PER_MATRIX;
            let [table, start, squares, result] = stack.pointers()?;
            let [params, grads] = [p.params.pointer(stack.reach)?, p.grads.pointer(stack.reach)?];
            let mean = self.mean.pointer(stack.reach)?;
            let buffers = [table, mean, start, squares, grads].map(Argument::from);
            let progress = [loss, progress].map(Argument::from);
            let numbers = [clip, newton_schulz::MOMENTUM.into()];
            let arguments = [&buffers[..], &norm_partials, &progress, &numbers].concat();
            commands.push(self.launch("muon_momentum", blocks, &arguments)?);
            let buffers = [table, start, squares].map(Argument::from);
            let arguments = [&buffers[..], &[newton_schulz::EPSILON.into()]].concat();
            commands.push(self.launch("muon_normalise", blocks, &arguments)?);
            commands.extend(stack.newton_schulz(device, precision)?);
            commands.push(adam);
            commands.push(Command::JOIN);
            let buffers = [table, params, rounded, result].map(Argument::from);
            let arguments = [&buffers[..], &norm_partials, &state].concat();
            commands.push(self.launch("muon_update", blocks, &arguments)?);
        } else {
            commands.push(adam);
        }
        commands.push(advance);
        Ok(commands)
    }

    /// The schedule's table, for kernels that read a row of it.
    pub fn schedule(&self) -> Result<Pointer, BufferError> {
        self.rows.pointer(ROW * TABLE)
    }

    /// Where training stands, for kernels.
    pub fn progress(&self) -> Result<Pointer, BufferError> {
        self.progress.pointer(PROGRESS)
    }

    fn launch(
        &self,
        name: &'static str,
        blocks: usize,
        arguments: &[Argument],
    ) -> Result<Command, CudaError> {
        Ok(Launch::new(&self.kernels, name, [blocks, THREADS], arguments.to_vec())?.on(MAIN))
    }
}

/// What Adam updates: `[first, count]`, the values between the matrices.
fn chunks(adam: &OptimiserState) -> Vec<[usize; 2]> {
    let chunks = |range: Range<usize>| {
        range.clone().step_by(CHUNK).map(move |first| [first, CHUNK.min(range.end - first)])
    };
    adam.adam_ranges().flat_map(chunks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::networks::{Gpt2Config, Network};

    /// Adam's chunks and Muon's blocks together are every parameter, once.
    #[test]
    fn every_parameter_is_moved_once() {
        let config = Gpt2Config { features: 5, positions: 12, width: 64, layers: 2, ..Default::default() };
        let network = Network::Gpt2(config);
        let mut adam = OptimiserState::new(AdamConfig::default(), network.layout().len());
        adam.muon = network.muon_matrices();
        let mut moved = vec![0; adam.mean.len()];
        for [first, count] in chunks(&adam) {
            assert!(count <= CHUNK && first % 4 == 0);
            moved[first..first + count].iter_mut().for_each(|m| *m += 1);
        }
        for (matrix, block) in adam.muon.iter().flat_map(|m| m.blocks().map(move |b| (m, b))) {
            for row in 0..block.rows {
                let first = matrix.place.offset + block.offset + row * block.stride;
                moved[first..first + block.columns].iter_mut().for_each(|m| *m += 1);
            }
        }
        assert!(moved.iter().all(|&m| m == 1));
    }
}
