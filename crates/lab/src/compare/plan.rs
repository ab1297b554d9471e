//! A comparison of two learners by name, with every default written out: the `plan.toml` of `iclab compare`.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Comparison;
use super::between::{Between, Compared};
use super::constructed::as_constructed;
use super::similarity::Metric;
use crate::Progress;
use crate::data::prompts::Prompts;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::findings::numbers::counted;
use crate::learners;
use crate::learners::planned::{self, OWN, Sampled, Source};
use crate::learners::steps::Steps;
use crate::learners::task::KnownTask;
use crate::networks::experiment::TaskSpec;
use crate::registry::one_of;

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

    pub(super) fn metric(self) -> Metric {
        match self {
            Measure::Sime | Measure::Simw => Metric::Cosine,
            Measure::L2e | Measure::L2w => Metric::Distance,
        }
    }
}

impl FromStr for Measure {
    type Err = Error;

    fn from_str(text: &str) -> Result<Measure> {
        one_of("measure", text, &Measure::ALL)
    }
}

/// What is to be compared, as somebody asks for it; [`Plan::new`] writes out what is left open.
pub struct Wish {
    /// Learner A, by name.
    pub a: String,
    /// Learner B, by name.
    pub b: String,
    /// Steps of A; its own when absent.
    pub steps_a: Option<Steps>,
    /// Steps of B; its own when absent.
    pub steps_b: Option<Steps>,
    /// How many prompts, or which.
    pub prompts: Source,
    /// How they are compared.
    pub measure: Measure,
    /// Fewest pairs read at a position that counts.
    pub from: usize,
    /// Queries per prompt for induced weights; ten per dimension when absent.
    pub queries: Option<usize>,
    /// What is asked for of the task; the rest is what the learners know, or the paper's.
    pub task: KnownTask,
    /// Seed of all random numbers.
    pub seed: u64,
}

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
    /// Steps of A; [`OWN`] until [`Plan::run`] writes them out.
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
    /// A comparison with every default written out: learners by their full names, the task that they know where none is
    /// asked for, the settings that a constructed algorithm has. Also what the user should know of that, in full sentences.
    pub fn new(wish: Wish) -> Result<(Plan, Vec<String>)> {
        let Wish { a, b, steps_a, steps_b, prompts, measure, from, queries, task, seed } = wish;
        let ([a, b], mut notes) = as_constructed([a, b])?;
        for name in [&a, &b] {
            notes.extend(planned::note_on(name)?);
        }
        let [a, b] = [learners::resolve(&a)?, learners::resolve(&b)?];
        let task = Sampled::new(task.of_both([&a, &b])?.or_usual(), seed);
        let plan = Plan {
            command: "compare".into(),
            a,
            b,
            steps_a: steps_a.map_or(OWN.into(), |steps| steps.to_string()),
            steps_b: steps_b.map_or(OWN.into(), |steps| steps.to_string()),
            prompts: prompts.to_string(),
            measure,
            from,
            queries: queries.unwrap_or(10 * task.dim),
            task,
        };
        Ok((plan, notes))
    }

    fn source(&self) -> Result<Source> {
        Source::read(&self.prompts)
    }

    /// Its prompts for a comparison of errors: sampled, or those of its file.
    fn prompts(&self) -> Result<Prompts> {
        self.source()?.prompts(&self.task, &[&self.a, &self.b])
    }

    /// Compares, with bootstrap intervals and the rate over all steps. Writes the steps out that were the learners' own;
    /// `tell` hears what is going on.
    pub fn run(&mut self, tell: Progress) -> Result<Comparison> {
        let by_errors = matches!(self.measure, Measure::Sime | Measure::L2e);
        let prompts = by_errors.then(|| self.prompts()).transpose()?;
        let (dim, points) =
            prompts.as_ref().map_or((self.task.dim, self.task.points), |p| (p.dim(), p.points()));
        let asked = TaskSpec { dim, points, ..self.task.spec() };
        let a = learners::build_for(&self.a, Some(&asked), tell)?;
        let b = learners::build_for(&self.b, Some(&asked), tell)?;
        let steps =
            [planned::steps(&self.steps_a, &*a.learner)?, planned::steps(&self.steps_b, &*b.learner)?];
        [self.steps_a, self.steps_b] = steps.clone().map(|steps| steps.to_string());
        let between = Between {
            sides: [Compared::Learner(&*a.learner, &steps[0]), Compared::Learner(&*b.learner, &steps[1])],
            measure: self.measure,
            from: self.from,
            seed: Seed(self.task.seed),
        };
        let found = match &prompts {
            Some(prompts) => between.on(prompts, tell)?,
            None => between.on_queries(&self.task.task()?, self.count()?, self.queries, tell)?,
        };
        let notes = [a.notes, b.notes, found.notes.clone()].concat();
        let data = self.data(found.map.prompts());
        Ok(Comparison { notes, data, ..found })
    }

    /// How many prompts are asked fresh queries.
    fn count(&self) -> Result<usize> {
        match self.source()? {
            Source::Count(count) => Ok(count),
            Source::File(_) => Err(Error::BadData(format!(
                "induced weights need fresh queries from the distribution of the prompts, which the file {} does not tell; \
                 accepted: --prompts COUNT, or --measure sime or l2e",
                self.prompts
            ))),
        }
    }

    /// What is compared on, in words.
    fn data(&self, prompts: usize) -> String {
        let prompts = counted(prompts, "prompt", "prompts");
        match self.prompts.ends_with(".npz") {
            true => format!("{prompts} of {}", self.prompts),
            false => self.task.words(&prompts),
        }
    }
}
