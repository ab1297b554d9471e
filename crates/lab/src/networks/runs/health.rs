//! Whether training still works. At a constant rate without clipping it may break down after hundreds of thousands of good steps, and
//! never come back: the weights from before are worth keeping.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{HEALTHY, Metrics};
use crate::findings::numbers::grouped;
use crate::networks::experiment::TrainingSpec;
use crate::stats::median_of;

/// Rows of metrics in a stretch, at least.
const FEWEST_ROWS: u64 = 10;
/// Stretches in a run, at most.
const MOST_STRETCHES: u64 = 100;
/// A stretch is healthy with at most so many times the loss of the best one, or so many of its standard errors above it …
const HEALTHY_LOSS: (f64, f64) = (1.012, 3.0);
/// … and gradient norms of at most so many times the usual.
const HEALTHY_NORM: f64 = 10.0;
/// Training has broken down above so many times the loss of the best stretch, and so many of its standard errors above it.
const BROKEN_LOSS: (f64, f64) = (1.05, 6.0);

/// When a training broke down from which it did not recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breakdown {
    /// Steps taken before the first stretch that was lost.
    pub after: u64,
    /// Steps of the last healthy weights.
    pub healthy: u64,
}

impl fmt::Display for Breakdown {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (after, healthy) = (grouped(self.after), grouped(self.healthy));
        write!(
            f,
            "training broke down after step {after}; the weights of step {healthy} are kept in {HEALTHY}/"
        )
    }
}

/// How the stretch that just ended was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stretch {
    /// As good as any before: its last weights are worth keeping.
    Healthy,
    /// Somewhat worse, or with gradients out of the ordinary.
    Unwell,
    /// Training has broken down.
    Broken,
}

/// Looks at stretches of rows, one after the other. Rows alone decide, so that an interrupted run finds the same.
pub(super) struct Health {
    /// Steps of a stretch.
    length: u64,
    rows: Vec<Metrics>,
    /// Least mean loss of a stretch with its standard error, and the usual norm in each, with the dimensions and points in use now.
    best: (f64, f64),
    norms: Vec<f64>,
    shape: (usize, usize),
    healthy: u64,
    broken_after: Option<u64>,
}

impl Health {
    /// Before the first row.
    pub fn new(spec: &TrainingSpec) -> Health {
        let rows = (spec.steps / MOST_STRETCHES / spec.log_every).max(FEWEST_ROWS);
        Health {
            length: rows.saturating_mul(spec.log_every),
            rows: Vec::new(),
            best: (f64::INFINITY, 0.0),
            norms: Vec::new(),
            shape: (0, 0),
            healthy: 0,
            broken_after: None,
        }
    }

    /// Hears a row; at the end of a stretch says how it was.
    pub fn hear(&mut self, row: &Metrics) -> Option<Stretch> {
        self.rows.push(*row);
        if !row.step.is_multiple_of(self.length) {
            return None;
        }
        let rows = std::mem::take(&mut self.rows);
        let found = self.judge(&rows);
        match found {
            Stretch::Healthy => (self.healthy, self.broken_after) = (row.step, None),
            Stretch::Unwell => {}
            Stretch::Broken => {
                self.broken_after.get_or_insert(row.step - self.length);
            }
        }
        Some(found)
    }

    /// When training broke down, unless it has recovered.
    pub fn breakdown(&self) -> Option<Breakdown> {
        self.broken_after.map(|after| Breakdown { after, healthy: self.healthy })
    }

    fn judge(&mut self, rows: &[Metrics]) -> Stretch {
        let last = rows[rows.len() - 1];
        // a curriculum makes the task harder: losses before are no measure
        if rows.iter().any(|row| (row.dims, row.points) != self.shape) {
            (self.shape, self.best) = ((last.dims, last.points), (f64::INFINITY, 0.0));
            self.norms.clear();
            return Stretch::Healthy;
        }
        let count = rows.len() as f64;
        let loss = rows.iter().map(|row| row.loss).sum::<f64>() / count;
        let error = (rows.iter().map(|row| (row.loss - loss).powi(2)).sum::<f64>()).sqrt() / count;
        let bound =
            |(times, errors): (f64, f64)| (times * self.best.0).max(self.best.0 + errors * self.best.1);
        if loss > bound(BROKEN_LOSS) {
            return Stretch::Broken;
        }
        let norms: Vec<f64> = rows.iter().map(|row| row.norm).collect();
        let largest = norms.iter().copied().fold(0.0, f64::max);
        let usual = if self.norms.is_empty() { f64::INFINITY } else { median(&self.norms) };
        let healthy = loss <= bound(HEALTHY_LOSS) && largest <= HEALTHY_NORM * usual;
        if loss < self.best.0 {
            self.best = (loss, error);
        }
        self.norms.push(median(&norms));
        if healthy { Stretch::Healthy } else { Stretch::Unwell }
    }
}

fn median(of: &[f64]) -> f64 {
    median_of(of, &(0..of.len()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::networks::experiment::Experiment;

    /// Rows of 100 steps in the words of a loss and a norm.
    fn hear(health: &mut Health, rows: impl IntoIterator<Item = (u64, f64, f64, usize)>) -> Vec<Stretch> {
        let row = |(i, loss, norm, dims): (u64, f64, f64, usize)| Metrics {
            step: 100 * (i + 1),
            loss,
            excess: None,
            norm,
            rate: 1e-4,
            dims,
            points: 41,
            seconds: 0.0,
        };
        rows.into_iter().filter_map(|of| health.hear(&row(of))).collect()
    }

    fn health() -> Health {
        let text = include_str!("../../../../../experiments/r5.toml");
        Health::new(&Experiment::parse(text, Path::new("r5.toml")).unwrap().training)
    }

    #[test]
    fn a_breakdown_is_noticed_and_the_weights_before_it_count() {
        use Stretch::{Broken, Healthy, Unwell};
        let mut watch = health();
        let steps = 0..50 * 6;
        // a harder task, then better and better; a wild gradient; the end
        let found = hear(
            &mut watch,
            steps.map(|i| match i / 50 {
                0 => (i, 2.0, 5.0, if i < 30 { 10 } else { 20 }),
                1 => (i, 5.3, 5.0, 20),
                2 => (i, 5.2, 5.0, 20),
                3 => (i, 5.21, if i == 170 { 60.0 } else { 5.0 }, 20),
                _ => (i, 19.0, 1e6, 20),
            }),
        );
        assert_eq!(found, [Healthy, Healthy, Healthy, Unwell, Broken, Broken]);
        assert_eq!(watch.breakdown(), Some(Breakdown { after: 20_000, healthy: 15_000 }));
        let better = (300..350).map(|i| (i, 5.2, 5.0, 20));
        assert_eq!(hear(&mut watch, better), [Healthy]);
        assert_eq!(watch.breakdown(), None, "it recovered");
    }

    #[test]
    fn noise_is_no_breakdown() {
        let mut watch = health();
        let found =
            hear(&mut watch, (0..500).map(|i| (i, 5.2 + 0.05 * (i as f64).sin(), 5.0 + (i % 9) as f64, 20)));
        assert!(found.iter().all(|stretch| *stretch == Stretch::Healthy), "{found:?}");
    }
}
