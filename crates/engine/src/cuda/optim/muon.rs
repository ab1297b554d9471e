//! Muon on the device: the Newton–Schulz iteration of all matrices as batched matmuls.

use std::sync::Arc;

use crate::cuda::Precision;
use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::cuda::graph::{Command, STREAMS, Work};
use crate::cuda::matmul::{DType, DeviceMatrix, Fused, Matmul, Terms};
use crate::cuda::memory::{DeviceMemory, Pointer};
use crate::model::optim::muon::{self, ITERATIONS, QUINTIC};

/// Thread blocks per matrix block; as in the kernel.
pub(super) const BLOCKS_PER_MATRIX: usize = 16;

/// Matrix blocks one after the other, those of one shape together, and buffers of the iteration.
pub(super) struct MatrixStack {
    /// Blocks: where each lies in the flat buffers and in the stack.
    pub table: Pointer,
    pub blocks: usize,
    /// Sums of squares, one per thread block.
    pub squares: Pointer,
    /// Where the iteration starts; each round goes from one to the other.
    pub x: [Pointer; 2],
    groups: Vec<ShapeGroup>,
}

/// Blocks of one shape.
struct ShapeGroup {
    shape: [usize; 2],
    count: usize,
    /// Bytes from the start of the stack.
    offset: u64,
    gram: Pointer,
    polynomial: Pointer,
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
        for group in blocks.chunk_by(|(_, a), (_, b)| (a.rows, a.columns) == (b.rows, b.columns)) {
            let shape = [group[0].1.rows, group[0].1.columns];
            let small = shape[0].min(shape[1]);
            groups.push(ShapeGroup {
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
        Ok(MatrixStack {
            table: memory.filled(&table)?,
            blocks: blocks.len(),
            squares: memory.zeros(4 * BLOCKS_PER_MATRIX * blocks.len())?,
            x: [memory.zeros(precision.bytes() * stacked)?, memory.zeros(precision.bytes() * stacked)?],
            groups,
        })
    }

    /// Where the iteration ends.
    pub fn result(&self) -> Pointer {
        self.x[ITERATIONS % 2]
    }

    /// The iteration of every group, each on a stream of its own as far as there are streams.
    pub fn newton_schulz(
        &self,
        device: &Arc<Device>,
        precision: Precision,
    ) -> Result<Vec<Command>, CudaError> {
        let [a, b, c] = QUINTIC;
        let dtype = DType::storage(precision);
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
            let square = |at| DeviceMatrix::new(at, dtype, small, small);
            let mut ends = self.x.map(|at| DeviceMatrix::new(at + group.offset, dtype, rows, columns));
            for _ in 0..ITERATIONS {
                let [x, next] = ends;
                let (gram, polynomial) = (square(group.gram), square(group.polynomial));
                matmul(gram, if rows <= columns { [x, x.t()] } else { [x.t(), x] }, 1.0, None)?;
                matmul(polynomial, [gram, gram], c, Some((gram.at, b)))?;
                let factors = if rows <= columns { [polynomial, x] } else { [x, polynomial] };
                matmul(next, factors, 1.0, Some((x.at, a)))?;
                ends.reverse();
            }
        }
        Ok(commands)
    }
}
