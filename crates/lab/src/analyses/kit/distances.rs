//! How far learners are from where they converge to, step by step: the size of errors, where similarity looks at their direction.

use super::LAST;
use super::lab::Lab;
use crate::compare::matching::Matching;
use crate::data::prompts::Prompts;
use crate::learners::Trajectory;
use crate::learners::steps::Steps;
use crate::parallel;
use crate::stats::{RESAMPLES, median_of, multiplicities};

/// Squared distances below this are round-off: a learner that has come so far has converged.
const ROUND_OFF: f64 = 1e-20;

/// Mean or median of the chosen values.
pub type Centre = fn(&[f64], &[usize]) -> f64;

/// How far a learner is from where it converges to after all pairs, at each of its steps.
pub struct Distances {
    /// Its steps.
    pub steps: Steps,
    /// Squared distances `[step][prompt]`.
    pub squared: Vec<Vec<f64>>,
}

impl Distances {
    /// From the predictions of the exact solution, which is a trajectory of one step. Without noise these are the errors.
    pub fn new(of: &Trajectory, exact: &Trajectory) -> Distances {
        let count = of.values.dim().1;
        let squared = |s: usize| {
            (0..count).map(|b| (of.values[[s, b, LAST]] - exact.values[[0, b, LAST]]).powi(2)).collect()
        };
        Distances { steps: of.steps.clone(), squared: (0..of.steps.len()).map(squared).collect() }
    }

    /// From the labels.
    pub fn from_labels(of: &Trajectory, prompts: &Prompts) -> Distances {
        let squared = of.steps.as_slice().iter().map(|&step| of.squared_errors(prompts, step, LAST));
        Distances { steps: of.steps.clone(), squared: squared.collect() }
    }

    /// What of them exceeds some other squared distances, prompt by prompt.
    pub fn less(&self, others: &[f64]) -> Distances {
        let less = |own: &Vec<f64>| own.iter().zip(others).map(|(own, other)| own - other).collect();
        Distances { steps: self.steps.clone(), squared: self.squared.iter().map(less).collect() }
    }

    /// Prompts they were measured on.
    pub fn prompts(&self) -> usize {
        self.squared[0].len()
    }

    /// E-folds by which each of the steps from `first` to `last` lowers the centre of the squared distances of the chosen
    /// prompts: (step, e-folds), for those that have a step before them.
    pub fn removed(&self, first: u64, last: u64, chosen: &[usize], centre: Centre) -> Vec<(f64, f64)> {
        let log = |i: usize| above_round_off(centre(&self.squared[i], chosen)).ln();
        let steps = self.steps.as_slice().iter().enumerate().skip(1);
        let within = steps.filter(|(_, step)| (first..=last).contains(*step));
        within.map(|(i, &step)| (step as f64, log(i - 1) - log(i))).collect()
    }

    /// For each step the step of another learner whose median distance is nearest, under resampled prompts, too; none where
    /// nothing but round-off is left.
    pub fn by_size(&self, other: &Distances, lab: &Lab) -> Matching {
        let nearest = |chosen: &[usize]| -> Vec<Option<usize>> {
            let median = |squared: &Vec<f64>| above_round_off(median_of(squared, chosen));
            let others: Vec<f64> = other.squared.iter().map(median).collect();
            let apart = |own: f64, i: usize| (others[i] / own).ln().abs();
            let best = |own: f64| (0..others.len()).min_by(|&i, &j| apart(own, i).total_cmp(&apart(own, j)));
            self.squared.iter().map(median).map(|own| best(own).filter(|_| own > ROUND_OFF)).collect()
        };
        let count = self.prompts();
        let resampled = parallel::map(RESAMPLES, |r| {
            let times = multiplicities(lab.seed, r, count);
            let chosen: Vec<usize> =
                (0..count).flat_map(|b| std::iter::repeat_n(b, times[b] as usize)).collect();
            nearest(&chosen)
        });
        let best = nearest(&(0..count).collect::<Vec<_>>());
        let step = |best: &Option<usize>| best.map_or(f64::NAN, |i| other.steps.as_slice()[i] as f64);
        let steps = |best: &Vec<Option<usize>>| best.iter().map(step).collect::<Vec<f64>>();
        Matching {
            a: self.steps.clone(),
            b: other.steps.clone(),
            similarity: vec![f64::NAN; best.len()],
            interpolated: steps(&best),
            best,
            resampled_interpolated: resampled.iter().map(steps).collect(),
            resampled,
        }
    }
}

/// A squared distance, or what is round-off. An excess may be negative, and stays so: it has no logarithm.
fn above_round_off(squared: f64) -> f64 {
    if (0.0..ROUND_OFF).contains(&squared) { ROUND_OFF } else { squared }
}
