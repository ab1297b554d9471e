//! How work is cut into pieces, such that results are the same bits on one core and on many.
//!
//! Where every row is computed by itself, pieces may follow the number of threads; where rows are summed, pieces
//! follow the shape alone.

use std::sync::Mutex;

use crate::cpu::gemm::{ROWS, rows_per_pass};

/// Prompts that pass through a stage together when a prompt is rows that do not wait for each other: few enough for
/// what they make on the way to stay in the second nearest cache, many enough for a product, and such that no thread has
/// more to do than the others.
pub fn prompts_per_group(batch: usize, tokens: usize) -> usize {
    const MOST_ROWS: usize = 184;
    let threads = rayon::current_num_threads();
    let most = (MOST_ROWS / tokens.max(1)).min(batch / (2 * threads)).max(1);
    let busiest = |prompts: &usize| batch.div_ceil(*prompts).div_ceil(threads) * prompts;
    (1..=most).rev().min_by_key(busiest).unwrap_or(1)
}

/// Prompts of the next group where `left` of a batch are not yet dealt: whole groups first, smaller ones at the end, so
/// that no thread waits long for another. Where every thread has one group, it stays whole.
pub fn next_group(left: usize, batch: usize, group: usize, threads: usize) -> usize {
    let whole = left >= 2 * threads * group || batch <= threads * group || threads == 1;
    let smaller = left.div_ceil(2 * threads).max(group.div_ceil(4));
    if whole { group.min(left) } else { smaller.min(group).min(left) }
}

/// Prompts that one thread carries through all tokens of a recurrent layer: one group per thread, because products
/// with few rows are slow.
pub fn prompts_per_recurrent_group(batch: usize) -> usize {
    const FEWEST: usize = 8;
    const MOST: usize = 64;
    batch.div_ceil(rayon::current_num_threads()).clamp(FEWEST, MOST).min(batch)
}

/// Of `rows` of a product, those that are passed over once more at once: few enough for `width` values of each to stay in
/// the second nearest cache, and as many as the product takes in whole passes.
pub fn block_rows(rows: usize, width: usize) -> usize {
    const VALUES: usize = ROWS << 10;
    rows_per_pass(rows, (VALUES / width.max(1) / ROWS).max(1) * ROWS)
}

/// Does work with many parallel parts on a thread of the pool: a thread outside would go to sleep and be woken up again for
/// each of them.
pub fn on_pool<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::scope(|_| work())
}

/// Does pieces of work in order, each by the thread that is free next; every thread has a worker.
pub fn deal_with<W: Send, T: Send>(
    workers: &mut [W],
    pieces: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(&mut W, T) + Sync,
) {
    let pieces = Mutex::new(pieces.into_iter());
    let run = |worker: &mut W| {
        loop {
            let Some(piece) = pieces.lock().unwrap_or_else(|e| e.into_inner()).next() else { break };
            work(worker, piece);
        }
    };
    match workers {
        [worker] => run(worker),
        workers => rayon::scope(|scope| workers.iter_mut().for_each(|worker| scope.spawn(|_| run(worker)))),
    }
}

/// As [`deal_with`], on all threads.
pub fn deal<T: Send>(pieces: Vec<T>, work: impl Fn(T) + Sync) {
    let threads = rayon::current_num_threads().min(pieces.len());
    deal_with(&mut vec![(); threads], pieces, |(), piece| work(piece));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_get_smaller_at_the_end() {
        let groups = |batch: usize, group: usize, threads: usize| {
            let mut left = batch;
            let next = || {
                let prompts = next_group(left, batch, group, threads);
                left -= prompts;
                (prompts > 0).then_some(prompts)
            };
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        assert_eq!(groups(64, 8, 2), [8, 8, 8, 8, 8, 6, 5, 4, 3, 2, 2, 2]);
        assert_eq!(groups(10, 2, 2), [2, 2, 2, 1, 1, 1, 1]);
        assert_eq!((groups(64, 32, 2), groups(5, 2, 1)), (vec![32, 32], vec![2, 2, 1]));
        for (batch, group, threads) in [(1, 1, 2), (7, 3, 16), (64, 5, 3), (100, 8, 4)] {
            let groups = groups(batch, group, threads);
            assert!(groups.iter().sum::<usize>() == batch && groups.iter().all(|&prompts| prompts <= group));
        }
    }

    #[test]
    fn no_thread_has_more_prompts_than_it_must() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
        pool.install(|| {
            assert_eq!([22, 82, 202].map(|tokens| prompts_per_group(64, tokens)), [8, 2, 1]);
            for batch in 1..100 {
                let group = prompts_per_group(batch, 22);
                let busiest = batch.div_ceil(group).div_ceil(2) * group;
                assert!(busiest <= batch.div_ceil(2) + 1, "{batch} prompts in groups of {group}");
            }
        });
    }
}
