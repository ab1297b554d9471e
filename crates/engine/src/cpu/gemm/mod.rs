//! Matrix products with thousands of rows, for the shapes of training: x·W with weights packed once, and xᵀ·d.
//!
//! The blocking is that of BLIS. B, the right-hand side, is packed into panels of [`NR`] columns, in blocks of `KC` inner
//! values; each panel lies contiguously. A microkernel keeps a tile of [`MR`] rows and `NR` columns of the result in registers
//! while a panel streams past it. [`MC`] rows of A pass by one panel before the next panel follows.
//!
//! A general product packs both sides anew in every call. Here the weights are packed once per pass and the rows of
//! x are read where they lie; for a weight gradient both sides already run along the rows, so packing is copying,
//! which the first tile that needs a piece does while it computes.
//!
//! Every element of the result is the same sum in the same order, whatever rows are computed together and however wide the
//! registers are: pieces of rows may follow the number of threads.
//!
//! ```text
//! general.rs      views of matrices, and products of any shape (the crate `gemm`)
//! pack.rs         packed B
//! microkernel.rs  tiles in registers
//! prefetcher.rs   what tiles prefetch while they compute
//! product.rs      x·W for packed W
//! weight_grad.rs  xᵀ·d, a sum of outer products
//! small.rs        the small products of attention
//! transpose.rs    copies with rows and columns exchanged
//! ```

pub mod general;
mod microkernel;
mod pack;
mod prefetcher;
mod product;
pub mod small;
#[cfg(test)]
mod tests;
pub(crate) mod transpose;
mod weight_grad;

pub use pack::PackedB;
pub use prefetcher::Prefetcher;
pub use product::{product, product_prefetching};
pub use weight_grad::add_outer_products;

/// Rows of the largest tile: with four registers of columns it takes 24 of 32 registers and leaves room for
/// the inputs.
pub const MR: usize = 6;

/// Columns of a panel of packed B, and of the largest tile.
pub const NR: usize = 64;

/// Inner values that one block sums over before the result is touched: a panel of this depth takes
/// 128 KiB and streams from L2.
const KC: usize = 512;

/// Rows that pass by one panel before the next panel follows; they stay in L2.
pub const MC: usize = 32 * MR;

/// Rows of each pass where about `most` of all `rows` are taken at a time: whole tiles, and no pass with so few rows that
/// bringing the panels takes longer than the sums.
pub fn rows_per_pass(rows: usize, most: usize) -> usize {
    let passes = rows.div_ceil(most + most / 8).max(1);
    rows.div_ceil(passes).next_multiple_of(MR).max(MR)
}
