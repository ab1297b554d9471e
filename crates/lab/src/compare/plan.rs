//! A comparison of two learners by name, with every default written out: the `plan.toml` of `iclab compare`.

use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Comparison;
use super::similarity::{Metric, View, induced_weights, of_errors, of_weights};
use crate::Progress;
use crate::data::npz::read_prompts;
use crate::data::prompts::{Prompts, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::learners::steps::Steps;
use crate::learners::{self, Learner};

/// How learners are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Cosine of errors.
    Sime,
    /// Cosine of induced weights.
    Simw,
    /// Root mean square difference of errors.
    L2e,
    /// Root mean square difference of induced weights.
    L2w,
}

impl Measure {
    /// Every measure with its name and what it is.
    pub const ALL: [(Measure, &str, &str); 4] = [
        (Measure::Sime, "sime", "Cosine of errors"),
        (Measure::Simw, "simw", "Cosine of induced weights"),
        (Measure::L2e, "l2e", "Root mean square difference of errors"),
        (Measure::L2w, "l2w", "Root mean square difference of induced weights"),
    ];

    fn metric(self) -> Metric {
        match self {
            Measure::Sime | Measure::Simw => Metric::Cosine,
            Measure::L2e | Measure::L2w => Metric::Distance,
        }
    }
}

impl FromStr for Measure {
    type Err = Error;

    fn from_str(text: &str) -> Result<Measure> {
        let names = || Measure::ALL.map(|(_, name, _)| name).join(", ");
        let found = Measure::ALL.iter().find(|(_, name, _)| *name == text);
        found
            .map(|(measure, ..)| *measure)
            .ok_or_else(|| Error::BadData(format!("measure '{text}' is unknown; accepted: {}", names())))
    }
}

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
    /// The task it describes.
    pub fn task(&self) -> Result<Task> {
        Task::new(&self.function, &self.inputs, self.dim, self.points)
    }
}

/// Stands for a learner's own steps until the learner is built.
pub const OWN_STEPS: &str = "own";

/// What is compared, and on which prompts.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// `compare`.
    pub command: String,
    /// Learner A, by name.
    pub a: String,
    /// Learner B, which is searched for the best match.
    pub b: String,
    /// Steps of A; [`OWN_STEPS`] until [`Plan::run`] writes them out.
    pub steps_a: String,
    /// Steps of B, likewise.
    pub steps_b: String,
    /// Number of prompts, or the name of an .npz file.
    pub prompts: String,
    /// How they are compared.
    pub measure: Measure,
    /// Fewest pairs read at a position that counts.
    pub from: usize,
    /// Queries per prompt for induced weights.
    pub queries: usize,
    /// Where prompts are sampled from.
    pub task: Sampled,
}

impl Plan {
    /// Its prompts, if the learners can be asked them.
    pub fn source(&self) -> Result<Source> {
        let bad = |why| Error::BadData(format!("prompts '{}': {why}", self.prompts));
        let source: Source = self.prompts.parse().map_err(bad)?;
        let recorded = [&self.a, &self.b].into_iter().find(|s| s.starts_with("file:"));
        match (&source, recorded) {
            (Source::Count(_), Some(side)) => Err(Error::BadData(format!(
                "{side} was made for particular prompts; accepted: their file, as --prompts PROMPTS.npz"
            ))),
            _ => Ok(source),
        }
    }

    /// Compares, with bootstrap intervals and the rate over all steps. Writes the steps out that were the learners' own, and
    /// returns what the user should know beside the result; `tell` hears what is going on.
    pub fn run(&mut self, tell: Progress) -> Result<(Comparison, Vec<String>)> {
        let source = self.source()?;
        let a = learners::build(&self.a, tell)?;
        let b = learners::build(&self.b, tell)?;
        let own = |text: &str, learner: &dyn Learner| match text {
            OWN_STEPS => Ok(learner.default_steps()),
            text => Steps::parse(text),
        };
        let steps = [own(&self.steps_a, &*a.learner)?, own(&self.steps_b, &*b.learner)?];
        [self.steps_a, self.steps_b] = steps.clone().map(|steps| steps.to_string());
        let sides = [(&*a.learner, &steps[0]), (&*b.learner, &steps[1])];
        let found = match self.measure {
            Measure::Sime | Measure::L2e => self.by_errors(&source, sides, tell)?,
            Measure::Simw | Measure::L2w => self.by_weights(&source, sides, tell)?,
        };
        tell("resampling prompts");
        Ok((found.resampled(Seed(self.task.seed)), [a.notes, b.notes].concat()))
    }

    fn by_errors(&self, source: &Source, sides: Sides, tell: Progress) -> Result<Comparison> {
        let prompts: Prompts = match source {
            Source::Count(count) => self.task.task()?.sample(Seed(self.task.seed), "eval", 0, *count),
            Source::File(path) => read_prompts(path)?,
        };
        let [a, b] = sides.map(|(learner, steps)| {
            tell(&format!("{} on {} prompts", learner.id(), prompts.count()));
            learner.trajectory(&prompts, steps)
        });
        let view = View { first: self.from };
        Ok(Comparison::new(of_errors(&a?, &b?, &prompts, view, self.measure.metric())?))
    }

    fn by_weights(&self, source: &Source, sides: Sides, tell: Progress) -> Result<Comparison> {
        let Source::Count(count) = source else {
            return Err(Error::BadData(format!(
                "induced weights need fresh queries from the distribution of the prompts, which the file {} does not tell; \
                 accepted: --prompts COUNT, or --measure sime or l2e",
                self.prompts
            )));
        };
        let task = self.task.task()?;
        if self.from == 0 || self.from >= task.points {
            let last = task.points - 1;
            let why = format!("--from {} with induced weights; accepted: 1 to {last}", self.from);
            return Err(Error::BadData(why));
        }
        let lengths = (self.from..task.points).collect();
        let questions = task.questions(Seed(self.task.seed), "eval", 0, *count, lengths, self.queries);
        let [a, b] = sides.map(|(learner, steps)| {
            tell(&format!("weights of {}", learner.id()));
            induced_weights(learner, &questions, steps)
        });
        Ok(Comparison::new(of_weights(&a?, &b?, self.measure.metric())))
    }
}

type Sides<'a> = [(&'a dyn Learner, &'a Steps); 2];
