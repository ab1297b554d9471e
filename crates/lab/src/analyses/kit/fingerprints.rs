//! Fingerprints of networks and algorithms by name, for rows.

use super::lab::{Data, Lab};
use super::setting::{Baseline, Setting};
use crate::error::{Error, Result};
use crate::fingerprint::{AfterPairs, Asked, Candidate, Fingerprint, Naming, Options, Scale};
use crate::learners::Learner;
use crate::stats::Estimate;

/// Prompts that are asked fresh queries.
pub const PROMPTS: usize = 256;

/// Newton's iteration from M = ηI, η = 1/‖S‖_F.
pub const FROM_IDENTITY: Baseline = Baseline::new("Newton from I", "newton:start=identity", "0..=20");

/// The algorithms that the network of a setting is held against: Newton from both starts, and gradient descent after any number
/// of steps.
pub fn among(setting: &Setting) -> [Baseline; 3] {
    [FROM_IDENTITY, Baseline { label: "Newton from S", ..setting.newton }, setting.gd]
}

/// A fingerprint, and where its learner stands among some algorithms.
pub struct Taken {
    /// The fingerprint.
    pub fingerprint: Fingerprint,
    /// Its place among the algorithms.
    pub naming: Naming,
    /// The filters `[l][s][k]` of each of them, at its best step for each step of the learner.
    pub theirs: Vec<Vec<Vec<Vec<f64>>>>,
    /// Whether it comes from one query per prompt, because only predictions are kept.
    pub recorded: bool,
}

impl Lab {
    /// The first evaluation prompts with d fresh queries each, after each of `lengths` pairs.
    pub fn asked(&self, data: &Data, lengths: &[usize]) -> Result<Asked> {
        let count = self.count.min(PROMPTS);
        let questions = data.task()?.questions(self.seed, "eval", 0, count, lengths.to_vec(), data.dim);
        Asked::fresh(questions, Scale::One)
    }

    /// The fingerprint of a setting's network among [`among`], by fresh queries or, where only its predictions are kept, by the
    /// next point of every evaluation prompt.
    pub fn fingerprint(&self, setting: &Setting, lengths: &[usize]) -> Result<Taken> {
        let learner = self.network(setting.network)?;
        self.say(&format!("fingerprint of {}", setting.network));
        let (data, among) = (&setting.data, among(setting));
        match self.fingerprint_by(&*learner, &self.asked(data, lengths)?, &among) {
            Err(Error::Unsupported { .. }) => {
                let asked = Asked::next_point((*self.sample(data)?).clone(), lengths.to_vec(), Scale::One)?;
                Ok(Taken { recorded: true, ..self.fingerprint_by(&*learner, &asked, &among)? })
            }
            found => found,
        }
    }

    /// The fingerprint of a learner by what is asked, and its place among algorithms.
    pub fn fingerprint_by(&self, learner: &dyn Learner, asked: &Asked, among: &[Baseline]) -> Result<Taken> {
        let answers = asked.ask(learner, &learner.default_steps())?;
        let options = Options { seed: self.seed, ..Options::default() };
        let fingerprint = Fingerprint::from_answers(learner, &answers, asked, &options)?;
        let ask = |baseline: &Baseline| {
            let algorithm = self.learner(baseline.solver)?;
            Candidate::ask(baseline.label, &*algorithm, &baseline.steps()?, asked)
        };
        let candidates: Vec<Candidate> = among.iter().map(ask).collect::<Result<_>>()?;
        let naming = Naming::of_answers(&answers, &candidates, asked, self.seed);
        let theirs = candidates.iter().map(|candidate| {
            let steps = naming.of(&candidate.name).map_or(&[][..], |named| &named.steps);
            let lengths = fingerprint.lengths.iter().enumerate();
            let of = |(l, after): (usize, &AfterPairs)| candidate.filters(asked, l, &after.knots, steps);
            lengths.map(of).collect()
        });
        let theirs = theirs.collect();
        Ok(Taken { fingerprint, naming, theirs, recorded: false })
    }
}

impl Taken {
    /// How much more of w − w_OLS one algorithm leaves than another, each at its best steps.
    pub fn behind(&self, one: &str, other: &str) -> Estimate {
        self.naming.difference(one, other)
    }
}
