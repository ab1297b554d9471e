//! Runs are directories: the resolved plan, metrics, and checkpoints that appear whole or not at all.
//!
//! ```text
//! runs/r1-fast-0123456789abcdef/
//!   plan.toml                 what was asked for, every default written out
//!   metrics.jsonl             a row every `log_every` steps
//!   events.out.tfevents.…     the same for TensorBoard
//!   checkpoint.safetensors    weights, Adam's moments, step: the newest
//!   kept/step-000123.safetensors   weights along the training, if asked for
//!   healthy/                  a run of its own: the weights from before training broke down, if it did
//!   result.json               written when the run is finished
//!   log.txt                   a line whenever a process takes the run up or leaves it
//!   lock, lock.7              held by the process that trains it, and signed by it
//! ```
//!
//! run: trains and writes; health: whether training still works; metrics: rows of metrics.jsonl; log: log.txt; status: what a directory says to who only reads;
//! checkpoints: when they are taken and who writes them; listed: all runs of a folder; unfinished: what is said of a network
//! whose training is not over.

mod checkpoints;
mod health;
mod listed;
mod log;
mod metrics;
mod run;
mod status;
mod unfinished;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use engine::model::checkpoint::write_whole;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::networks::devices::Device;
use crate::networks::experiment::Experiment;

pub use checkpoints::CheckpointEvery;
pub use health::Breakdown;
pub use listed::{ListedRun, list};
pub use log::{LOG, failure, last_lines, note_failure, utc};
pub use metrics::{Metrics, read_metrics};
pub use run::{Run, Stopped};
pub use status::{RunProgress, RunState, RunStatus, inspect, state};
pub use unfinished::{Unfinished, unfinished};

/// How a finished run turned out, on fresh prompts of the whole task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// Steps taken.
    pub steps: u64,
    /// Prompts evaluated.
    pub prompts: usize,
    /// Mean squared error over all positions.
    pub mean_loss: f64,
    /// Bayes loss: the smallest possible one, where known.
    #[serde(rename = "bayes_floor")]
    pub bayes_loss: Option<f64>,
    /// Mean squared error over d after all pairs.
    pub last_error_over_d: f64,
    /// Mean squared error by pairs read.
    pub errors: Vec<f64>,
    /// When training broke down, if it did and did not recover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broke_down: Option<Breakdown>,
}

/// The resolved plan in a run's directory.
pub const PLAN: &str = "plan.toml";
/// The newest checkpoint in a run's directory.
pub const CHECKPOINT: &str = "checkpoint.safetensors";
/// The folder of checkpoints that are kept along the training.
pub const KEPT: &str = "kept";
/// The run as it was while training was healthy, until its end is.
pub const HEALTHY: &str = "healthy";
const RESULT: &str = "result.json";
const LOCK: &str = "lock";
/// Entry of a checkpoint's metadata.
const DEVICE: &str = "device";

/// The directory of an experiment under `root`.
pub fn directory(root: &Path, experiment: &Experiment) -> PathBuf {
    root.join(format!("{}-{}", experiment.name, experiment.hash()))
}

/// Makes the directory of an experiment under `root` and writes its plan there, before anything is trained.
pub fn announce(root: &Path, experiment: &Experiment) -> Result<PathBuf> {
    let dir = directory(root, experiment);
    std::fs::create_dir_all(&dir).map_err(Error::file("create", &dir))?;
    write_whole(&dir.join(PLAN), experiment.to_toml().as_bytes())?;
    Ok(dir)
}

/// The result of a finished run, if it is finished.
pub fn finished(dir: &Path) -> Option<RunResult> {
    serde_json::from_str(&std::fs::read_to_string(dir.join(RESULT)).ok()?).ok()
}

/// The device that an interrupted run was begun on, as its checkpoint records it; `None` without one that can be read.
pub fn recorded_device(dir: &Path) -> Option<String> {
    Some(begun_on(&engine::model::checkpoint::metadata(&dir.join(CHECKPOINT)).ok()?))
}

/// Checkpoints of the first version do not say: they are the CPU's.
fn begun_on(metadata: &BTreeMap<String, String>) -> String {
    metadata.get(DEVICE).cloned().unwrap_or_else(|| Device::Cpu.name())
}

/// Checkpoints kept along a training run, or what they predicted, with their steps, in order.
pub fn kept(dir: &Path) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(dir.join(KEPT)).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let step = name.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse().ok()?;
            Some((step, entry.path()))
        })
        .collect();
    found.sort();
    found
}
