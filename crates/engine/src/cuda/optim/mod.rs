//! The optimiser on the device: gradient norm, clipping, Adam, Muon for matrices, and on to the next step.

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

/// What the device does for the optimiser around a step.
///
/// Parameters move at the start of the next step, so that it has something to do beside them; what the last step of a table has left
/// moves nothing until the updates run once more. They do nothing where nothing is left.
pub(super) struct OptimiserCommands {
    /// Moves the parameters by the gradients of the step before: a list for each part of the forward pass, or one for all.
    pub updates: Vec<Vec<Command>>,
    /// Ends a step: the norm of its gradients, and on to the next.
    pub end: Vec<Command>,
}

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
    /// What Adam updates, in chunks, and the first value of each.
    chunks: DeviceBuffer<u64>,
    firsts: Vec<usize>,
    muon: Option<MatrixStack>,
    kernels: Kernels,
}

const THREADS: usize = 256;
const NORM_BLOCKS: usize = 264;
/// The side stream of Adam.
const BESIDE_FORWARD: usize = 1;
/// Values that a block of threads updates; as in the kernel. Blocks end soon, so that those of the main stream find room.
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
        let chunks = chunks(adam);
        let table: Vec<u64> = chunks.iter().flatten().map(|n| *n as u64).collect();
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
            firsts: chunks.iter().map(|[first, _]| *first).collect(),
            muon,
            kernels: device.compile(&source(precision))?,
        })
    }

    /// The commands for parameters at `p`, of which there are `count`. Each part of the forward pass reads up to one of `reaches`.
    pub fn commands(
        &self,
        device: &Arc<Device>,
        precision: Precision,
        p: DeviceParameters,
        count: usize,
        reaches: &[usize],
    ) -> Result<OptimiserCommands, CudaError> {
        // Kernels move whole vectors, in the chunks of the moments.
        let whole = whole_vectors(count).max(self.mean.len());
        let [params, grads] = [p.params.pointer(whole)?, p.grads.pointer(whole)?];
        let [mean, square] = [self.mean.pointer(whole)?, self.square.pointer(whole)?];
        let rounded = match p.rounded {
            StorageBuffer::Float(_) => ABSENT,
            StorageBuffer::Bf16(rounded) => rounded.pointer(whole)?,
        };
        let (progress, results) = (self.progress()?, self.results.pointer(2 * TABLE)?);
        let partials = self.norm_partials.pointer(NORM_BLOCKS)?;
        let norm =
            self.launch("grad_norm_partials", NORM_BLOCKS, &[partials.into(), grads.into(), count.into()])?;
        let pointers = [progress, results, p.loss.pointer(1)?, partials].map(Argument::from);
        let advance = self.launch("advance", 1, &[&pointers[..], &[NORM_BLOCKS.into()]].concat())?;
        let end = vec![norm.on(MAIN), advance.pdl(true).on(MAIN)];

        let AdamConfig { beta1, beta2, epsilon } = self.config;
        let clip = Argument::from(self.clip.unwrap_or(0.0));
        let state = [results, self.schedule()?, progress].map(Argument::from);
        let adam = |chunks: Range<usize>| {
            let blocks = chunks.len();
            let chunks = self.chunks.part(2 * chunks.start..2 * chunks.end)?.pointer(2 * blocks)?;
            let pointers = [chunks, params, rounded, mean, square, grads].map(Argument::from);
            let numbers = [clip, beta1.into(), beta2.into(), epsilon.into()];
            self.launch("adam", blocks, &[&pointers[..], &state, &numbers].concat())
        };
        let Some(stack) = &self.muon else {
            let parts = cut(&self.firsts, reaches).into_iter();
            // Nothing runs beside the first, and waiting for another stream takes longer than it does.
            let streams = [MAIN].into_iter().chain(std::iter::repeat(BESIDE_FORWARD));
            let updates = parts.zip(streams).map(|(chunks, stream)| Ok(vec![adam(chunks)?.on(stream)]));
            return Ok(OptimiserCommands { updates: updates.collect::<Result<_, CudaError>>()?, end });
        };

        let blocks = stack.blocks * BLOCKS_PER_MATRIX;
        let [table, start, squares, result] = stack.pointers()?;
        let [params, grads] = [p.params.pointer(stack.reach)?, p.grads.pointer(stack.reach)?];
        let mean = self.mean.pointer(stack.reach)?;
        let buffers = [table, mean, start, squares, grads, results, progress].map(Argument::from);
        let arguments = [&buffers[..], &[clip, newton_schulz::MOMENTUM.into()]].concat();
        let mut update = vec![self.launch("muon_momentum", blocks, &arguments)?.on(MAIN)];
        let buffers = [table, start, squares].map(Argument::from);
        let arguments = [&buffers[..], &[newton_schulz::EPSILON.into()]].concat();
        update.push(self.launch("muon_normalise", blocks, &arguments)?.on(MAIN));
        update.extend(stack.newton_schulz(device, precision)?);
        update.push(adam(0..self.firsts.len())?.on(MAIN));
        update.push(Command::JOIN);
        let buffers = [table, params, rounded, result, self.schedule()?, progress].map(Argument::from);
        update.push(self.launch("muon_update", blocks, &buffers)?.on(MAIN));
        Ok(OptimiserCommands { updates: vec![update], end })
    }

    /// The schedule's table, for kernels that read a row of it.
    pub fn schedule(&self) -> Result<Pointer, BufferError> {
        self.rows.pointer(ROW * TABLE)
    }

    /// Where training stands, for kernels.
    pub fn progress(&self) -> Result<Pointer, BufferError> {
        self.progress.pointer(PROGRESS)
    }

    fn launch(&self, name: &'static str, blocks: usize, arguments: &[Argument]) -> Result<Launch, CudaError> {
        Launch::new(&self.kernels, name, [blocks, THREADS], arguments.to_vec())
    }
}

/// What Adam updates: `[first, count]`, the values between the matrices.
fn chunks(adam: &OptimiserState) -> Vec<[usize; 2]> {
    let chunks = |range: Range<usize>| {
        range.clone().step_by(CHUNK).map(move |first| [first, CHUNK.min(range.end - first)])
    };
    adam.adam_ranges().flat_map(chunks).collect()
}

/// Chunks by the first part of the forward pass that reads of them, when each reads up to one of `reaches`; what is left is the last's.
fn cut(firsts: &[usize], reaches: &[usize]) -> Vec<Range<usize>> {
    let Some((_, before_last)) = reaches.split_last() else { return Vec::new() };
    let reached = before_last.iter().map(|reach| firsts.partition_point(|first| first < reach));
    let ends: Vec<usize> = reached.chain([firsts.len()]).collect();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, &end)| start..end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::networks::{Gpt2Config, Network};

    #[test]
    fn a_part_has_every_chunk_that_it_reads_first() {
        let firsts: Vec<usize> = (0..10).map(|i| i * CHUNK).collect();
        // A chunk that two parts read is the first's.
        assert_eq!(cut(&firsts, &[2 * CHUNK, 5 * CHUNK + 1, 9 * CHUNK]), [0..2, 2..6, 6..10]);
    }

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
