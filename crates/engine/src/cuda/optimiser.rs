//! The end of a training step on the device: norm, clipping, Adam, Muon for matrices, and on to the next step.

use std::ops::Range;
use std::sync::Arc;

use super::compiler::{ADAM, COMMON, KernelSource, Kernels, MUON};
use super::device::{Device, Memory, Pointer};
use super::error::CudaError;
use super::lowering::Parameters;
use super::product::{Fused, Kind, Matrix, Product, Terms};
use super::program::{Argument, Command, LANES, Launch, Work};
use super::runner::bytes_of;
use super::{Precision, trainer::TABLE};
use crate::model::optim::adam::{Adam, AdamConfig, between};
use crate::model::optim::muon::{self, ITERATIONS, QUINTIC};

/// Buffers and kernels of the optimiser.
pub(super) struct Optimiser {
    pub mean: Pointer,
    pub square: Pointer,
    /// Parts of the squared norm.
    parts: Pointer,
    /// step, first step of the table, whether halted.
    pub progress: Pointer,
    /// The schedule's table.
    pub rows: Pointer,
    pub results: Pointer,
    config: AdamConfig,
    clip: Option<f32>,
    /// What Adam moves, in pieces, and their number.
    pieces: (Pointer, usize),
    stacks: Option<Stacks>,
    kernels: Kernels,
}

/// Matrix blocks one after the other, those of one shape together, and room for the iteration.
struct Stacks {
    /// Blocks: where each lies in the flat buffers and in the stack.
    table: Pointer,
    blocks: usize,
    squares: Pointer,
    /// Where the iteration starts, and where each round goes from one to the other.
    x: [Pointer; 2],
    groups: Vec<Group>,
}

/// Blocks of one shape.
struct Group {
    shape: [usize; 2],
    count: usize,
    /// Bytes from the start of the stack.
    offset: u64,
    gram: Pointer,
    polynomial: Pointer,
}

const THREADS: usize = 256;
const NORM_BLOCKS: usize = 264;
const ADAM_BLOCKS: usize = 1056;
/// Values that a block of threads moves at a time; as in the kernel.
const PIECE: usize = 4 * THREADS;
/// Blocks of threads per matrix block; as in the kernel.
const SHARES: usize = 16;

/// What the kernels of this module are compiled from.
pub(super) fn source(precision: Precision) -> KernelSource {
    KernelSource::new("optimiser", precision, &[], &[COMMON, ADAM, MUON])
}

impl Optimiser {
    pub fn new(
        device: &Arc<Device>,
        precision: Precision,
        memory: &mut Memory,
        clip: Option<f32>,
        adam: &Adam,
    ) -> Result<Optimiser, CudaError> {
        let pieces = pieces(adam);
        let table: Vec<u8> = pieces.iter().flatten().flat_map(|n| (*n as u64).to_ne_bytes()).collect();
        let stacks = if adam.matrices.is_empty() {
            None
        } else {
            Some(Stacks::new(precision, memory, &adam.matrices)?)
        };
        Ok(Optimiser {
            mean: memory.filled(bytes_of(&adam.mean))?,
            square: memory.filled(bytes_of(&adam.square))?,
            parts: memory.zeros(8 * NORM_BLOCKS)?,
            progress: memory.zeros(24)?,
            rows: memory.zeros(16 * TABLE)?,
            results: memory.zeros(8 * TABLE)?,
            config: adam.config,
            clip,
            pieces: (memory.filled(&table)?, pieces.len()),
            stacks,
            kernels: device.compile(&source(precision))?,
        })
    }

    /// The commands that end a step, for parameters at `p`, of which there are `count`.
    pub fn commands(
        &self,
        device: &Arc<Device>,
        precision: Precision,
        p: Parameters,
        count: usize,
    ) -> Result<Vec<Command>, CudaError> {
        let rounded = if p.rounded == p.params { 0 } else { p.rounded };
        let AdamConfig { beta1, beta2, epsilon } = self.config;
        let parts = [self.parts.into(), NORM_BLOCKS.into()];
        let clip = Argument::from(self.clip.unwrap_or(0.0));
        let norm =
            self.launch("norm_parts", NORM_BLOCKS, &[self.parts.into(), p.grads.into(), count.into()])?;

        let pieces = [self.pieces.0.into(), self.pieces.1.into()];
        let pointers = [p.params, rounded, self.mean, self.square, p.grads].map(Argument::from);
        let table = [p.loss, self.rows, self.progress].map(Argument::from);
        let numbers = [clip, beta1.into(), beta2.into(), epsilon.into()];
        let adam = [&pieces[..], &pointers, &parts, &table, &numbers].concat();
        let adam = self.launch("adam", ADAM_BLOCKS.min(self.pieces.1), &adam)?;

        let advance = [&[self.progress, self.results, p.loss].map(Argument::from)[..], &parts].concat();
        let advance = self.launch("advance", 1, &advance)?;

        let mut commands = vec![norm];
        if let Some(stacks) = &self.stacks {
            let blocks = stacks.blocks * SHARES;
            let [from, to] = stacks.x;
            let buffers = [stacks.table, self.mean, from, stacks.squares, p.grads].map(Argument::from);
            let state = [p.loss, self.progress].map(Argument::from);
            let numbers = [clip, muon::MOMENTUM.into()];
            let momentum = [&buffers[..], &parts, &state, &numbers].concat();
            commands.push(self.launch("muon_momentum", blocks, &momentum)?);
            let scaled = [stacks.table.into(), from.into(), stacks.squares.into(), muon::EPSILON.into()];
            commands.push(self.launch("muon_normalise", blocks, &scaled)?);
            commands.extend(stacks.products(device, precision)?);
            commands.push(adam);
            commands.push(Command { lane: 0, work: Work::Join });
            let found = if ITERATIONS.is_multiple_of(2) { from } else { to };
            let buffers = [stacks.table, p.params, rounded, found].map(Argument::from);
            let update = [&buffers[..], &parts, &table].concat();
            commands.push(self.launch("muon_update", blocks, &update)?);
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
        let function = self.kernels.get(name, 0)?;
        let arguments = arguments.to_vec();
        let (blocks, threads) = (blocks as u32, THREADS as u32);
        let launch = Launch { name, function, blocks, threads, shared: 0, arguments, early: false };
        Ok(Command { lane: 0, work: Work::Kernel(launch) })
    }
}

/// What Adam moves: `[first, count]`, the values between the matrices.
fn pieces(adam: &Adam) -> Vec<[usize; 2]> {
    let pieces = |range: Range<usize>| {
        range.clone().step_by(PIECE).map(move |first| [first, PIECE.min(range.end - first)])
    };
    between(&adam.matrices, adam.mean.len()).flat_map(pieces).collect()
}

impl Stacks {
    fn new(
        precision: Precision,
        memory: &mut Memory,
        matrices: &[muon::Matrix],
    ) -> Result<Stacks, CudaError> {
        // Kernels move four values at a time.
        if let Some(odd) = matrices.iter().flat_map(|m| m.blocks()).find(|b| !b.columns.is_multiple_of(4)) {
            let why = format!("Muon with matrices of {} columns; accepted: multiples of 4", odd.columns);
            return Err(CudaError::Unsupported(why));
        }
        let mut blocks: Vec<(muon::Matrix, muon::Block)> =
            matrices.iter().flat_map(|matrix| matrix.blocks().map(|block| (*matrix, block))).collect();
        blocks.sort_by_key(|(matrix, block)| (block.rows, block.columns, matrix.place.offset));
        let (mut table, mut groups, mut stacked) = (Vec::new(), Vec::new(), 0);
        for group in blocks.chunk_by(|(_, a), (_, b)| (a.rows, a.columns) == (b.rows, b.columns)) {
            let shape = [group[0].1.rows, group[0].1.columns];
            let small = shape[0].min(shape[1]);
            groups.push(Group {
                shape,
                count: group.len(),
                offset: (precision.bytes() * stacked) as u64,
                gram: memory.zeros(precision.bytes() * group.len() * small * small)?,
                polynomial: memory.zeros(precision.bytes() * group.len() * small * small)?,
            });
            for (matrix, block) in group {
                table.extend(((matrix.place.offset + block.offset) as u64).to_ne_bytes());
                table.extend((stacked as u64).to_ne_bytes());
                for number in [block.rows, block.columns, block.stride] {
                    table.extend((number as i32).to_ne_bytes());
                }
                table.extend(block.scale().to_ne_bytes());
                stacked += block.rows * block.columns;
            }
        }
        Ok(Stacks {
            table: memory.filled(&table)?,
            blocks: blocks.len(),
            squares: memory.zeros(4 * SHARES * blocks.len())?,
            x: [memory.zeros(precision.bytes() * stacked)?, memory.zeros(precision.bytes() * stacked)?],
            groups,
        })
    }

    /// The iteration of every group, each on a lane of its own as far as there are lanes.
    fn products(&self, device: &Arc<Device>, precision: Precision) -> Result<Vec<Command>, CudaError> {
        let [a, b, c] = QUINTIC;
        let kind = Kind::half(precision);
        let mut commands = Vec::new();
        for (lane, group) in self.groups.iter().enumerate().rev() {
            let ([rows, columns], count) = (group.shape, group.count);
            let small = rows.min(columns);
            let mut product = |out: Matrix, factors, factor, added| {
                let terms = Terms { factor, added, count };
                let product = Product::new(device, precision, out, factors, terms, Fused::Nothing)?;
                let product = product.ok_or_else(|| {
                    CudaError::Unsupported(format!("{count} products of {rows} × {columns} matrices"))
                })?;
                commands.push(Command { lane: lane % LANES, work: Work::Product(product) });
                Ok::<_, CudaError>(())
            };
            let square = |at| Matrix::new(at, kind, small, small);
            let mut ends = self.x.map(|at| Matrix::new(at + group.offset, kind, rows, columns));
            for _ in 0..ITERATIONS {
                let [x, next] = ends;
                let (gram, polynomial) = (square(group.gram), square(group.polynomial));
                product(gram, if rows <= columns { [x, x.t()] } else { [x.t(), x] }, 1.0, None)?;
                product(polynomial, [gram, gram], c, Some((gram.at, b)))?;
                let factors = if rows <= columns { [polynomial, x] } else { [x, polynomial] };
                product(next, factors, 1.0, Some((x.at, a)))?;
                ends.reverse();
            }
        }
        Ok(commands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::networks::{Gpt2Config, Network};

    /// Adam's pieces and Muon's blocks together are every parameter, once.
    #[test]
    fn every_parameter_is_moved_once() {
        let config = Gpt2Config { features: 5, positions: 12, width: 64, layers: 2, ..Default::default() };
        let network = Network::Gpt2(config);
        let mut adam = Adam::new(AdamConfig::default(), network.layout().len());
        adam.matrices = network.matrices();
        let mut moved = vec![0; adam.mean.len()];
        for [first, count] in pieces(&adam) {
            assert!(count <= PIECE && first % 4 == 0);
            moved[first..first + count].iter_mut().for_each(|m| *m += 1);
        }
        for (matrix, block) in adam.matrices.iter().flat_map(|m| m.blocks().map(move |b| (m, b))) {
            for row in 0..block.rows {
                let first = matrix.place.offset + block.offset + row * block.stride;
                moved[first..first + block.columns].iter_mut().for_each(|m| *m += 1);
            }
        }
        assert!(moved.iter().all(|&m| m == 1));
    }
}
