//! The `[training]` table: steps, optimiser, schedule of the learning rate, curriculum, what is written when.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::findings::numbers::grouped;

/// How to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingSpec {
    /// Gradient steps.
    pub steps: u64,
    /// Prompts per step.
    pub batch: usize,
    /// Seed of the first weights and of all prompts.
    #[serde(default)]
    pub seed: u64,
    /// Weights to start from instead of fresh ones: a run's directory, a file of weights, or the name of a shipped network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<PathBuf>,
    /// How fresh weights begin.
    #[serde(default, skip_serializing_if = "is_default")]
    pub start: Start,
    /// What moves the weights.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optimiser: Optimiser,
    /// Largest learning rate.
    pub rate: f64,
    /// Adam's decay of the mean of gradients.
    #[serde(default = "beta1")]
    pub beta1: f64,
    /// Adam's decay of the mean of squared gradients.
    #[serde(default = "beta2")]
    pub beta2: f64,
    /// Adam's ε.
    #[serde(default = "epsilon")]
    pub epsilon: f64,
    /// Largest gradient norm; no clipping when absent.
    pub clip: Option<f64>,
    /// How the rate changes.
    #[serde(default)]
    pub schedule: Schedule,
    /// Share of the steps before a linear schedule falls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flat: Option<f64>,
    /// Share of the steps over which the rate rises from 0.
    #[serde(default)]
    pub warmup: f64,
    /// Dimensions in use, growing; all of them when absent.
    pub dims: Option<Ramp>,
    /// Points in use, growing; all of them when absent.
    pub points: Option<Ramp>,
    /// Steps between rows of metrics.
    #[serde(default = "log_every")]
    pub log_every: u64,
    /// Steps between checkpoints; by the clock when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<u64>,
    /// Checkpoints that are kept along the way, spread evenly over the logarithm of the step.
    #[serde(default)]
    pub keep: usize,
}

/// The paper's recipe: 500,001 steps of 64 prompts, Adam at a constant 1e-4, nothing clipped, nothing warmed up.
const PAPER: (u64, usize, f64) = (500_001, 64, 1e-4);

impl TrainingSpec {
    /// How this differs from the paper's recipe, in words: `Muon at 1.5e-3 in 8,000 steps`; nothing where it does not. Seeds
    /// and what is written when make no difference.
    pub fn other_than_the_papers(&self) -> Option<String> {
        let (steps, batch, rate) = PAPER;
        let same = (self.steps, self.batch, self.rate) == (steps, batch, rate)
            && (self.beta1, self.beta2, self.epsilon) == (beta1(), beta2(), epsilon())
            && (self.optimiser, self.schedule, self.start)
                == (Optimiser::Adam, Schedule::Constant, Start::Usual)
            && (self.clip, self.warmup) == (None, 0.0)
            && self.init.is_none();
        let optimiser = match self.optimiser {
            Optimiser::Adam => "Adam",
            Optimiser::Muon => "Muon",
        };
        let words =
            format!("{optimiser} at {:e} in {} steps{}", self.rate, grouped(self.steps), self.start.words());
        (!same).then_some(words)
    }

    /// The start, in words, where that is all that differs from the paper's recipe.
    pub fn other_start_than_the_papers(&self) -> Option<&'static str> {
        let usual = TrainingSpec { start: Start::Usual, ..self.clone() };
        (self.start != Start::Usual && usual.other_than_the_papers().is_none()).then(|| self.start.words())
    }
}

fn beta1() -> f64 {
    0.9
}
fn beta2() -> f64 {
    0.999
}
fn epsilon() -> f64 {
    1e-8
}
fn log_every() -> u64 {
    100
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How fresh weights begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// As the network's authors draw them.
    #[default]
    Usual,
    /// LSTM layers above the first begin as nearly the identity.
    PassThrough,
    /// LSTM layers above the first begin with weights that keep the size of the signal.
    UnitGain,
}

impl Start {
    /// What it begins with, to follow a recipe; nothing where that is usual.
    fn words(self) -> &'static str {
        match self {
            Start::Usual => "",
            Start::PassThrough => " from pass-through layers",
            Start::UnitGain => " from layers of unit gain",
        }
    }
}

/// What moves the weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimiser {
    /// Adam, all of them.
    #[default]
    Adam,
    /// Muon for the matrices inside the layers, Adam for the rest, both at the same rate.
    Muon,
}

/// How the learning rate changes after warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// It does not.
    #[default]
    Constant,
    /// Half a cosine from the largest rate to 0 over all steps.
    Cosine,
    /// The largest rate for the share `flat` of the steps, then a line to 0.
    Linear,
}

/// A whole number that grows during training: by `by` every `every` steps, or evenly over a share of all steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ramp {
    /// Value at step 0.
    pub start: usize,
    /// Value at the end.
    pub end: usize,
    /// Growth at a time; with `every`.
    pub by: Option<usize>,
    /// Steps between growths; with `by`.
    pub every: Option<u64>,
    /// Share of all steps after which `end` is reached; instead of `by` and `every`.
    pub over: Option<f64>,
    /// Share of all steps before it begins to grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<f64>,
}

impl Ramp {
    /// Value at a step.
    pub fn at(self, step: u64, steps: u64) -> usize {
        let held = steps as f64 * self.hold.unwrap_or(0.0);
        let growing = (step as f64 - held).max(0.0);
        let grown = match (self.by, self.every, self.over) {
            (Some(by), Some(every), _) => by.saturating_mul((growing as u64 / every.max(1)) as usize),
            (_, _, Some(over)) => {
                let share = growing / (steps as f64 * over - held).max(1.0);
                ((self.end - self.start) as f64 * share) as usize
            }
            _ => self.end - self.start,
        };
        self.start.saturating_add(grown).min(self.end)
    }

    /// The values that it takes after a step, in order; none where it has grown already.
    pub fn after(self, step: u64, steps: u64) -> Vec<usize> {
        let mut values = Vec::new();
        let (mut from, mut now) = (step, self.at(step, steps));
        while let Some(next) = first_above(from, steps, |s| self.at(s, steps) > now) {
            (from, now) = (next, self.at(next, steps));
            values.push(now);
        }
        values
    }
}

/// The first step from `low` on, before `high`, at which something that never ends begins.
fn first_above(mut low: u64, high: u64, begun: impl Fn(u64) -> bool) -> Option<u64> {
    let mut end = high;
    while low < end {
        let middle = low + (end - low) / 2;
        if begun(middle) { end = middle } else { low = middle + 1 }
    }
    (low < high).then_some(low)
}

impl TrainingSpec {
    /// How many of all steps have prompts of so many points, where the curriculum comes to that number.
    pub fn steps_with_points(&self, points: usize) -> u64 {
        let Some(ramp) = self.points else { return self.steps };
        let first = |beyond: usize| first_above(0, self.steps, |s| ramp.at(s, self.steps) >= beyond);
        let [first, end] = [points, points + 1].map(|beyond| first(beyond).unwrap_or(self.steps));
        end - first
    }

    /// Learning rate at a step.
    pub fn rate_at(&self, step: u64) -> f64 {
        let share = step as f64 / self.steps as f64;
        let warm = if self.warmup > 0.0 {
            ((step + 1) as f64 / (self.warmup * self.steps as f64)).min(1.0)
        } else {
            1.0
        };
        let decay = match self.schedule {
            Schedule::Constant => 1.0,
            Schedule::Linear => {
                let flat = self.flat.unwrap_or(0.0);
                ((1.0 - share) / (1.0 - flat)).min(1.0)
            }
            Schedule::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * share).cos()),
        };
        self.rate * warm * decay
    }

    /// Steps whose checkpoints are kept: `keep` of them, log-spaced, the last one always.
    pub fn kept_steps(&self) -> Vec<u64> {
        let last = (self.steps as f64).ln();
        let mut steps: Vec<u64> =
            (1..=self.keep).map(|i| (last * i as f64 / self.keep as f64).exp().round() as u64).collect();
        steps.dedup();
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ramps_grow_as_the_paper_says() {
        let dims = Ramp { start: 5, end: 20, by: Some(1), every: Some(2000), over: None, hold: None };
        assert_eq!(
            [0, 1999, 2000, 29_999, 30_000, 400_000].map(|s| dims.at(s, 500_001)),
            [5, 5, 6, 19, 20, 20]
        );
        let fast = Ramp { start: 5, end: 20, by: None, every: None, over: Some(0.12), hold: None };
        assert_eq!([0, 60, 120, 999].map(|s| fast.at(s, 1000)), [5, 12, 20, 20]);
        let held = Ramp { hold: Some(0.02), ..fast };
        assert_eq!([0, 20, 70, 120, 999].map(|s| held.at(s, 1000)), [5, 5, 12, 20, 20]);
    }

    #[test]
    fn steps_of_one_shape_are_counted() {
        let mut spec: TrainingSpec = toml::from_str("steps = 50001\nbatch = 1\nrate = 1e-3").unwrap();
        assert_eq!(spec.steps_with_points(41), 50_001);
        let by = Ramp { start: 11, end: 41, by: Some(2), every: Some(2000), over: None, hold: None };
        let over = Ramp { by: None, every: None, over: Some(0.3), hold: Some(0.1), ..by };
        for ramp in [by, over] {
            spec.points = Some(ramp);
            for points in (11..=41).step_by(2) {
                let counted = (0..spec.steps).filter(|&step| ramp.at(step, spec.steps) == points).count();
                assert_eq!(spec.steps_with_points(points), counted as u64, "{ramp:?} {points}");
            }
        }
        assert_eq!(
            [11, 41]
                .map(|points| TrainingSpec { points: Some(by), ..spec.clone() }.steps_with_points(points)),
            [2000, 20_001]
        );
    }

    #[test]
    fn what_a_ramp_grows_to_is_known_ahead() {
        let by = Ramp { start: 11, end: 41, by: Some(2), every: Some(2000), over: None, hold: None };
        let over = Ramp { by: None, every: None, over: Some(0.3), hold: Some(0.1), ..by };
        for (ramp, steps) in [(by, 50_001), (by, 9_000), (over, 1_000), (over, 20)] {
            for done in [0, 3, 2_000, 30_500] {
                let mut seen: Vec<usize> = (done..steps).map(|step| ramp.at(step, steps)).collect();
                seen.dedup();
                assert_eq!(
                    ramp.after(done, steps),
                    seen.get(1..).unwrap_or_default(),
                    "{ramp:?} {done} of {steps}"
                );
            }
        }
    }

    #[test]
    fn kept_steps_are_log_spaced_and_end_at_the_end() {
        let text = include_str!("../../../../../experiments/r1-fast.toml");
        let mut spec = toml::from_str::<crate::networks::experiment::Experiment>(text).unwrap().training;
        spec.keep = 20;
        let kept = spec.kept_steps();
        assert_eq!(kept.last(), Some(&spec.steps));
        assert!(kept.windows(2).all(|w| w[0] < w[1]) && kept.len() >= 15);
    }
}
