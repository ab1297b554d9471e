//! What plans have in common: where their prompts come from, and what is a learner's own until it is built.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Learner;
use super::recorded::Recorded;
use super::steps::Steps;
use crate::data::npz::read_prompts;
use crate::data::prompts::{Prompts, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::networks::experiment::TaskSpec;
use crate::probe::NamedNetwork;

/// Stands for a learner's own steps, or its own number of prompts, until the learner is built.
pub const OWN: &str = "own";

/// A number of prompts to sample, or a file that holds them.
#[derive(Clone, Debug)]
pub enum Source {
    /// Sample so many.
    Count(usize),
    /// Read `xs` and `ys`.
    File(PathBuf),
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        match text.parse::<usize>() {
            Ok(0) => Err("accepted: at least 1 prompt, or an .npz file".into()),
            Ok(count) if count > 10_000_000 => Err("accepted: at most 10000000 prompts".into()),
            Ok(count) => Ok(Source::Count(count)),
            Err(_) if text.ends_with(".npz") => Ok(Source::File(text.into())),
            Err(_) => Err("accepted: a number of prompts, or the name of an .npz file".into()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Count(count) => write!(f, "{count}"),
            Source::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Source {
    /// Reads the field `prompts` of a plan.
    pub fn read(text: &str) -> Result<Source> {
        text.parse().map_err(|why| Error::BadData(format!("prompts '{text}': {why}")))
    }

    /// The prompts for learners of these names: sampled from a task, or those of the file. Predictions that do not say
    /// which prompts they were made for refuse sampled ones.
    pub fn prompts(&self, task: &Sampled, learners: &[&str]) -> Result<Prompts> {
        let count = match self {
            Source::File(path) => return read_prompts(path),
            Source::Count(count) => *count,
        };
        for name in learners {
            let Some(path) = name.strip_prefix("file:") else { continue };
            if Recorded::open(Path::new(path))?.warning().is_some() {
                return Err(Error::BadData(format!(
                    "{name} was made for particular prompts and has no fingerprint of them; accepted: their file, as \
                     --prompts PROMPTS.npz"
                )));
            }
        }
        Ok(task.task()?.sample(Seed(task.seed), "eval", 0, count))
    }
}

/// The distribution that prompts are sampled from, with its seed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampled {
    /// Function class.
    pub function: String,
    /// Input distribution.
    pub inputs: String,
    /// Dimension d of an input.
    pub dim: usize,
    /// Points per prompt, the query included.
    pub points: usize,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Sampled {
    /// A task with a seed.
    pub fn new(TaskSpec { function, inputs, dim, points }: TaskSpec, seed: u64) -> Sampled {
        Sampled { function, inputs, dim, points, seed }
    }

    /// The same for learners that are built for it.
    pub fn spec(&self) -> TaskSpec {
        let Sampled { function, inputs, dim, points, .. } = self.clone();
        TaskSpec { function, inputs, dim, points }
    }

    /// So many prompts of it: `linear on gaussian inputs, d=20, 64 prompts`.
    pub fn words(&self, prompts: &str) -> String {
        format!("{} on {} inputs, d={}, {prompts}", self.function, self.inputs, self.dim)
    }

    /// The task it describes.
    pub fn task(&self) -> Result<Task> {
        Task::new(&self.function, &self.inputs, self.dim, self.points)
    }
}

/// The steps that a plan writes, [`OWN`] being those of the learner.
pub fn steps(text: &str, learner: &dyn Learner) -> Result<Steps> {
    match text {
        OWN => Ok(learner.default_steps()),
        text => Steps::parse(text),
    }
}

/// What the user should know of how a network was found by its name: in a plan its name is a path.
pub fn note_on(learner: &str) -> Result<Option<String>> {
    match learner.strip_prefix("run:") {
        Some(text) => Ok(NamedNetwork::parse(text)?.found.note),
        None => Ok(None),
    }
}
