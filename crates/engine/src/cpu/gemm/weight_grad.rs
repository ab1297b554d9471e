//! xᵀ · y over many rows, as weight gradients have it: a sum of outer products.

use std::cell::RefCell;
use std::ptr;

use pulp::{Simd, WithSimd};

use super::general::{Accumulate, Mat};
use super::microkernel::{Microkernel, OutputPanel, all_tiles};
use super::pack::aligned;
use super::prefetcher::{PrefetchBlock, Prefetcher, ROUND, TilePrefetch};
use super::{MR, NR};
use crate::cpu::simd::{LANES, arch};

/// Rows that are summed over before the result is touched.
const KC: usize = 384;

thread_local! {
    /// A thread's packed A and packed B of one block.
    static PACKED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// out`[i, j]` += Σ_k x`[k, i]` y`[k, j]` for row-major x and y; `out` is dense. In passing, the rows of x and of y are
/// added to `sums`, where those are not empty.
///
/// # Panics
/// If the shapes do not fit, a view is transposed or reaches past its slice.
pub fn add_outer_products(out: &mut [f32], x: Mat, y: Mat, sums: [&mut [f32]; 2]) {
    assert_eq!((x.rows, x.col_stride, y.col_stride), (y.rows, 1, 1), "sides of a sum of outer products");
    assert_eq!(out.len(), x.cols * y.cols, "place of a sum of outer products");
    assert!(x.extent() <= x.data.len() && y.extent() <= y.data.len(), "a side is too short");
    assert!(
        [&x, &y].iter().zip(&sums).all(|(side, sums)| [0, side.cols].contains(&sums.len())),
        "sums of rows"
    );
    // They are borrowed out here: a closure inside the kernel need not be compiled for the kernel's instruction
    // set, and was then measured at a fiftieth of the speed.
    PACKED.with_borrow_mut(|buffer| {
        let packed_a = KC * x.cols.next_multiple_of(MR);
        buffer.resize(buffer.len().max(packed_a + KC * NR + LANES), 0.0);
        let (packed_b, packed_a) = aligned(buffer).split_at_mut(KC * NR);
        arch().dispatch(OuterProducts { out, x, y, sums, packed_a, packed_b });
    });
}

/// Both sides are packed such that a tile's values lie one after the other: A in panels of [`MR`] columns of x, B in panels of
/// [`NR`] columns of y. The first tile to need a panel reads it where it lies and packs it while it computes.
struct OuterProducts<'a> {
    out: &'a mut [f32],
    x: Mat<'a>,
    y: Mat<'a>,
    sums: [&'a mut [f32]; 2],
    packed_a: &'a mut [f32],
    packed_b: &'a mut [f32],
}

impl WithSimd for OuterProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { out, x, y, sums: [x_sums, y_sums], packed_a, packed_b } = self;
        for from in (0..x.rows).step_by(KC) {
            let depth = KC.min(x.rows - from);
            let below = KC.min(x.rows - from - depth);
            let left = x.part([from, 0], [depth, x.cols]);
            add_rows(x_sums, left);
            let mut below_left =
                PrefetchBlock::new((below > 0).then(|| x.part([from + depth, 0], [below, x.cols])));
            for col in (0..y.cols).step_by(NR) {
                let cols = NR.min(y.cols - col);
                let right = y.part([from, col], [depth, cols]);
                if cols < NR {
                    pack_narrow(simd, packed_b, right);
                }
                let more = y.cols - col - cols;
                let next = match more {
                    1.. => Some(y.part([from, col + NR], [depth, NR.min(more)])),
                    0 if below > 0 => Some(y.part([from + depth, 0], [below, NR.min(y.cols)])),
                    0 => None,
                };
                let to =
                    OutputPanel { out: &mut out[col..], stride: y.cols, cols, accumulate: Accumulate::Add };
                let packed_a = match (col, more) {
                    (0, 0) => PackedA::None,
                    (0, _) => PackedA::ToPack(packed_a),
                    _ => PackedA::Packed(packed_a),
                };
                // What the next block needs is prefetched at the end of this one: it would not stay in the cache for longer.
                let left_too = more < 4 * NR;
                let upcoming = [
                    PrefetchBlock::new(next),
                    if left_too { below_left.take() } else { PrefetchBlock::new(None) },
                ];
                let mut tiles = OuterTiles { to, left, right, packed_a, packed_b, upcoming };
                all_tiles(simd, x.cols, cols, &mut tiles);
                if left_too {
                    [_, below_left] = tiles.upcoming;
                }
                // Of packed B, which is in L1: `right` itself comes from main memory, and is read but once.
                if let Some(sums) = y_sums.get_mut(col..col + cols) {
                    add_rows(sums, Mat::dense(packed_b, depth, NR));
                }
            }
        }
    }
}

/// One side of a block from a tile's first value on, row by row.
#[derive(Clone, Copy)]
struct Side {
    at: *const f32,
    /// How far rows lie apart.
    step: usize,
    /// Where rows are packed to on the way, or null.
    pack_to: *mut f32,
}

impl Side {
    /// Where it lies, from a column on.
    #[inline(always)]
    fn of(side: Mat, col: usize) -> Self {
        Self { at: side.data[col..].as_ptr(), step: side.row_stride, pack_to: ptr::null_mut() }
    }

    /// Rows of so many values, one after the other.
    #[inline(always)]
    fn packed(place: &[f32], step: usize) -> Self {
        Self { at: place.as_ptr(), step, pack_to: ptr::null_mut() }
    }

    /// The same from a later value on, of rows that are packed `width` values apart.
    #[inline(always)]
    fn advanced(self, [rows, cols]: [usize; 2], width: usize) -> Self {
        let pack_to = if self.pack_to.is_null() {
            self.pack_to
        } else {
            self.pack_to.wrapping_add(rows * width + cols)
        };
        Self { at: self.at.wrapping_add(rows * self.step + cols), pack_to, ..self }
    }
}

/// Packed A of a block: not worth packing, to be packed on the way, or packed.
enum PackedA<'a> {
    None,
    ToPack(&'a mut [f32]),
    Packed(&'a [f32]),
}

/// Tiles of one panel of a block; meanwhile what follows is prefetched.
struct OuterTiles<'o, 'a> {
    to: OutputPanel<'o>,
    left: Mat<'a>,
    right: Mat<'a>,
    packed_a: PackedA<'o>,
    /// Packed B: `right`, packed by the first tile, or before where it is narrow.
    packed_b: &'o mut [f32],
    upcoming: [PrefetchBlock<'a>; 2],
}

impl<S: Simd> Microkernel<S> for OuterTiles<'_, '_> {
    const ANYWHERE: bool = false;

    #[inline(always)]
    fn tile<const N: usize, const R: usize>(&mut self, simd: S, row: usize) -> usize {
        let Self { to, left, right, packed_a, packed_b, upcoming } = self;
        let depth = left.rows;
        // What is narrower than a panel of A is not packed.
        let a = match packed_a {
            PackedA::Packed(packed_a) if N == MR => Side::packed(&packed_a[row * KC..], MR),
            PackedA::ToPack(packed_a) if N == MR => {
                Side { pack_to: packed_a[row * KC..].as_mut_ptr(), ..Side::of(*left, row) }
            }
            _ => Side::of(*left, row),
        };
        let b = match row == 0 && right.cols == NR {
            true => Side { pack_to: packed_b.as_mut_ptr(), ..Side::of(*right, 0) },
            false => Side::packed(packed_b, NR),
        };
        // Not the result: after so many sums it is waited for less than its prefetches take.
        let prefetches = to.prefetches(row, N, depth, upcoming, &mut Prefetcher::default()).without_result();
        for col in (0..to.cols).step_by(R * S::F32_LANES) {
            let b = b.advanced([0, col], NR);
            let packs = [N == MR && col == 0 && !a.pack_to.is_null(), !b.pack_to.is_null()];
            // Every tile is added up under the same condition: the sides have as many rows as `left` and `right`, which lie
            // within their data; panels are as deep as a block. There are `N` columns of `left` from `row` on, and `R`
            // registers of `right` from `col` on where it is a whole panel, or of packed B, which is as wide as one.
            let sums = match packs {
                // Most tiles are these: distances that are known need no instructions.
                [false, false] if N == MR && (a.step, b.step) == (MR, NR) => {
                    let sides = [Side { step: MR, ..a }, Side { step: NR, ..b }];
                    // SAFETY: as above.
                    unsafe { sums::<S, N, R, false, false>(simd, sides, depth, prefetches) }
                }
                // SAFETY: as above.
                [false, false] => unsafe { sums::<S, N, R, false, false>(simd, [a, b], depth, prefetches) },
                // SAFETY: as above.
                [true, false] => unsafe { sums::<S, N, R, true, false>(simd, [a, b], depth, prefetches) },
                // SAFETY: as above.
                [false, true] => unsafe { sums::<S, N, R, false, true>(simd, [a, b], depth, prefetches) },
                // SAFETY: as above.
                [true, true] => unsafe { sums::<S, N, R, true, true>(simd, [a, b], depth, prefetches) },
            };
            // SAFETY: `prefetches` has checked that the rows exist.
            unsafe { to.put(simd, [row, col], sums) };
        }
        N
    }
}

/// sums`[r]` = Σ_k a`[k][r]` · b`[k]`, each in `R` registers; packs a, or b, where that is said.
///
/// # Safety
/// `depth` rows of both sides must exist: `N` values of the first, `R` registers of the second; as much where they are packed.
#[inline(always)]
unsafe fn sums<S: Simd, const N: usize, const R: usize, const PACK_A: bool, const PACK_B: bool>(
    simd: S,
    [mut a, mut b]: [Side; 2],
    depth: usize,
    prefetches: TilePrefetch,
) -> [[S::f32s; R]; N] {
    let mut sums = [[simd.splat_f32s(0.0); R]; N];
    for round in 0..depth / ROUND {
        prefetches.issue(round);
        for k in 0..ROUND {
            // SAFETY: promised by the caller.
            unsafe { add_products::<S, N, R, PACK_A, PACK_B>(simd, &mut sums, [a, b], k) };
        }
        (a, b) = (a.advanced([ROUND, 0], MR), b.advanced([ROUND, 0], NR));
    }
    for k in 0..depth % ROUND {
        // SAFETY: promised by the caller.
        unsafe { add_products::<S, N, R, PACK_A, PACK_B>(simd, &mut sums, [a, b], k) };
    }
    sums
}

/// sums`[r]` += a`[k][r]` · b`[k]`
///
/// # Safety
/// As for [`sums`], row k of both.
#[inline(always)]
unsafe fn add_products<S: Simd, const N: usize, const R: usize, const PACK_A: bool, const PACK_B: bool>(
    simd: S,
    sums: &mut [[S::f32s; R]; N],
    [a, b]: [Side; 2],
    k: usize,
) {
    let (a, b) = (a.advanced([k, 0], MR), b.advanced([k, 0], NR));
    // SAFETY: promised by the caller; a vector of floats may lie anywhere when read unaligned.
    let row: [S::f32s; R] = unsafe { b.at.cast::<[S::f32s; R]>().read_unaligned() };
    if PACK_B {
        // SAFETY: as above, where it is packed.
        unsafe { b.pack_to.cast::<[S::f32s; R]>().write_unaligned(row) };
    }
    // SAFETY: as above.
    let factors = unsafe { a.at.cast::<[f32; N]>().read_unaligned() };
    if PACK_A {
        // SAFETY: as above, where it is packed.
        unsafe { a.pack_to.cast::<[f32; N]>().write_unaligned(factors) };
    }
    for (factor, sums) in factors.into_iter().zip(sums) {
        let factor = simd.splat_f32s(factor);
        for (sum, &b) in sums.iter_mut().zip(&row) {
            *sum = simd.mul_add_f32s(factor, b, *sum);
        }
    }
}

/// sums`[j]` += Σ_k x`[k, j]`, for the first columns of x.
#[inline(always)]
fn add_rows(sums: &mut [f32], x: Mat) {
    let (panels, narrow) = sums.as_chunks_mut::<NR>();
    let whole = panels.len() * NR;
    for (panel, sums) in panels.iter_mut().enumerate() {
        // A local of known length stays in registers.
        let mut total = *sums;
        for k in 0..x.rows {
            let row: &[f32; NR] =
                x.data[k * x.row_stride + panel * NR..].first_chunk().expect("a whole panel");
            for (sum, &x) in total.iter_mut().zip(row) {
                *sum += x;
            }
        }
        *sums = total;
    }
    for k in 0..x.rows {
        let row = &x.data[k * x.row_stride + whole..][..narrow.len()];
        for (sum, &x) in narrow.iter_mut().zip(row) {
            *sum += x;
        }
    }
}

/// place`[k]` = the first values of row k, and 0 in the rest of the last register.
#[inline(always)]
fn pack_narrow<S: Simd>(simd: S, place: &mut [f32], y: Mat) {
    for (k, place) in place.chunks_exact_mut(NR).take(y.rows).enumerate() {
        let (place, _) = S::as_mut_simd_f32s(place);
        let values = y.data[k * y.row_stride..][..y.cols].chunks(S::F32_LANES);
        for (place, values) in place.iter_mut().zip(values) {
            *place = simd.partial_load_f32s(values);
        }
    }
}
