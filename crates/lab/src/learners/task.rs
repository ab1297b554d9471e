//! What learners say about the prompts they are made for: a run knows its task, weights know their size.

use std::path::Path;

use crate::constructions::file;
use crate::error::{Error, Result};
use crate::networks::experiment::{Experiment, TaskSpec};
use crate::networks::runs::PLAN;
use crate::probe::{self, NamedNetwork};

/// A task, each part of it where somebody said it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownTask {
    /// Function class.
    pub function: Option<String>,
    /// Input distribution.
    pub inputs: Option<String>,
    /// Dimension d.
    pub dim: Option<usize>,
    /// Points per prompt.
    pub points: Option<usize>,
}

impl From<TaskSpec> for KnownTask {
    fn from(TaskSpec { function, inputs, dim, points }: TaskSpec) -> KnownTask {
        KnownTask { function: Some(function), inputs: Some(inputs), dim: Some(dim), points: Some(points) }
    }
}

impl KnownTask {
    /// What it does not say is taken from `other`.
    pub fn or(self, other: KnownTask) -> KnownTask {
        KnownTask {
            function: self.function.or(other.function),
            inputs: self.inputs.or(other.inputs),
            dim: self.dim.or(other.dim),
            points: self.points.or(other.points),
        }
    }

    /// What it does not say is that of the paper: linear functions of 20 isotropic inputs, 41 points.
    pub fn or_usual(self) -> TaskSpec {
        let usual = probe::usual_task(20);
        TaskSpec {
            function: self.function.unwrap_or(usual.function),
            inputs: self.inputs.unwrap_or(usual.inputs),
            dim: self.dim.unwrap_or(usual.dim),
            points: self.points.unwrap_or(usual.points),
        }
    }

    /// The task on which two learners can be compared: what is asked for, then what they say. Where they say different
    /// things, somebody must ask for one.
    pub fn of_both(self, [a, b]: [&str; 2]) -> Result<KnownTask> {
        let (of_a, of_b) = (task_of(a)?, task_of(b)?);
        let agreed = |field: &str, given: bool, said: [Option<String>; 2]| match said {
            [Some(one), Some(other)] if !given && one != other => Err(Error::BadData(format!(
                "{a} has {field} {one} and {b} has {field} {other}; accepted: the one to compare them on, as --{field}"
            ))),
            _ => Ok(()),
        };
        let words = |of: fn(&KnownTask) -> Option<String>| [of(&of_a), of(&of_b)];
        agreed("function", self.function.is_some(), words(|t| t.function.clone()))?;
        agreed("inputs", self.inputs.is_some(), words(|t| t.inputs.clone()))?;
        agreed("dim", self.dim.is_some(), words(|t| t.dim.map(|d| d.to_string())))?;
        agreed("points", self.points.is_some(), words(|t| t.points.map(|n| n.to_string())))?;
        Ok(self.or(of_a).or(of_b))
    }
}

/// What the learner of a name says about its prompts: a run what it was trained on, other weights what they can hold, an
/// algorithm nothing.
pub fn task_of(name: &str) -> Result<KnownTask> {
    match name.split_once(':') {
        Some(("construct", path)) => {
            let recipe = file::read(Path::new(path))?.recipe;
            Ok(KnownTask { dim: Some(recipe.dim), points: Some(recipe.pairs + 1), ..KnownTask::default() })
        }
        Some(("run", text)) => {
            let path = NamedNetwork::parse(text)?.found.path;
            match path.join(PLAN).is_file() {
                true => Ok(Experiment::read(&path.join(PLAN))?.task.into()),
                false => Ok(probe::load(&path)?.known_task().into()),
            }
        }
        _ => Ok(KnownTask::default()),
    }
}
