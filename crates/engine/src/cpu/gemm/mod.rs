//! Products with thousands of rows, for the shapes of training: x·W with weights packed once, and xᵀ·d.
//!
//! A general product packs both sides anew in every call. Here the weights are packed once per pass and the rows of
//! x are read where they lie; for a weight gradient both sides already run along the rows, so packing is copying,
//! which the first tile that needs a piece does while it computes.
//!
//! A packed side is cut into blocks of 512 inner values and those into panels of 64 columns, each of which
//! lies contiguously. A tile of the result stays in registers while a panel streams past it. Every element of the
//! result is the same sum in the same order, whatever rows are computed together and however wide the registers
//! are: pieces of rows may follow the number of threads.

pub mod general;
mod microkernel;
mod pack;
mod rows;
pub mod small;
#[cfg(test)]
mod tests;
pub(crate) mod transpose;
mod weight_grad;

pub use microkernel::Ahead;
pub use pack::Packed;
pub use rows::{product, product_asking};
pub use weight_grad::add_outer_products;

/// Columns of a panel.
pub const PANEL: usize = 64;

/// Inner values that one block sums over before the result is touched: a panel of this depth takes
/// 128 KiB and streams from the second nearest cache.
const DEPTH: usize = 512;

/// Rows of the largest tile: with four registers of columns it takes 24 of 32 registers and leaves room for
/// the inputs.
pub const TILE: usize = 6;

/// Rows that pass by one panel before the next panel follows; they stay in the second nearest cache.
pub const ROWS: usize = 32 * TILE;

/// Rows of each pass where about `most` of all `rows` are taken at a time: whole tiles, and no pass with so few rows that
/// bringing the panels takes longer than the sums.
pub fn rows_per_pass(rows: usize, most: usize) -> usize {
    let passes = rows.div_ceil(most + most / 8).max(1);
    rows.div_ceil(passes).next_multiple_of(TILE).max(TILE)
}
