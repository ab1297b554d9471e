//! Loops over prompts, resamples and the like, on all threads.
//!
//! Rayon compiles some two thousand lines for every closure that it is handed. Here it gets the same few, which call the caller's:
//! a sixth of what this crate compiled to was that.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

type FillRow<'a> = &'a (dyn Fn(usize, &mut [f64]) + Sync);
type FillBoth<'a> = &'a (dyn Fn(usize, &mut [f64], &mut [f64]) + Sync);

/// `of(i)` of every `i < count`, in order.
pub fn map<T: Send>(count: usize, of: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let slots: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
    each(count, &|i| {
        let value = of(i);
        *slots[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    });
    let value = |slot: Mutex<Option<T>>| slot.into_inner().unwrap_or_else(PoisonError::into_inner);
    slots.into_iter().map(|slot| value(slot).expect("every index has its turn")).collect()
}

/// `of(item)` of every item, in order.
pub fn map_items<I: Sync, T: Send>(items: &[I], of: impl Fn(&I) -> T + Sync) -> Vec<T> {
    map(items.len(), |i| of(&items[i]))
}

/// Fills rows of `width` values each; `fill` is given the number of a row and the row.
pub fn fill_rows(rows: &mut [f64], width: usize, fill: impl Fn(usize, &mut [f64]) + Sync) {
    fill_row_by_row(rows, width, &fill);
}

/// Fills two matrices with as many rows each.
pub fn fill_both(
    [a, b]: [&mut [f64]; 2],
    [width_a, width_b]: [usize; 2],
    fill: impl Fn(usize, &mut [f64], &mut [f64]) + Sync,
) {
    fill_both_row_by_row([a, b], [width_a, width_b], &fill);
}

fn each(count: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(work);
}

fn fill_row_by_row(rows: &mut [f64], width: usize, fill: FillRow<'_>) {
    rows.par_chunks_mut(width).enumerate().for_each(|(i, row)| fill(i, row));
}

fn fill_both_row_by_row([a, b]: [&mut [f64]; 2], [width_a, width_b]: [usize; 2], fill: FillBoth<'_>) {
    let rows = a.par_chunks_mut(width_a).zip(b.par_chunks_mut(width_b));
    rows.enumerate().for_each(|(i, (a, b))| fill(i, a, b));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_done_once_and_comes_in_order() {
        let squares = map(1000, |i| i * i);
        assert!(squares.iter().enumerate().all(|(i, square)| *square == i * i));
        assert_eq!(map_items(&["a", "bc", ""], |text| text.len()), [1, 2, 0]);
        assert_eq!(map(0, |i| i), [0; 0]);
    }

    #[test]
    fn rows_are_filled_where_they_lie() {
        let (mut a, mut b) = (vec![0.0; 6], vec![0.0; 3]);
        fill_rows(&mut a, 2, |i, row| row.fill(i as f64));
        assert_eq!(a, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
        fill_both([&mut a, &mut b], [2, 1], |i, a, b| {
            a[1] += 10.0;
            b[0] = a[0] + i as f64;
        });
        assert_eq!((a, b), (vec![0.0, 10.0, 1.0, 11.0, 2.0, 12.0], vec![0.0, 2.0, 4.0]));
    }
}
