//! Errors of learners along their steps, over the pairs read, and against each other.

use crate::data::prompts::Prompts;
use crate::data::seed::Seed;
use crate::findings::{Axis, LinesPanel, Series};
use crate::learners::Trajectory;
use crate::stats::{Estimate, bootstrap, median_of};

/// Mean squared error over d after `t` pairs.
pub fn mean_error(of: &Trajectory, prompts: &Prompts, step: u64, t: usize) -> f64 {
    let errors = of.squared_errors(prompts, step, t);
    errors.iter().sum::<f64>() / errors.len() as f64 / prompts.dim() as f64
}

/// Median squared error over d after `t` pairs.
pub fn median_error(of: &Trajectory, prompts: &Prompts, step: u64, t: usize) -> f64 {
    let errors = of.squared_errors(prompts, step, t);
    let all: Vec<usize> = (0..errors.len()).collect();
    median_of(&errors, &all) / prompts.dim() as f64
}

/// Squared error over all positions, one per prompt.
pub fn squares(of: &Trajectory, prompts: &Prompts, step: u64) -> Vec<f64> {
    let s = of.steps.position(step).expect("recorded");
    of.errors(prompts, s).rows().into_iter().map(|row| row.iter().map(|e| e * e).sum()).collect()
}

/// The sum of some values, one per prompt, over the sum of others.
pub fn ratio(seed: Seed, one: &[f64], other: &[f64]) -> Estimate {
    let sum = |values: &[f64], chosen: &[usize]| chosen.iter().map(|&b| values[b]).sum::<f64>();
    bootstrap(seed, one.len(), |chosen| sum(one, chosen) / sum(other, chosen))
}

/// Mean error by pairs read, a curve per step.
pub fn by_pairs(title: &str, of: &Trajectory, prompts: &Prompts, steps: &[u64]) -> LinesPanel {
    let series = steps.iter().enumerate().map(|(i, &step)| {
        let points = (0..prompts.points()).map(|t| (t as f64, mean_error(of, prompts, step, t))).collect();
        Series::new(format!("{} {step}", of.unit.one()), points).grade(i as f64 / (steps.len() - 1) as f64)
    });
    let y = Axis::log10("mean squared error / d").range(1e-10, 10.0);
    LinesPanel::new(Axis::linear("in-context pairs t"), y, series)
        .titled(title)
        .mark_x("t = d", prompts.dim() as f64)
}
