//! Plans of sweeps: TOML → points, each a whole experiment.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::axes::{Axis, assign, axes};
use crate::data::prompts::Task;
use crate::data::seed::stable_id;
use crate::error::{Error, Result};
use crate::networks::experiment::{self, Experiment};
use crate::networks::runs;

/// The field over which means are taken.
pub const SEED: &str = "training.seed";
/// Most points of a sweep.
const MOST_POINTS: usize = 10_000;

/// A sweep, resolved: what is stored beside it and what tasks on other machines read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Short name; part of the directory's name.
    pub name: String,
    /// What it is for, a sentence.
    pub about: String,
    /// The fields that are changed, in the order of the points' values; the seed is the last and varies fastest.
    pub fields: Vec<String>,
    /// When a run counts as good, for the time it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
    /// What the networks are tested on besides their own task.
    #[serde(default)]
    pub test: Test,
    /// How jobs are submitted.
    #[serde(default)]
    pub slurm: Slurm,
    /// Every point.
    pub points: Vec<Point>,
}

/// One point of a sweep.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Values of the sweep's fields.
    pub values: Vec<Value>,
    /// The run.
    pub experiment: Experiment,
}

/// When a run counts as good: a row of metrics, over the whole task, at or below one of these.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// Loss above the smallest possible one.
    pub excess: Option<f64>,
    /// Loss.
    pub loss: Option<f64>,
}

/// What the networks of a sweep are tested on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Test {
    /// Input distributions.
    pub inputs: Vec<String>,
}

/// The `[slurm]` table: how an array job is submitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Slurm {
    /// `--partition`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// `--account`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// `--time` of one task: `04:00:00`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// `--gres`: `gpu:1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gres: Option<String>,
    /// `--cpus-per-task`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// `--mem`: `8G`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Tasks at once: the part of `--array` after `%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<u32>,
    /// Seconds before the time limit at which a task saves and is queued again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<u32>,
    /// Further arguments of sbatch, as they are; the last word where two disagree.
    pub directives: Vec<String>,
    /// Lines of shell that prepare a task: `module load cuda`.
    pub setup: Vec<String>,
}

/// A plan as its author writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    name: String,
    #[serde(default)]
    about: String,
    /// The experiment that all points share, relative to the plan's file.
    base: PathBuf,
    /// Fields that differ from the base in all points.
    #[serde(default)]
    set: Table,
    axes: Table,
    quality: Option<Quality>,
    #[serde(default)]
    test: Test,
    #[serde(default)]
    slurm: Slurm,
}

impl Point {
    /// Its run directory under `root`.
    pub fn dir(&self, root: &Path) -> PathBuf {
        runs::directory(root, &self.experiment)
    }
}

impl Sweep {
    /// Reads a plan, makes its points and checks every one of them.
    pub fn read(path: &Path) -> Result<Sweep> {
        let text = experiment::read_text(path)?;
        let file: PlanFile =
            toml::from_str(&text).map_err(|e| match experiment::experiment_instead(&text, path) {
                Some(why) => Error::content(path, why),
                None => Error::toml(path, &text, &e),
            })?;
        let base = path.parent().unwrap_or(Path::new("")).join(&file.base);
        let experiment = Experiment::read(&base)?;
        let sweep = file.resolve(&experiment);
        sweep.map_err(|why| Error::content(path, why))
    }

    /// Reads a sweep that was stored resolved, as [`Sweep::to_toml`] writes it.
    pub fn stored(path: &Path) -> Result<Sweep> {
        let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
        toml::from_str(&text)
            .map_err(|e| Error::content(path, format!("{}; accepted: what iclab sweep wrote", e.message())))
    }

    /// Every point written out.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("sweeps are plain tables")
    }

    /// Its directory under `root`, beside its runs. Named by its runs alone: how jobs are submitted and what is
    /// collected may change.
    pub fn dir(&self, root: &Path) -> PathBuf {
        let hashes: Vec<String> = self.points.iter().map(|point| point.experiment.hash()).collect();
        root.join(format!("sweep-{}-{:016x}", self.name, stable_id(&hashes.join(" "))))
    }

    /// A point in words: `network.width=8, training.seed=0`.
    pub fn label(&self, point: &Point) -> String {
        label(&self.fields, &point.values)
    }

    /// A point in words, its seed left out: what the points of one group share.
    pub fn group(&self, point: &Point) -> String {
        let shared = self.fields.iter().zip(&point.values).filter(|(field, _)| *field != SEED);
        let (fields, values): (Vec<_>, Vec<_>) = shared.map(|(f, v)| (f.clone(), v.clone())).unzip();
        if fields.is_empty() { "all".into() } else { label(&fields, &values) }
    }
}

fn label(fields: &[String], values: &[Value]) -> String {
    let parts: Vec<String> = fields.iter().zip(values).map(|(f, v)| format!("{f}={}", plain(v))).collect();
    parts.join(", ")
}

/// A value without the quotes of TOML.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

impl PlanFile {
    fn resolve(self, experiment: &Experiment) -> Result<Sweep, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.name.is_empty() || !self.name.chars().all(allowed) {
            return Err(format!("field 'name' is '{}'; accepted: letters, digits, dashes", self.name));
        }
        if let Some(Quality { excess, loss }) = self.quality
            && (excess.is_some() == loss.is_some() || !excess.or(loss).is_some_and(f64::is_finite))
        {
            return Err("table 'quality' is unclear; accepted: either 'excess' or 'loss', a number".into());
        }
        if self.slurm.throttle == Some(0) || self.slurm.cpus == Some(0) {
            return Err(
                "a number in table 'slurm' is 0; accepted: 'throttle' and 'cpus' of at least 1".into()
            );
        }
        let mut table: Table = experiment.to_toml().parse().expect("an experiment is a table");
        for (key, value) in &self.set {
            assign(&mut table, key, value).map_err(|why| format!("table 'set': {why}"))?;
        }
        let mut axes = axes(&self.axes)?;
        axes.sort_by_key(|axis| axis.field == SEED);
        overlap(&axes)?;
        let count = axes.iter().try_fold(1usize, |n, axis| n.checked_mul(axis.values.len()));
        let Some(count) = count.filter(|&n| n <= MOST_POINTS) else {
            return Err(format!("the axes make more than {MOST_POINTS} points; accepted: fewer"));
        };
        // Every axis alone first: a message about a field should name that field and not a point.
        for axis in &axes {
            let mut tried = table.clone();
            assign(&mut tried, &axis.field, &axis.values[0]).and_then(|()| parse(tried)).map_err(|why| {
                format!("axis '{}': {why}; accepted: any field of an experiment", axis.field)
            })?;
        }
        let fields: Vec<String> = axes.iter().map(|axis| axis.field.clone()).collect();
        let points = (0..count).map(|i| point(&table, &axes, i)).collect::<Result<Vec<Point>, String>>()?;
        let mut seen: HashMap<String, &Point> = HashMap::new();
        for point in &points {
            if let Some(other) = seen.insert(point.experiment.hash(), point) {
                return Err(format!(
                    "the points {} and {} have the same plan; accepted: each run once",
                    label(&fields, &other.values),
                    label(&fields, &point.values)
                ));
            }
            for inputs in &self.test.inputs {
                let task = &point.experiment.task;
                Task::new(&task.function, inputs, task.dim, task.points)
                    .map_err(|e| format!("field 'test.inputs': {e}"))?;
            }
        }
        let PlanFile { name, about, quality, test, slurm, .. } = self;
        Ok(Sweep { name, about, fields, quality, test, slurm, points })
    }
}

/// Two axes may not change the same field.
fn overlap(axes: &[Axis]) -> Result<(), String> {
    for (i, one) in axes.iter().enumerate() {
        for other in &axes[..i] {
            let (long, short) = if one.field.len() > other.field.len() { (one, other) } else { (other, one) };
            let inside = long
                .field
                .strip_prefix(&short.field)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            if inside {
                return Err(format!(
                    "the axes '{}' and '{}' change the same field; accepted: one axis for a field",
                    short.field, long.field
                ));
            }
        }
    }
    Ok(())
}

/// Point number `i`, the last axis varying fastest.
fn point(base: &Table, axes: &[Axis], i: usize) -> Result<Point, String> {
    let mut left = i;
    let mut values: Vec<Value> = axes
        .iter()
        .rev()
        .map(|axis| {
            let value = axis.values[left % axis.values.len()].clone();
            left /= axis.values.len();
            value
        })
        .collect();
    values.reverse();
    let mut table = base.clone();
    let fields: Vec<String> = axes.iter().map(|axis| axis.field.clone()).collect();
    let named = |why: String| format!("point {}: {why}", label(&fields, &values));
    for (axis, value) in axes.iter().zip(&values) {
        assign(&mut table, &axis.field, value).map_err(named)?;
    }
    let experiment = parse(table).map_err(named)?;
    experiment.check().map_err(|e| named(e.to_string()))?;
    Ok(Point { values, experiment })
}

fn parse(table: Table) -> Result<Experiment, String> {
    table.try_into().map_err(|e: toml::de::Error| e.message().to_string())
}
