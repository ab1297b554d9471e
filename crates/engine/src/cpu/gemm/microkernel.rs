//! The microkernel's frame, which both kinds of product share: tiles of a panel, and where they go.

use pulp::Simd;

use super::MR;
use super::general::Accumulate;
use super::prefetcher::{PrefetchBlock, Prefetcher, TilePrefetch};
use crate::cpu::simd::LANES;

/// How tiles of a panel are computed.
pub(super) trait Microkernel<S: Simd> {
    /// Whether a tile may begin at any row; else only within one of the stretches of [`MR`] rows that are packed together.
    const ANYWHERE: bool;

    /// Computes `N` rows from `row` on, `R` registers at a time. Returns `N`.
    fn tile<const N: usize, const R: usize>(&mut self, simd: S, row: usize) -> usize;
}

/// All tiles of `rows` rows and at most a panel's columns, each as large as what is left allows.
#[inline(always)]
pub(super) fn all_tiles<S: Simd, M: Microkernel<S>>(simd: S, rows: usize, cols: usize, tiles: &mut M) {
    let registers = cols.div_ceil(S::F32_LANES).min(if S::F32_LANES >= LANES { 4 } else { 2 });
    let mut row = 0;
    while row < rows {
        let left = rows - row;
        // Each tile has the panel pass by: the last two are alike rather than one large and one small.
        let even = M::ANYWHERE && registers > 2 && left > MR && left < 2 * MR;
        let next = if even { left.div_ceil(2) } else { left };
        row += match (next, registers) {
            (MR.., 3..) => tiles.tile::<MR, 4>(simd, row),
            (5, 3..) => tiles.tile::<5, 4>(simd, row),
            (4, 3..) => tiles.tile::<4, 4>(simd, row),
            (3, 3..) => tiles.tile::<3, 4>(simd, row),
            (2, 3..) => tiles.tile::<2, 4>(simd, row),
            (_, 3..) => tiles.tile::<1, 4>(simd, row),
            (MR.., 2) => tiles.tile::<MR, 2>(simd, row),
            (_, 2) => tiles.tile::<1, 2>(simd, row),
            (MR.., _) => tiles.tile::<MR, 1>(simd, row),
            _ => tiles.tile::<1, 1>(simd, row),
        };
    }
}

/// The columns of the result that tiles of a panel go to.
pub(super) struct OutputPanel<'a> {
    pub out: &'a mut [f32],
    pub stride: usize,
    /// Columns that exist, at most `NR`.
    pub cols: usize,
    pub accumulate: Accumulate,
}

impl OutputPanel<'_> {
    /// What a tile of `rows` rows from `row` on prefetches that sums over `depth` values.
    ///
    /// # Panics
    /// If these rows do not exist.
    #[inline(always)]
    pub fn prefetches(
        &self,
        row: usize,
        rows: usize,
        depth: usize,
        blocks: &mut [PrefetchBlock; 2],
        prefetcher: &mut Prefetcher,
    ) -> TilePrefetch {
        assert!((row + rows - 1) * self.stride + self.cols <= self.out.len());
        let result = self.out.as_ptr().wrapping_add(row * self.stride);
        TilePrefetch::new((result, self.stride), rows, depth, blocks, prefetcher)
    }

    /// Writes or adds `N` rows of `R` registers.
    ///
    /// # Safety
    /// The rows must exist, as [`OutputPanel::prefetches`] checks.
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
                    *place = match self.accumulate {
                        Accumulate::Overwrite => sum,
                        Accumulate::Add => simd.add_f32s(*place, sum),
                    };
                }
            } else {
                put_part::<S, R>(simd, &mut self.out[from..][..self.cols - col], self.accumulate, sums);
            }
        }
    }
}

/// Writes registers, or adds them, to a place that is shorter.
#[inline(always)]
fn put_part<S: Simd, const R: usize>(simd: S, place: &mut [f32], accumulate: Accumulate, sums: [S::f32s; R]) {
    for (place, sum) in place.chunks_mut(S::F32_LANES).zip(sums) {
        let sum = match accumulate {
            Accumulate::Overwrite => sum,
            Accumulate::Add => simd.add_f32s(simd.partial_load_f32s(place), sum),
        };
        simd.partial_store_f32s(place, sum);
    }
}
