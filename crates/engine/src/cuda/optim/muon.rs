//! Muon on the device: the Newton–Schulz iteration of all matrices as batched matmuls.

use std::sync::Arc;

use crate::cuda::Precision;
use crate::cuda::buffer::{BufferError, DType, DeviceBuffer, Pointer, StorageBuffer};
use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::cuda::graph::{Command, STREAMS, Work};
use crate::cuda::matmul::{Fused, Matmul, Terms};
use crate::cuda::matrix::DeviceMatrix;
use crate::cuda::memory::DeviceMemory;
use crate::model::optim::muon::{self, ITERATIONS, QUINTIC};

/// Thread blocks per matrix block; as in the kernel.
pub(super) const BLOCKS_PER_MATRIX: usize = 16;
/// Bytes of a row of the table of blocks.
const ROW: usize = 32;

/// Matrix blocks one after the other, those of one shape together, and buffers of the iteration.
pub(super) struct MatrixStack {
    /// Blocks: where each lies in the flat buffers and in the stack.
    table: DeviceBuffer<u8>,
    pub blocks: usize,
    /// Values of the flat buffers up to the end of the last matrix.
    pub reach: usize,
    /// Sums of squares, one per thread block.
    squares: DeviceBuffer<f32>,
    /// Values of all blocks, in the storage type. The iteration starts at the first; each round goes from one to the other.
    x: [StorageBuffer; 2],
    groups: Vec<ShapeGroup>,
}

/// Blocks of one shape.
struct ShapeGroup {
    shape: [usize; 2],
    count: usize,
    /// Its first value in the stack.
    first: usize,
    gram: StorageBuffer,
    polynomial: StorageBuffer,
}

impl MatrixStack {
    pub fn new(
        precision: Precision,
        memory: &mut DeviceMemory,
        matrices: &[muon::MuonMatrix],
    ) -> Result<MatrixStack, CudaError> {
        // Kernels move four values at a time.
        if let Some(odd) = matrices.iter().flat_map(|m| m.blocks()).find(|b| !b.columns.is_multiple_of(4)) {
            let why = format!("Muon with matrices of {} columns; accepted: multiples of 4", odd.columns);
            return Err(CudaError::Unsupported(why));
        }
        let mut blocks: Vec<(muon::MuonMatrix, muon::MuonBlock)> =
            matrices.iter().flat_map(|matrix| matrix.blocks().map(|block| (*matrix, block))).collect();
        blocks.sort_by_key(|(matrix, block)| (block.rows, block.columns, matrix.place.offset));
        let (mut table, mut groups, mut stacked) = (Vec::new(), Vec::new(), 0);
        let dtype = DType::storage(precision);
        for group in blocks.chunk_by(|(_, a), (_, b)| (a.rows, a.columns) == (b.rows, b.columns)) {
            let shape = [group[0].1.rows, group[0].1.columns];
            let small = shape[0].min(shape[1]);
            let square = group.len() * small * small;
            groups.push(ShapeGroup {
                shape,
                count: group.len(),
                first: stacked,
                gram: memory.storage("Gram matrices of Muon", dtype, square)?,
                polynomial: memory.storage("polynomials of Muon", dtype, square)?,
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
        Ok(MatrixStack {
            table: memory.filled("table of Muon", &table)?,
            blocks: blocks.len(),
            reach: matrices.iter().map(|matrix| matrix.place.range().end).max().unwrap_or(0),
            squares: memory.zeros("squares of Muon", BLOCKS_PER_MATRIX * blocks.len())?,
            x: [
                memory.storage("stack of Muon", dtype, stacked)?,
                memory.storage("stack of Muon", dtype, stacked)?,
            ],
            groups,
        })
    }

    /// For the kernels: the table, the stack where the iteration starts, the sums of squares, the stack where it ends.
    pub fn pointers(&self) -> Result<[Pointer; 4], BufferError> {
        let (start, end) = (self.x[0], self.x[ITERATIONS % 2]);
        let stacked = self.groups.last().map_or(0, |group| {
            let [rows, columns] = group.shape;
            group.first + group.count * rows * columns
        });
        Ok([
            self.table.pointer(ROW * self.blocks)?,
            start.pointer(stacked)?,
            self.squares.pointer(BLOCKS_PER_MATRIX * self.blocks)?,
            end.pointer(stacked)?,
        ])
    }

    /// The iteration of every group, each on a stream of its own as far as there are streams.
    pub fn newton_schulz(
        &self,
        device: &Arc<Device>,
        precision: Precision,
    ) -> Result<Vec<Command>, CudaError> {
        let [a, b, c] = QUINTIC;
        let mut commands = Vec::new();
        for (stream, group) in self.groups.iter().enumerate().rev() {
            let ([rows, columns], count) = (group.shape, group.count);
            let small = rows.min(columns);
            let mut matmul = |out: DeviceMatrix, factors, alpha, c| {
                let terms = Terms { alpha, c, batch: count };
                let matmul = Matmul::new(device, precision, out, factors, terms, Fused::Nothing)?;
                let matmul = matmul.ok_or_else(|| {
                    CudaError::Unsupported(format!("{count} matmuls of {rows} × {columns} matrices"))
                })?;
                commands.push(Command { stream: stream % STREAMS, work: Work::Matmul(matmul) });
                Ok::<_, CudaError>(())
            };
            let square = |buffer| DeviceMatrix::new(buffer, small, small);
            let [start, other] = self.x;
            let place = group.first..group.first + count * rows * columns;
            let stack =
                |of: StorageBuffer| of.part(place.clone()).map(|x| DeviceMatrix::new(x, rows, columns));
            let mut ends = [stack(start)?, stack(other)?];
            for _ in 0..ITERATIONS {
                let [x, next] = ends;
                let (gram, polynomial) = (square(group.gram), square(group.polynomial));
                matmul(gram, if rows <= columns { [x, x.t()] } else { [x.t(), x] }, 1.0, None)?;
                matmul(polynomial, [gram, gram], c, Some((gram.buffer, b)))?;
                let factors = if rows <= columns { [polynomial, x] } else { [x, polynomial] };
                matmul(next, factors, 1.0, Some((x.buffer, a)))?;
                ends.reverse();
            }
        }
        Ok(commands)
    }
}
