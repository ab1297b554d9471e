//! How work is cut into pieces, such that results are the same bits on one core and on many.
//!
//! Where every row is computed by itself, pieces may follow the number of threads; where rows are summed, pieces
//! follow the shape alone.

use crate::packed::{ROWS, TILE};

/// Prompts that pass through a stage together when a prompt is rows that do not wait for each other: few enough for
/// what they make on the way to stay in the second nearest cache, many enough for a product.
pub fn prompts_per_group(batch: usize, tokens: usize) -> usize {
    let ROWS_PER_GROUP: usize = std::env::var("GR").map_or(164, |v| v.parse().unwrap());
    let fewest_groups = 2 * rayon::current_num_threads();
    (ROWS_PER_GROUP / tokens.max(1)).min(batch / fewest_groups).max(1)
}

/// Prompts that one thread carries through all tokens of a recurrent layer: one group per thread, because products
/// with few rows are slow.
pub fn prompts_per_recurrent_group(batch: usize) -> usize {
    const FEWEST: usize = 8;
    const MOST: usize = 64;
    batch.div_ceil(rayon::current_num_threads()).clamp(FEWEST, MOST).min(batch)
}

/// Rows of a product that are passed over once more at once: few enough for `width` values of each to stay in the
/// second nearest cache, and as many as the product takes in whole passes.
pub fn block_rows(width: usize) -> usize {
    const VALUES: usize = ROWS << 10;
    (VALUES / width.max(1) / ROWS).max(1) * ROWS
}

/// Rows of a weight gradient that one task computes: whole tiles, few enough to stay in the second nearest cache.
pub fn gradient_rows(rows: usize) -> usize {
    const FEWEST: usize = 4 * TILE;
    const MOST: usize = 43 * TILE;
    rows.div_ceil(rayon::current_num_threads()).clamp(FEWEST, MOST).next_multiple_of(TILE)
}
