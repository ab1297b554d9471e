//! Split reductions: kernels leave partial sums, which one launch adds up for the whole network.

use super::Lowering;
use crate::cuda::error::CudaError;
use crate::cuda::memory::Pointer;

/// Partial sums over rows, in float32: number p starts at `at + 4 p stride`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partials {
    pub at: Pointer,
    pub count: usize,
    pub stride: usize,
}

/// One row of the table that the kernel `reduce_partials` reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reduction {
    out: Pointer,
    from: Pointer,
    partials: i32,
    stride: i32,
    count: i32,
    first_block: i32,
}

impl Reduction {
    /// The first block after this reduction's, each of 32 columns.
    fn end_block(&self) -> i32 {
        self.first_block + (self.count + 31) / 32
    }

    /// The row as the kernel reads it.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        bytes.extend(self.out.to_ne_bytes());
        bytes.extend(self.from.to_ne_bytes());
        for number in [self.partials, self.stride, self.count, self.first_block] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes
    }
}

impl Lowering<'_> {
    /// out`[i]` = Σ over partials, for `count` values.
    pub(super) fn reduce(&mut self, out: Pointer, partials: Partials, count: usize) {
        let first_block = self.reductions.last().map_or(0, Reduction::end_block);
        let Partials { at: from, count: partials, stride } = partials;
        let [partials, stride, count] = [partials, stride, count].map(|n| n as i32);
        self.reductions.push(Reduction { out, from, partials, stride, count, first_block });
    }

    /// One launch for all reductions.
    pub(super) fn reduce_partials(&mut self) -> Result<(), CudaError> {
        let Some(last) = self.reductions.last() else { return Ok(()) };
        let (blocks, count) = (last.end_block() as usize, self.reductions.len());
        let rows: Vec<u8> = self.reductions.iter().flat_map(Reduction::bytes).collect();
        let table = self.memory.filled(&rows)?;
        self.launch("reduce_partials", blocks, 256, &[table.into(), count.into()])
    }
}
