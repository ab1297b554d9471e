//! What a run's directory says about it, to anyone who only reads.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use super::{CHECKPOINT, LOCK, RunResult, failure, file_error, finished, read_metrics};
use crate::error::{Error, Result};
use crate::networks::experiment::Experiment;

/// How far a run is.
#[derive(Clone, Debug)]
pub struct Standing {
    /// What is happening to it.
    pub state: State,
    /// Steps that are safe: after the last checkpoint, or of the last row of metrics while it is being trained.
    pub step: u64,
    /// Loss in the last row of metrics.
    pub loss: Option<f64>,
    /// Seconds that the steps left will take at the pace of the last rows.
    pub seconds_left: Option<f64>,
}

/// What is happening to a run.
#[derive(Clone, Debug)]
pub enum State {
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

impl State {
    /// In one word.
    pub fn word(&self) -> &'static str {
        match self {
            State::NotBegun => "not begun",
            State::Running => "running",
            State::Interrupted => "interrupted",
            State::Failed(_) => "failed",
            State::Finished(_) => "finished",
        }
    }
}

/// Looks at a run's directory. What cannot be read counts as not there.
pub fn look(dir: &Path, experiment: &Experiment) -> Standing {
    let rows = read_metrics(dir).unwrap_or_default();
    let last = rows.last();
    let saved = engine::model::checkpoint::metadata(&dir.join(CHECKPOINT)).ok();
    let saved = saved.and_then(|metadata| metadata.get("step")?.parse().ok());
    let state = match finished(dir) {
        Some(result) => State::Finished(result),
        None if is_open(dir) => State::Running,
        None => match failure(dir) {
            Some(why) => State::Failed(why),
            None if saved.is_some() || dir.is_dir() => State::Interrupted,
            None => State::NotBegun,
        },
    };
    let reached = last.map_or(0, |row| row.step);
    let step = match &state {
        State::Finished(result) => result.steps,
        State::Running => reached.max(saved.unwrap_or(0)),
        _ => saved.unwrap_or(0),
    };
    // The pace of the last rows alone: a curriculum makes later steps slower, and a resumed process counts from 0.
    let recent = &rows[rows.len().saturating_sub(6)..];
    let pace = recent.first().zip(recent.last()).and_then(|(first, last)| {
        let (steps, seconds) = (last.step - first.step, last.seconds - first.seconds);
        (steps > 0 && seconds > 0.0).then(|| seconds / steps as f64)
    });
    let left = experiment.training.steps.saturating_sub(step) as f64;
    let seconds_left = pace.map(|pace| pace * left).filter(|_| !matches!(state, State::Finished(_)));
    Standing { state, step, loss: last.map(|row| row.loss), seconds_left }
}

/// Whether a process holds the lock of a run. Asking takes it for a moment, which [`lock`] forgives.
fn is_open(dir: &Path) -> bool {
    let Ok(file) = File::open(dir.join(LOCK)) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Takes the lock of a run for this process; it ends with the process, however that ends.
pub(super) fn lock(dir: &Path) -> Result<File> {
    const TRIES: u32 = 20;
    let path = dir.join(LOCK);
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(file_error("create", &path))?;
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(50)),
            Err(TryLockError::Error(source)) => return Err(Error::File { action: "lock", path, source }),
        }
    }
    Err(Error::Busy(dir.into()))
}
