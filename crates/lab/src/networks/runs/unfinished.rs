//! Networks whose training is not over, so that nobody takes them for trained ones.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::status::{RunState, RunStatus, state};
use super::{CHECKPOINT, PLAN};
use crate::findings::numbers::grouped;
use crate::networks::experiment::Experiment;
use crate::networks::models::Card;

/// A network that was trained for some of its steps. In words: `runs/x is unfinished: step 340 of 2,000`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unfinished {
    /// Directory of the run, or the checkpoint.
    pub run: PathBuf,
    /// Steps taken.
    pub step: u64,
    /// Steps that were asked for.
    pub steps: u64,
    /// What is happening to it: `interrupted`, `running`, `failed`, or `checkpoint` for a file kept along the way.
    pub state: &'static str,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let what = match self.state {
            "running" => "is still being trained",
            "failed" => "is unfinished, as its training failed",
            _ => "is unfinished",
        };
        write!(f, "{} {what}: step {} of {}", self.run.display(), grouped(self.step), grouped(self.steps))
    }
}

impl RunState {
    /// How far the run in `dir` is, unless all its steps are done.
    pub fn unfinished(&self, dir: &Path) -> Option<Unfinished> {
        let (step, steps) = (self.progress.step, self.experiment.training.steps);
        let over = matches!(self.progress.status, RunStatus::Finished(_)) || step >= steps;
        let state = self.progress.status.word();
        (!over).then(|| Unfinished { run: dir.into(), step, steps, state })
    }
}

/// What is to be said of the weights of a run's directory or of a checkpoint, unless they are trained to the end. Networks
/// that do not say how they were trained, and shipped ones, are not known to be unfinished.
pub fn unfinished(path: &Path) -> Option<Unfinished> {
    let newest = path.file_name().is_some_and(|name| name == CHECKPOINT);
    let dir = if newest { path.parent().unwrap_or(path) } else { path };
    if dir.join(Card::FILE).is_file() {
        return None;
    }
    if dir.join(PLAN).is_file() {
        return state(dir).ok()?.unfinished(dir);
    }
    let metadata = engine::model::checkpoint::metadata(path).ok()?;
    let steps = Experiment::parse(metadata.get("experiment")?, path).ok()?.training.steps;
    let step = metadata.get("step")?.parse().ok()?;
    (step < steps).then(|| Unfinished { run: path.into(), step, steps, state: "checkpoint" })
}
