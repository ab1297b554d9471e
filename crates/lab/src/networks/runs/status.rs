//! What a run's directory says about it, to anyone who only reads.

use std::path::Path;

use super::{CHECKPOINT, LOCK, PLAN, RunResult, failure, finished, log, read_metrics, recorded_device};
use crate::error::{Error, Result};
use crate::lock::{self, Attempt, Lock, Owner};
use crate::networks::experiment::Experiment;
use crate::networks::pace::Work;

/// A run's directory: what was asked for, and how far it is.
#[derive(Clone, Debug)]
pub struct RunState {
    /// What was asked for.
    pub experiment: Experiment,
    /// How far it is.
    pub progress: RunProgress,
}

/// Reads a run's directory; without a plan that can be read it is no run.
pub fn state(dir: &Path) -> Result<RunState> {
    let experiment = Experiment::read(&dir.join(PLAN))?;
    let progress = inspect(dir, &experiment);
    Ok(RunState { experiment, progress })
}

/// How far a run is.
#[derive(Clone, Debug)]
pub struct RunProgress {
    /// What is happening to it.
    pub status: RunStatus,
    /// Steps that are safe: after the last checkpoint, or of the last row of metrics while it is being trained.
    pub step: u64,
    /// Loss in the last row of metrics.
    pub loss: Option<f64>,
    /// Seconds that the steps left will take at the pace of the last rows.
    pub seconds_left: Option<f64>,
}

/// What is happening to a run.
#[derive(Clone, Debug)]
pub enum RunStatus {
    /// Nobody has begun it.
    NotBegun,
    /// A process is training it.
    Running,
    /// It was begun and nobody is training it.
    Interrupted,
    /// It ended with an error, and why.
    Failed(String),
    /// It is done.
    Finished(RunResult),
}

impl RunStatus {
    /// In one word.
    pub fn word(&self) -> &'static str {
        match self {
            RunStatus::NotBegun => "not begun",
            RunStatus::Running => "running",
            RunStatus::Interrupted => "interrupted",
            RunStatus::Failed(_) => "failed",
            RunStatus::Finished(_) => "finished",
        }
    }
}

/// Looks at a run's directory. What cannot be read counts as not there.
pub fn inspect(dir: &Path, experiment: &Experiment) -> RunProgress {
    let rows = read_metrics(dir).unwrap_or_default();
    let last = rows.last();
    let saved = engine::model::checkpoint::metadata(&dir.join(CHECKPOINT)).ok();
    let saved = saved.and_then(|metadata| metadata.get("step")?.parse().ok());
    let status = match finished(dir) {
        Some(result) => RunStatus::Finished(result),
        None if lock::holder(&dir.join(LOCK)).is_some() => RunStatus::Running,
        None => match failure(dir) {
            Some(why) => RunStatus::Failed(why),
            None if saved.is_some() || dir.is_dir() => RunStatus::Interrupted,
            None => RunStatus::NotBegun,
        },
    };
    let reached = last.map_or(0, |row| row.step);
    let step = match &status {
        RunStatus::Finished(result) => result.steps,
        RunStatus::Running => reached.max(saved.unwrap_or(0)),
        _ => saved.unwrap_or(0),
    };
    // The pace of the last rows, all of them the last process's own: each counts its seconds from 0.
    let own = rows.windows(2).rposition(|two| two[1].seconds < two[0].seconds).map_or(0, |i| i + 1);
    let recent = &rows[own.max(rows.len().saturating_sub(6))..];
    let work = Work::of(experiment, &recorded_device(dir).unwrap_or_default());
    let pace = recent.first().zip(recent.last()).and_then(|(first, last)| {
        let seconds = last.seconds - first.seconds;
        (last.step > first.step && seconds > 0.0).then(|| seconds / work.between(first.step, last.step))
    });
    let left = work.after(step);
    let seconds_left = pace.map(|pace| pace * left).filter(|_| !matches!(status, RunStatus::Finished(_)));
    RunProgress { status, step, loss: last.map(|row| row.loss), seconds_left }
}

/// Takes the lock of a run for this process.
pub(super) fn lock(dir: &Path) -> Result<Lock> {
    match lock::take(&dir.join(LOCK))? {
        Attempt::Busy(_) => Err(Error::Busy(dir.into())),
        Attempt::Taken(lock) => {
            let elsewhere = |owner: &&Owner| !owner.shares_kernel(&Owner::this());
            if let Some(owner) = lock.taken_from.as_ref().filter(elsewhere) {
                log::note(dir, &format!("taken over from {owner}, of which nothing was heard any more"));
            }
            Ok(lock)
        }
    }
}
