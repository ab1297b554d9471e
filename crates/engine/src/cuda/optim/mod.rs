//! The end of a training step on the device: gradient norm, clipping, Adam, Muon for matrices, and on to the next step.

mod muon;

use std::ops::Range;
use std::sync::Arc;

use super::compiler::{KernelSource, Kernels};
use super::device::Device;
use super::error::CudaError;
use super::graph::{Argument, Command, Launch, MAIN};
use super::lowering::DeviceParameters;
use super::memory::{DeviceMemory, Pointer};
use super::runner::bytes_of;
use super::{Precision, kernels, trainer::TABLE};
use crate::model::optim::OptimiserState;
use crate::model::optim::adam::AdamConfig;
use crate::model::optim::muon as newton_schulz;
use muon::{BLOCKS_PER_MATRIX, MatrixStack};

/// Buffers and kernels of the optimiser.
pub(super) struct Optimiser {
    pub mean: Pointer,
    pub square: Pointer,
    /// Partial sums of the squared gradient norm.
    norm_partials: Pointer,
    /// step, first step of the table, whether halted.
    pub progress: Pointer,
    /// The schedule's table.
    pub rows: Pointer,
    pub results: Pointer,
    config: AdamConfig,
    clip: Option<f32>,
    /// What Adam updates, in chunks, and their number.
    chunks: (Pointer, usize),
    muon: Option<MatrixStack>,
    kernels: Kernels,
}

const THREADS: usize = 256;
const NORM_BLOCKS: usize = 264;
const ADAM_BLOCKS: usize = 1056;
/// Values that a block of threads updates at a time; as in the kernel.
const CHUNK: usize = 4 * THREADS;

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
        let chunks = chunks(adam);
        let table: Vec<u8> = chunks.iter().flatten().flat_map(|n| (*n as u64).to_ne_bytes()).collect();
        let muon = match &adam.muon[..] {
            [] => None,
            matrices => Some(MatrixStack::new(precision, memory, matrices)?),
        };
        Ok(Optimiser {
            mean: memory.filled(bytes_of(&adam.mean))?,
            square: memory.filled(bytes_of(&adam.square))?,
            norm_partials: memory.zeros(8 * NORM_BLOCKS)?,
            progress: memory.zeros(24)?,
            rows: memory.zeros(16 * TABLE)?,
            results: memory.zeros(8 * TABLE)?,
            config: adam.config,
            clip,
            chunks: (memory.filled(&table)?, chunks.len()),
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
        let rounded = if p.rounded == p.params { 0 } else { p.rounded };
        let AdamConfig { beta1, beta2, epsilon } = self.config;
        let norm_partials = [self.norm_partials.into(), NORM_BLOCKS.into()];
        let clip = Argument::from(self.clip.unwrap_or(0.0));
        let arguments = [self.norm_partials.into(), p.grads.into(), count.into()];
        let norm = self.launch("grad_norm_partials", NORM_BLOCKS, &arguments)?;

        let chunks = [self.chunks.0.into(), self.chunks.1.into()];
        let pointers = [p.params, rounded, self.mean, self.square, p.grads].map(Argument::from);
        let state = [p.loss, self.rows, self.progress].map(Argument::from);
        let numbers = [clip, beta1.into(), beta2.into(), epsilon.into()];
        let arguments = [&chunks[..], &pointers, &norm_partials, &state, &numbers].concat();
        let adam = self.launch("adam", ADAM_BLOCKS.min(self.chunks.1), &arguments)?;

        let pointers = [self.progress, self.results, p.loss].map(Argument::from);
        let advance = self.launch("advance", 1, &[&pointers[..], &norm_partials].concat())?;

        let mut commands = vec![norm];
        if let Some(stack) = &self.muon {
            let blocks = stack.blocks * BLOCKS_PER_MATRIX;
            let [start, _] = stack.x;
            let buffers = [stack.table, self.mean, start, stack.squares, p.grads].map(Argument::from);
            let progress = [p.loss, self.progress].map(Argument::from);
            let numbers = [clip, newton_schulz::MOMENTUM.into()];
            let arguments = [&buffers[..], &norm_partials, &progress, &numbers].concat();
            commands.push(self.launch("muon_momentum", blocks, &arguments)?);
            let buffers = [stack.table, start, stack.squares].map(Argument::from);
            let arguments = [&buffers[..], &[newton_schulz::EPSILON.into()]].concat();
            commands.push(self.launch("muon_normalise", blocks, &arguments)?);
            commands.extend(stack.newton_schulz(device, precision)?);
            commands.push(adam);
            commands.push(Command::JOIN);
            let buffers = [stack.table, p.params, rounded, stack.result()].map(Argument::from);
            let arguments = [&buffers[..], &norm_partials, &state].concat();
            commands.push(self.launch("muon_update", blocks, &arguments)?);
        } else {
            commands.push(adam);
        }
        commands.push(advance);
        Ok(commands)
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
