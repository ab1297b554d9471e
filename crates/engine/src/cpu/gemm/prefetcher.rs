//! Prefetches: what tiles of a product bring to the caches while they compute.

use std::collections::VecDeque;

use super::NR;
use super::general::Mat;
use crate::cpu::simd::{L1, L2, LANES, prefetch};

/// Inner values per round of a tile's loop. Each round prefetches one cache line of what is needed later: many at once would
/// hold up the reads that the sums wait for.
pub(super) const ROUND: usize = 4;

/// Cache lines that a row of a panel takes.
const LINES: usize = NR / LANES;

/// A block of a matrix that is read soon: tiles prefetch it, piece by piece.
pub(super) struct PrefetchBlock<'a> {
    block: Option<Mat<'a>>,
    row: usize,
    col: usize,
}

impl<'a> PrefetchBlock<'a> {
    #[inline(always)]
    pub fn new(block: Option<Mat<'a>>) -> Self {
        Self { block, row: 0, col: 0 }
    }

    /// What is left of it, which is not prefetched here any more.
    #[inline(always)]
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(None))
    }

    /// The next `rows` rows of a panel's width.
    #[inline(always)]
    fn next(&mut self, rows: usize) -> Option<CacheLines> {
        let block = self.block?;
        let from = block.data.as_ptr().wrapping_add(self.row * block.row_stride + self.col);
        self.row += rows;
        if self.row >= block.rows {
            (self.row, self.col) = (0, self.col + NR);
        }
        if self.col >= block.cols {
            self.block = None;
        }
        Some(CacheLines { from, stride: block.row_stride })
    }
}

/// Regions of main memory that later operations read, in their order: products prefetch them while they compute.
#[derive(Debug, Default)]
pub struct Prefetcher {
    regions: VecDeque<Region>,
}

/// Values from an address on, which are prefetched and never read here.
#[derive(Debug)]
struct Region {
    step: usize,
    address: usize,
    len: usize,
}

impl Prefetcher {
    /// Another region, which the given step reads.
    pub fn push(&mut self, step: usize, region: &[f32]) {
        self.regions.push_back(Region { step, address: region.as_ptr().addr(), len: region.len() });
    }

    /// The given step begins: what it reads, and what steps before it have read, need not be prefetched any more.
    pub fn begin(&mut self, step: usize) {
        while self.regions.front().is_some_and(|region| region.step <= step) {
            self.regions.pop_front();
        }
    }

    /// The next `rows` rows of a panel's width.
    #[inline(always)]
    fn next(&mut self, rows: usize) -> Option<CacheLines> {
        let region = self.regions.front_mut()?;
        let lines = CacheLines { from: std::ptr::without_provenance(region.address), stride: NR };
        if region.len <= rows * NR {
            self.regions.pop_front();
        } else {
            region.address += rows * NR * size_of::<f32>();
            region.len -= rows * NR;
        }
        Some(lines)
    }
}

/// Rows of a panel's width, line by line.
#[derive(Clone, Copy)]
struct CacheLines {
    from: *const f32,
    stride: usize,
}

impl CacheLines {
    #[inline(always)]
    fn line(self, i: usize) -> *const f32 {
        self.from.wrapping_add(i / LINES * self.stride + i % LINES * LANES)
    }
}

/// What one tile prefetches: the part of the result that its `rows` rows go to, and something that is read later.
#[derive(Clone, Copy)]
pub(super) struct TilePrefetch {
    result: CacheLines,
    rows: usize,
    upcoming: CacheLines,
}

impl TilePrefetch {
    /// For a tile of `rows` rows whose first is at `result`, and that sums over `depth` values: of the first of `blocks`
    /// that is not yet prefetched as a whole, or else of what `prefetcher` has.
    #[inline(always)]
    pub fn new(
        (result, stride): (*const f32, usize),
        rows: usize,
        depth: usize,
        blocks: &mut [PrefetchBlock; 2],
        prefetcher: &mut Prefetcher,
    ) -> Self {
        let result = CacheLines { from: result, stride };
        let lines = (depth / ROUND / LINES).max(1);
        let [next, later] = blocks;
        let upcoming = next.next(lines).or_else(|| later.next(lines)).or_else(|| prefetcher.next(lines));
        let upcoming = upcoming.unwrap_or(CacheLines { stride: 0, ..result });
        Self { result, rows, upcoming }
    }

    /// The same without the result.
    #[inline(always)]
    pub fn without_result(self) -> Self {
        Self { rows: 0, ..self }
    }

    /// Issues the prefetches of a round.
    #[inline(always)]
    pub fn issue(self, round: usize) {
        prefetch::<L2>(self.upcoming.line(round));
        if round < self.rows * LINES {
            prefetch::<L1>(self.result.line(round));
        }
    }
}
