//! Split reductions: kernels leave partial sums, which one launch adds up for the whole network.

use super::Lowering;
use crate::cuda::buffer::{BufferError, DeviceBuffer, Pointer};
use crate::cuda::error::CudaError;

/// Partial sums over rows: number p starts at value `p · stride`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partials {
    sums: DeviceBuffer<f32>,
    count: usize,
    stride: usize,
}

impl Partials {
    /// `count` partials that are `stride` values apart, from value `first` of a buffer on.
    pub fn new(
        sums: DeviceBuffer<f32>,
        first: usize,
        [count, stride]: [usize; 2],
    ) -> Result<Partials, BufferError> {
        Ok(Partials { sums: sums.part(first..)?, count, stride })
    }

    /// Values up to the end of the last partial, each of `columns`.
    fn reach(&self, columns: usize) -> usize {
        self.count.checked_sub(1).map_or(0, |last| last * self.stride + columns)
    }
}

/// Bytes of a row of the table.
const ROW: usize = 32;

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
        let mut bytes = Vec::with_capacity(ROW);
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
    pub(super) fn reduce(
        &mut self,
        out: DeviceBuffer<f32>,
        partials: Partials,
        count: usize,
    ) -> Result<(), BufferError> {
        let first_block = self.reductions.last().map_or(0, Reduction::end_block);
        let (out, from) = (out.pointer(count)?, partials.sums.pointer(partials.reach(count))?);
        let [partials, stride, count] = [partials.count, partials.stride, count].map(|n| n as i32);
        self.reductions.push(Reduction { out, from, partials, stride, count, first_block });
        Ok(())
    }

    /// One launch for all reductions.
    pub(super) fn reduce_partials(&mut self) -> Result<(), CudaError> {
        let Some(last) = self.reductions.last() else { return Ok(()) };
        let (blocks, count) = (last.end_block() as usize, self.reductions.len());
        let rows: Vec<u8> = self.reductions.iter().flat_map(Reduction::bytes).collect();
        let table = self.memory.filled("table of reductions", &rows)?;
        self.launch("reduce_partials", blocks, 256, &[table.pointer(ROW * count)?.into(), count.into()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partials_reach_to_the_end_of_the_last() {
        let sums = DeviceBuffer::new("sums", 0, 30);
        let partials = |first| Partials::new(sums, first, [3, 10]).unwrap();
        assert_eq!(partials(0).reach(10), 30);
        assert!(partials(6).sums.pointer(partials(6).reach(4)).is_ok());
        assert!(partials(6).sums.pointer(partials(6).reach(5)).is_err());
        assert_eq!(Partials { count: 0, ..partials(0) }.reach(10), 0);
        assert!(Partials::new(sums, 31, [1, 1]).is_err());
    }
}
