//! Experiments: a TOML file that says what to train, on what, and how.

mod check;
mod set;
pub mod shipped;
mod slips;
mod training;

use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::data::prompts::Task;
use crate::data::seed::stable_id;
use crate::error::{Error, Result, hint};
use crate::networks::NetworkSpec;

pub use set::Change;
pub use slips::experiment_instead;
pub use training::{Optimiser, Ramp, Schedule, Start, TrainingSpec};

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

impl Experiment {
    /// Reads and checks an experiment: a file, or one that the program has inside.
    pub fn read(path: &Path) -> Result<Experiment> {
        Experiment::parse(&read_text(path)?, path)
    }

    /// Whether an experiment is there to be read.
    pub fn is_there(path: &Path) -> bool {
        path.is_file() || shipped::text(path).is_some()
    }

    /// Reads and checks the text of an experiment; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Experiment> {
        let experiment: Experiment = toml::from_str(text).map_err(|e| refused(path, text, &e))?;
        experiment.check().map_err(|e| Error::content(path, e.to_string()))?;
        Ok(experiment)
    }

    /// How much there is to compute, beside other experiments: parameters times points.
    pub fn work(&self) -> Result<f64> {
        let Experiment { task, training, .. } = self;
        let parameters = self.network.build(task.dim, task.points)?.layout().len();
        Ok(parameters as f64 * task.points as f64 * training.batch as f64 * training.steps as f64)
    }

    /// Whether it trains as another does and keeps all that the other keeps on the way: then its run is the other's, too.
    pub fn covers(&self, other: &Experiment) -> bool {
        let mut like = Experiment { name: self.name.clone(), about: self.about.clone(), ..other.clone() };
        like.training.keep = self.training.keep;
        *self == like && (other.training.keep == 0 || other.training.keep == self.training.keep)
    }

    /// Every default written out, for the plan beside the run.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("experiments are plain tables")
    }

    /// 16 hex digits that name this experiment on every machine (FNV-1a over its TOML).
    pub fn hash(&self) -> String {
        let mut named = self.clone();
        // What absence once meant: runs keep the names that they were begun under.
        named.training.checkpoint_every.get_or_insert(1000);
        format!("{:016x}", stable_id(&named.to_toml()))
    }
}

/// Why a text is no experiment, with what its author may have meant.
fn refused(path: &Path, text: &str, error: &toml::de::Error) -> Error {
    match (slips::other_kind(text, path), Error::toml(path, text, error), slips::hint_for(error.message())) {
        (Some(kind), ..) => Error::content(path, kind),
        (None, Error::Content { path, why }, Some(hint)) => {
            Error::Content { path, why: format!("{why}; {hint}") }
        }
        (None, error, _) => error,
    }
}

/// The text of an experiment or of a sweep's plan: of its file, or else of the one that the program has inside.
pub fn read_text(path: &Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) => match shipped::text(path) {
            Some(text) if error.kind() == ErrorKind::NotFound => Ok(text.into()),
            _ if error.kind() == ErrorKind::NotFound => Err(not_there(path, error)),
            _ => Err(Error::file("read", path)(error)),
        },
    }
}

/// A name without an ending may be a slip in the name of an experiment inside the program.
fn not_there(path: &Path, error: std::io::Error) -> Error {
    let name = path.to_str().filter(|name| !name.contains(['/', '.']));
    match name.map(|name| hint(name, shipped::names())) {
        Some(hint) => Error::content(
            path,
            format!("there is no such file, and no experiment of that name inside iclab; {hint}"),
        ),
        None => Error::file("read", path)(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_keep_the_names_that_they_were_begun_under() {
        let mut named = Experiment::read(Path::new("../../experiments/r1-fast.toml")).unwrap();
        named.training.steps = 3;
        assert_eq!(named.training.checkpoint_every, None);
        assert_eq!(named.hash(), "9ab1b6b03fd2a302");
        named.training.checkpoint_every = Some(500);
        assert_ne!(named.hash(), "9ab1b6b03fd2a302");
    }
}
