//! Experiments: a TOML file that says what to train, on what, and how.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::data::prompts::Task;
use crate::data::seed::fnv1a;
use crate::error::{Error, Result};
use crate::networks::NetworkSpec;

/// One training run, fully described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Short name; begins the name of the run's directory.
    pub name: String,
    /// What it is for, a sentence.
    #[serde(default)]
    pub about: String,
    /// The prompts.
    pub task: TaskSpec,
    /// The network.
    pub network: NetworkSpec,
    /// How it is trained.
    pub training: TrainingSpec,
}

/// Which prompts to train on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// Function class.
    pub function: String,
    /// Input distribution.
    pub inputs: String,
    /// Dimension d.
    pub dim: usize,
    /// Points per prompt.
    pub points: usize,
}

impl TaskSpec {
    /// The task itself.
    pub fn build(&self) -> Result<Task> {
        self.in_dims(self.dim, self.points)
    }

    /// The same task with another number of dimensions and points, as a curriculum has it.
    pub fn in_dims(&self, dim: usize, points: usize) -> Result<Task> {
        Task::new(&self.function, &self.inputs, dim, points)
    }
}

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
    /// Steps between checkpoints.
    #[serde(default = "checkpoint_every")]
    pub checkpoint_every: u64,
    /// Checkpoints that are kept along the way, spread evenly over the logarithm of the step.
    #[serde(default)]
    pub keep: usize,
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
fn checkpoint_every() -> u64 {
    1000
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
        (self.start + grown).min(self.end)
    }
}

impl TrainingSpec {
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

impl Experiment {
    /// Reads and checks an experiment.
    pub fn read(path: &Path) -> Result<Experiment> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::File {
            action: "read",
            path: path.into(),
            source,
        })?;
        Experiment::parse(&text, path)
    }

    /// Reads and checks the text of an experiment; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Experiment> {
        let experiment: Experiment = toml::from_str(text).map_err(|e| Error::toml(path, text, &e))?;
        experiment.check().map_err(|e| Error::Content { path: path.into(), why: e.to_string() })?;
        Ok(experiment)
    }

    /// Every default written out, for the plan beside the run.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("experiments are plain tables")
    }

    /// 16 hex digits that name this experiment on every machine (FNV-1a over its TOML).
    pub fn hash(&self) -> String {
        format!("{:016x}", fnv1a(&self.to_toml()))
    }

    /// Checks that the parts exist and fit together.
    pub fn check(&self) -> Result<()> {
        let bad = |field: &str, value: String, accepted: &str| {
            Err(Error::BadData(format!("field '{field}' is {value}; accepted: {accepted}")))
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.name.is_empty() || !self.name.chars().all(plain) {
            return bad("name", format!("'{}'", self.name), "letters, digits, dashes");
        }
        let TaskSpec { function, inputs, dim, points } = &self.task;
        Task::new(function, inputs, *dim, *points)?;
        self.network.build(*dim, *points)?;
        let t = &self.training;
        if t.steps == 0 {
            return bad("training.steps", "0".into(), "at least 1");
        }
        if t.batch == 0 || t.batch > 1 << 20 {
            return bad("training.batch", t.batch.to_string(), "1 to 1048576");
        }
        if t.start == Start::PassThrough && !matches!(self.network, NetworkSpec::Lstm { .. }) {
            return bad("training.start", "\"pass-through\"".into(), "\"usual\", except for an LSTM");
        }
        if t.start == Start::PassThrough && t.init.is_some() {
            return bad("training.start", "\"pass-through\"".into(), "\"usual\" where 'init' is given");
        }
        let flat = t.flat.unwrap_or(0.0);
        if t.flat.is_some() && t.schedule != Schedule::Linear {
            return bad("training.flat", flat.to_string(), "none unless 'schedule' is \"linear\"");
        }
        for (field, value, accepted, fine) in [
            ("training.rate", t.rate, "a number above 0", t.rate > 0.0 && t.rate.is_finite()),
            ("training.beta1", t.beta1, "0 to below 1", (0.0..1.0).contains(&t.beta1)),
            ("training.beta2", t.beta2, "0 to below 1", (0.0..1.0).contains(&t.beta2)),
            ("training.epsilon", t.epsilon, "a number above 0", t.epsilon > 0.0),
            ("training.warmup", t.warmup, "0 to 1", (0.0..=1.0).contains(&t.warmup)),
            ("training.flat", flat, "0 to below 1", (0.0..1.0).contains(&flat)),
            ("training.clip", t.clip.unwrap_or(1.0), "a number above 0", t.clip.is_none_or(|c| c > 0.0)),
        ] {
            if !fine {
                return bad(field, value.to_string(), accepted);
            }
        }
        for (field, every) in
            [("training.log_every", t.log_every), ("training.checkpoint_every", t.checkpoint_every)]
        {
            if every == 0 {
                return bad(field, "0".into(), "at least 1");
            }
        }
        for (field, ramp, largest) in
            [("training.dims", t.dims, *dim), ("training.points", t.points, *points)]
        {
            let Some(ramp) = ramp else { continue };
            if ramp.start == 0 || ramp.start > ramp.end || ramp.end != largest {
                let value = format!("{} to {}", ramp.start, ramp.end);
                return bad(field, value, &format!("from at least 1 up to the task's {largest}"));
            }
            let grows = matches!((ramp.by, ramp.every), (Some(1..), Some(1..)));
            let spreads = ramp.over.is_some_and(|o| o > 0.0 && o <= 1.0);
            if ramp.hold.is_some_and(|hold| !(0.0..ramp.over.unwrap_or(1.0)).contains(&hold)) {
                let value = format!("held for {}", ramp.hold.unwrap_or_default());
                return bad(field, value, "'hold' from 0 to below 'over'");
            }
            if grows == spreads {
                return bad(
                    field,
                    "unclear".into(),
                    "either 'by' and 'every', or 'over' (a share of the steps, above 0)",
                );
            }
        }
        if let Some(ramp) = t.dims {
            Task::new(function, inputs, ramp.start, *points)?; // the class must exist in the first dimension too
        }
        Ok(())
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
    fn kept_steps_are_log_spaced_and_end_at_the_end() {
        let text = include_str!("../../../../experiments/r1-fast.toml");
        let mut spec = toml::from_str::<Experiment>(text).unwrap().training;
        spec.keep = 20;
        let kept = spec.kept_steps();
        assert_eq!(kept.last(), Some(&spec.steps));
        assert!(kept.windows(2).all(|w| w[0] < w[1]) && kept.len() >= 15);
    }
}
