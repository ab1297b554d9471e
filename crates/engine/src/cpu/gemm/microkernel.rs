//! What tiles of both kinds of product share: where they go, and what they ask for while they compute.

use std::collections::VecDeque;

use pulp::Simd;

use super::{PANEL, TILE};
use crate::cpu::gemm::general::{Into, Mat};
use crate::cpu::simd::{LANES, NEAREST, SECOND, prefetch};

/// Inner values per round of a tile's loop. Each round asks for one line of what is needed later: many at once would hold
/// up the reads that the sums wait for.
pub(super) const ROUND: usize = 4;

/// Lines of the caches that a panel's row takes.
const LINES: usize = PANEL / LANES;

/// How tiles of a panel are computed.
pub(super) trait Tiles<S: Simd> {
    /// Computes `N` rows from `row` on, `R` registers at a time. Returns `N`.
    fn tile<const N: usize, const R: usize>(&mut self, simd: S, row: usize) -> usize;
}

/// All tiles of `rows` rows and at most a panel's columns, each as large as what is left allows.
#[inline(always)]
pub(super) fn all_tiles<S: Simd>(simd: S, rows: usize, cols: usize, tiles: &mut impl Tiles<S>) {
    let registers = cols.div_ceil(S::F32_LANES).min(if S::F32_LANES >= LANES { 4 } else { 2 });
    let mut row = 0;
    while row < rows {
        row += match (rows - row, registers) {
            (TILE.., 3..) => tiles.tile::<TILE, 4>(simd, row),
            (4.., 3..) => tiles.tile::<4, 4>(simd, row),
            (2.., 3..) => tiles.tile::<2, 4>(simd, row),
            (_, 3..) => tiles.tile::<1, 4>(simd, row),
            (TILE.., 2) => tiles.tile::<TILE, 2>(simd, row),
            (_, 2) => tiles.tile::<1, 2>(simd, row),
            (TILE.., _) => tiles.tile::<TILE, 1>(simd, row),
            _ => tiles.tile::<1, 1>(simd, row),
        };
    }
}

/// A matrix that is read soon: tiles ask for it, piece by piece, while they compute.
pub(super) struct Later<'a> {
    part: Option<Mat<'a>>,
    row: usize,
    col: usize,
}

impl<'a> Later<'a> {
    #[inline(always)]
    pub fn new(part: Option<Mat<'a>>) -> Self {
        Self { part, row: 0, col: 0 }
    }

    /// What is left of it, which is not asked for here any more.
    #[inline(always)]
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(None))
    }

    /// The next `rows` rows of a panel's width.
    #[inline(always)]
    fn next(&mut self, rows: usize) -> Option<Lines> {
        let part = self.part?;
        let from = part.data.as_ptr().wrapping_add(self.row * part.row_stride + self.col);
        self.row += rows;
        if self.row >= part.rows {
            (self.row, self.col) = (0, self.col + PANEL);
        }
        if self.col >= part.cols {
            self.part = None;
        }
        Some(Lines { from, stride: part.row_stride })
    }
}

/// Parts of main memory that are read soon, in their order: products ask for them while they compute.
#[derive(Debug, Default)]
pub struct Ahead {
    parts: VecDeque<Part>,
}

/// Values from an address on, which are asked for and never looked at.
#[derive(Debug)]
struct Part {
    step: usize,
    address: usize,
    len: usize,
}

impl Ahead {
    /// Another part, which the given step reads.
    pub fn push(&mut self, step: usize, part: &[f32]) {
        self.parts.push_back(Part { step, address: part.as_ptr().addr(), len: part.len() });
    }

    /// The given step begins: what it reads, and what steps before it have read, need not be asked for any more.
    pub fn begin(&mut self, step: usize) {
        while self.parts.front().is_some_and(|part| part.step <= step) {
            self.parts.pop_front();
        }
    }

    /// The next `rows` rows of a panel's width.
    #[inline(always)]
    fn next(&mut self, rows: usize) -> Option<Lines> {
        let part = self.parts.front_mut()?;
        let lines = Lines { from: std::ptr::without_provenance(part.address), stride: PANEL };
        if part.len <= rows * PANEL {
            self.parts.pop_front();
        } else {
            part.address += rows * PANEL * size_of::<f32>();
            part.len -= rows * PANEL;
        }
        Some(lines)
    }
}

/// Rows of a panel's width, line by line.
#[derive(Clone, Copy)]
struct Lines {
    from: *const f32,
    stride: usize,
}

impl Lines {
    #[inline(always)]
    fn line(self, i: usize) -> *const f32 {
        self.from.wrapping_add(i / LINES * self.stride + i % LINES * LANES)
    }
}

/// What one tile asks for: the place that its `rows` rows go to, and something that is read later.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    place: Lines,
    rows: usize,
    soon: Lines,
}

impl Asked {
    /// In the given round.
    #[inline(always)]
    pub fn ask(self, round: usize) {
        prefetch::<SECOND>(self.soon.line(round));
        if round < self.rows * LINES {
            prefetch::<NEAREST>(self.place.line(round));
        }
    }
}

/// Where the tiles of a panel go.
pub(super) struct Place<'a> {
    pub out: &'a mut [f32],
    pub stride: usize,
    /// Columns that exist, at most a panel's.
    pub cols: usize,
    pub into: Into,
}

impl Place<'_> {
    /// What a tile of `rows` rows from `row` on asks for that sums over `depth` values: of the first of `later` that is
    /// not yet asked for as a whole.
    ///
    /// # Panics
    /// If these rows do not exist.
    #[inline(always)]
    pub fn asked(
        &self,
        row: usize,
        rows: usize,
        depth: usize,
        later: &mut [Later; 2],
        ahead: &mut Ahead,
    ) -> Asked {
        assert!((row + rows - 1) * self.stride + self.cols <= self.out.len());
        let place = Lines { from: self.out.as_ptr().wrapping_add(row * self.stride), stride: self.stride };
        let lines = (depth / ROUND / LINES).max(1);
        let [next, later] = later;
        let soon = next.next(lines).or_else(|| later.next(lines)).or_else(|| ahead.next(lines));
        let soon = soon.unwrap_or(Lines { stride: 0, ..place });
        Asked { place, rows, soon }
    }

    /// Writes or adds `N` rows of `R` registers.
    ///
    /// # Safety
    /// The rows must exist, as [`Place::asked`] checks.
    #[inline(always)]
    pub unsafe fn put<S: Simd, const N: usize, const R: usize>(
        &mut self,
        simd: S,
        [row, col]: [usize; 2],
        sums: [[S::f32s; R]; N],
    ) {
        let width = R * S::F32_LANES;
        for (r, &sums) in sums.iter().enumerate() {
            let from = (row + r) * self.stride + col;
            if col + width <= self.cols {
                // SAFETY: `col + width <= cols`, and the row exists.
                // A check per row would keep the sums from staying in registers.
                let place = unsafe { self.out.get_unchecked_mut(from..from + width) };
                let (place, _) = S::as_mut_simd_f32s(place);
                for (place, &sum) in place.iter_mut().zip(&sums) {
                    *place = match self.into {
                        Into::Overwrite => sum,
                        Into::Add => simd.add_f32s(*place, sum),
                    };
                }
            } else {
                put_part::<S, R>(simd, &mut self.out[from..][..self.cols - col], self.into, sums);
            }
        }
    }
}

/// Writes registers, or adds them, to a place that is shorter.
#[inline(always)]
fn put_part<S: Simd, const R: usize>(simd: S, place: &mut [f32], into: Into, sums: [S::f32s; R]) {
    for (place, sum) in place.chunks_mut(S::F32_LANES).zip(sums) {
        let sum = match into {
            Into::Overwrite => sum,
            Into::Add => simd.add_f32s(simd.partial_load_f32s(place), sum),
        };
        simd.partial_store_f32s(place, sum);
    }
}
