//! Two learners, however they were come by, compared by a measure.

use super::Comparison;
use super::plan::Measure;
use super::similarity::{View, induced_weights, of_predictions, of_weights};
use crate::Progress;
use crate::data::prompts::{Prompts, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::findings::numbers::counted;
use crate::learners::steps::Steps;
use crate::learners::{Learner, Predictions};

/// One of two that are compared.
#[derive(Clone, Copy)]
pub enum Compared<'a> {
    /// A learner, after some of its steps.
    Learner(&'a dyn Learner, &'a Steps),
    /// What one has predicted on the prompts.
    Predictions(Predictions<'a>),
}

/// How they are compared.
pub struct Between<'a> {
    /// A, and B, which is searched for the best match.
    pub sides: [Compared<'a>; 2],
    /// By what.
    pub measure: Measure,
    /// Fewest pairs read at a position that counts.
    pub from: usize,
    /// Of resampled prompts, and of fresh queries.
    pub seed: Seed,
}

impl Between<'_> {
    /// By errors on some prompts, with bootstrap intervals and the rate over all steps; `tell` hears what is going on.
    pub fn on(&self, prompts: &Prompts, tell: Progress) -> Result<Comparison> {
        let ask = |side: &Compared| match side {
            Compared::Predictions(_) => Ok(None),
            Compared::Learner(learner, steps) => {
                tell(&format!("{} on {} prompts", learner.id(), prompts.count()));
                learner.trajectory(prompts, steps).map(Some)
            }
        };
        let asked = [ask(&self.sides[0])?, ask(&self.sides[1])?];
        let [a, b] = [0, 1].map(|i| match (&self.sides[i], &asked[i]) {
            (_, Some(trajectory)) => trajectory.into(),
            (Compared::Predictions(predictions), None) => predictions.view(),
            (Compared::Learner(..), None) => unreachable!("asked above"),
        });
        let view = View { first: self.from };
        let map = of_predictions(a, b, prompts, view, self.measure.metric())?;
        self.resampled(Comparison::new(map), tell)
    }

    /// By induced weights on `count` prompts of a task, from `queries` fresh queries each.
    pub fn on_queries(
        &self,
        task: &Task,
        count: usize,
        queries: usize,
        tell: Progress,
    ) -> Result<Comparison> {
        if self.from == 0 || self.from >= task.points {
            let last = task.points - 1;
            let why = format!("--from {} with induced weights; accepted: 1 to {last}", self.from);
            return Err(Error::BadData(why));
        }
        let lengths = (self.from..task.points).collect();
        let questions = task.questions(self.seed, "eval", 0, count, lengths, queries);
        let weights = |side: &Compared| match side {
            Compared::Learner(learner, steps) => {
                tell(&format!("weights of {}", learner.id()));
                induced_weights(*learner, &questions, steps)
            }
            Compared::Predictions(predictions) => Err(Error::BadData(format!(
                "{} are predictions at the points of {}, and induced weights need answers to fresh queries; accepted: a \
                 learner, or measure sime or l2e",
                predictions.learner,
                counted(predictions.values.dim().1, "prompt", "prompts")
            ))),
        };
        let (a, b) = (weights(&self.sides[0])?, weights(&self.sides[1])?);
        self.resampled(Comparison::new(of_weights(&a, &b, self.measure.metric())), tell)
    }

    fn resampled(&self, found: Comparison, tell: Progress) -> Result<Comparison> {
        tell("resampling prompts");
        let found = found.resampled(self.seed);
        let left_out = found.left_out_words();
        Ok(found.noting(left_out))
    }
}
