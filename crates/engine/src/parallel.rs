//! How work is cut into pieces, such that results are the same bits on one core and on many.
//!
//! Where every row is computed by itself, pieces may follow the number of threads; where rows are summed, pieces
//! follow the shape alone.

use crate::packed::{ROWS, TILE};

/// Rows that one task handles when rows do not influence each other: two pieces per thread even out when a thread is
/// held up, and a thread alone waits for nobody.
pub fn rows_per_task(rows: usize) -> usize {
    const FEWEST: usize = 16 * TILE;
    const MOST: usize = 220 * TILE;
    let pieces = match rayon::current_num_threads() {
        1 => 1,
        threads => 2 * threads,
    };
    rows.div_ceil(pieces).clamp(FEWEST, MOST).next_multiple_of(TILE)
}

/// Rows of a product that one task computes and then passes over once more: few enough for `width` values of each to
/// stay in the second nearest cache, and as many as the product takes in whole passes.
pub fn block_rows(rows: usize, width: usize) -> usize {
    const VALUES: usize = ROWS << 10;
    let passes = (VALUES / width.max(1) / ROWS).max(1);
    rows_per_task(rows).min(passes * ROWS)
}

/// Prompts that one task carries through all tokens of a recurrent layer: one task per thread, because products
/// with few rows are slow.
pub fn prompts_per_task(batch: usize) -> usize {
    const FEWEST: usize = 8;
    const MOST: usize = 64;
    batch.div_ceil(rayon::current_num_threads()).clamp(FEWEST, MOST)
}

/// Rows of a weight gradient that one task computes: whole tiles, few enough to stay in the second nearest cache.
pub fn gradient_rows(rows: usize) -> usize {
    const FEWEST: usize = 4 * TILE;
    const MOST: usize = 43 * TILE;
    rows.div_ceil(rayon::current_num_threads()).clamp(FEWEST, MOST).next_multiple_of(TILE)
}

/// Rows that one task sums over. Each task has a partial sum of its own; the
/// partial sums are then added in order.
pub fn rows_per_partial_sum(rows: usize) -> usize {
    const FEWEST: usize = 700;
    const MOST_PARTS: usize = 16;
    let mut parts = 1;
    while parts < MOST_PARTS && rows / (2 * parts) >= FEWEST {
        parts *= 2;
    }
    rows.div_ceil(parts).max(1)
}

/// Number of partial sums.
pub fn partial_sums(rows: usize) -> usize {
    rows.div_ceil(rows_per_partial_sum(rows)).max(1)
}
