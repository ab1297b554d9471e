//! Best-matching steps: for each step of A the most similar step of B.

use rayon::prelude::*;

use crate::compare::similarity::{Heatmap, Metric};
use crate::data::seed::Seed;
use crate::learners::steps::Steps;
use crate::stats::{Estimate, RESAMPLES, interval, multiplicities};

/// For each step of A the best step of B, by position in B's steps.
#[derive(Clone, Debug)]
pub struct Matching {
    /// Steps of A.
    pub a: Steps,
    /// Steps of B that were searched.
    pub b: Steps,
    /// Position of the best step of B, where the map is defined.
    pub best: Vec<Option<usize>>,
    /// The similarity there.
    pub similarity: Vec<f64>,
    /// The same under each resampling of the prompts; empty until [`bootstrap`] fills it.
    pub resampled: Vec<Vec<Option<usize>>>,
}

impl Matching {
    /// Best step of B for the step `a` of A.
    pub fn step_for(&self, a: u64) -> Option<u64> {
        self.best[self.a.position(a)?].map(|i| self.b.as_slice()[i])
    }

    /// Whether a match sits at the end of what was searched, so that the true one may lie beyond.
    pub fn at_edge(&self, best: usize) -> bool {
        self.b.len() > 1 && (best == 0 || best == self.b.len() - 1)
    }

    /// 95 % bootstrap interval of the best position, per step of A.
    pub fn intervals(&self) -> Vec<Option<(usize, usize)>> {
        (0..self.best.len())
            .map(|i| {
                let mut seen: Vec<usize> = self.resampled.iter().filter_map(|r| r[i]).collect();
                seen.sort_unstable();
                let at = |q: f64| seen[((seen.len() - 1) as f64 * q).round() as usize];
                (!seen.is_empty()).then(|| (at(0.025), at(0.975)))
            })
            .collect()
    }

    /// The same as steps of B.
    pub fn step_intervals(&self) -> Vec<Option<(u64, u64)>> {
        let step = |i: usize| self.b.as_slice()[i];
        self.intervals().into_iter().map(|i| i.map(|(low, high)| (step(low), step(high)))).collect()
    }
}

/// Best match on all prompts.
pub fn best_match(map: &Heatmap) -> Matching {
    let rows: Vec<Vec<f64>> = map.mean.outer_iter().map(|row| row.to_vec()).collect();
    let best: Vec<Option<usize>> = rows.iter().map(|row| best_of(row, map.metric)).collect();
    let similarity = best.iter().zip(&rows).map(|(b, row)| b.map_or(f64::NAN, |b| row[b])).collect();
    Matching { a: map.a.steps.clone(), b: map.b.steps.clone(), best, similarity, resampled: Vec::new() }
}

/// Best match with the matches under resampled prompts.
pub fn bootstrap(map: &Heatmap, seed: Seed) -> Matching {
    let (na, nb, count) = map.per_prompt.dim();
    let cells = map.per_prompt.as_slice().expect("standard layout");
    let resampled = (0..RESAMPLES)
        .into_par_iter()
        .map(|r| {
            let times = multiplicities(seed, r, count);
            let mut row = vec![0.0; nb];
            (0..na)
                .map(|i| {
                    for (j, mean) in row.iter_mut().enumerate() {
                        // a cell that is undefined on all prompts stays undefined
                        let cell = &cells[(i * nb + j) * count..(i * nb + j + 1) * count];
                        *mean =
                            if map.mean[[i, j]].is_nan() { f64::NAN } else { weighted_mean(cell, &times) };
                    }
                    best_of(&row, map.metric)
                })
                .collect()
        })
        .collect();
    Matching { resampled, ..best_match(map) }
}

/// For each step of A, how much more similar the best step of one learner is than the best step of another, on the same
/// prompts; resampled in pairs and with the best steps chosen anew each time. An interval that holds 0 means that the two
/// cannot be told apart there.
pub fn advantage(one: &Heatmap, other: &Heatmap, seed: Seed) -> Vec<Estimate> {
    let count = one.per_prompt.dim().2;
    assert_eq!(count, other.per_prompt.dim().2, "maps of the same prompts");
    let best = |map: &Heatmap, i: usize, times: &[f64]| {
        let nb = map.per_prompt.dim().1;
        let row: Vec<f64> = (0..nb)
            .map(|j| {
                let cell = map.per_prompt.slice(ndarray::s![i, j, ..]);
                let cell = cell.as_slice().expect("standard layout");
                if map.mean[[i, j]].is_nan() { f64::NAN } else { weighted_mean(cell, times) }
            })
            .collect();
        best_of(&row, map.metric).map_or(f64::NAN, |b| row[b])
    };
    let difference = |i: usize, times: &[f64]| best(one, i, times) - best(other, i, times);
    let rows = one.a.steps.len();
    let resampled: Vec<Vec<f64>> = (0..RESAMPLES)
        .into_par_iter()
        .map(|r| {
            let times = multiplicities(seed, r, count);
            (0..rows).map(|i| difference(i, &times)).collect()
        })
        .collect();
    (0..rows)
        .map(|i| {
            let (low, high) = interval(resampled.iter().map(|r| r[i]).collect());
            Estimate { value: difference(i, &vec![1.0; count]), low, high }
        })
        .collect()
}

/// Mean of the values that are not NaN, each counted `times`.
fn weighted_mean(values: &[f64], times: &[f64]) -> f64 {
    let sum = crate::linalg::dot(values, times);
    if !sum.is_nan() {
        return sum / values.len() as f64;
    }
    let valid = values.iter().zip(times).filter(|(v, _)| !v.is_nan());
    let (sum, weight) = valid.fold((0.0, 0.0), |(s, w), (v, t)| (s + v * t, w + t));
    sum / weight
}

fn best_of(row: &[f64], metric: Metric) -> Option<usize> {
    let better = |x: f64, y: f64| match metric {
        Metric::Cosine => x > y,
        Metric::Distance => x < y,
    };
    let mut best: Option<usize> = None;
    for (j, v) in row.iter().enumerate().filter(|(_, v)| !v.is_nan()) {
        if best.is_none_or(|b| better(*v, row[b])) {
            best = Some(j);
        }
    }
    best
}
