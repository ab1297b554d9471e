//! Fingerprints of networks and algorithms by name, for rows.

use super::lab::Lab;
use super::setting::{Baseline, Setting};
use crate::data::prompts::Questions;
use crate::error::Result;
use crate::findings::Bound::{self, AtMost, Within};
use crate::fingerprint::{AfterPairs, Answers, Asked, Candidate, Fingerprint, Naming, Options, Scale};
use crate::learners::Learner;
use crate::learners::steps::Steps;
use crate::stats::Estimate;

/// Fewest prompts for filters from one query each.
const FEWEST: usize = 240;

/// Prompts that are asked fresh queries.
pub const PROMPTS: usize = 256;

/// Newton's iteration from M = ηI, η = 1/‖S‖_F.
pub const FROM_IDENTITY: Baseline = Baseline::new("Newton from I", "newton:start=identity", "0..=20");

/// A number of a fingerprint and the bound that theory sets it, as claimed of several networks.
pub struct Number {
    /// What its claims are called.
    pub name: &'static str,
    /// What it is.
    pub says: &'static str,
    /// Where it stands.
    pub of: fn(&AfterPairs) -> Estimate,
    /// Its bound.
    pub bound: Bound,
    /// What theory expects.
    pub expected: &'static str,
}

/// How steep the filters are.
pub const SHAPE: Number = Number {
    name: "shape",
    says: "exponent p of the filters 1 − exp(−(λ/λ_c)^p), mean over the layers that have begun and are not done",
    of: |after| after.overall.exponent,
    bound: AtMost(1.5),
    expected: "1 for Newton from ηI and gradient descent, 2 for Newton from αS",
};

/// How fast they go to 1.
pub const ITERATIONS: Number = Number {
    name: "iterations",
    says: "Newton iterations that one layer is worth, log₂ of the order r of f ← 1−(1−f)^r, mean over layers",
    of: |after| after.overall.iterations,
    bound: Within(0.5, 1.5),
    expected: "One iteration per layer, not three",
};

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
}

impl Lab {
    /// The fingerprint of a setting's network among [`among`], by 2d fresh queries after each of `lengths` pairs.
    pub fn fingerprint(&self, setting: &Setting, lengths: &[usize]) -> Result<Taken> {
        let (data, count) = (&setting.data, self.count.min(PROMPTS));
        let questions = data.task()?.questions(self.seed, "eval", 0, count, lengths.to_vec(), 2 * data.dim);
        self.fingerprint_by(&*self.network(setting.network)?, questions, &among(setting))
    }

    /// The fingerprint of a learner by any questions, and its place among algorithms.
    pub fn fingerprint_by(
        &self,
        learner: &dyn Learner,
        questions: Questions,
        among: &[Baseline],
    ) -> Result<Taken> {
        self.say(&format!("fingerprint of {}", learner.id()));
        let asked = Asked::fresh(questions, Scale::One)?;
        let answers = asked.ask(learner, &learner.default_steps())?;
        let ask = |baseline: &Baseline| asked.ask(&*self.learner(baseline.solver)?, &baseline.steps()?);
        let theirs = among.iter().map(ask).collect::<Result<Vec<Answers>>>()?;
        self.taken(learner, &asked, &answers, among, theirs)
    }

    /// The fingerprint of a setting's network among [`among`] by what it predicts at the evaluation prompts, one query each: all
    /// that is kept of some networks.
    pub fn fingerprint_of_predictions(&self, setting: &Setting, lengths: &[usize]) -> Result<Taken> {
        let network = self.network(setting.network)?;
        let (data, among) = (&setting.data, among(setting));
        // a lab of few prompts asks more of them here
        let prompts = match self.count >= FEWEST {
            true => (*self.sample(data)?).clone(),
            false => data.task()?.sample(self.seed, "eval", 0, FEWEST),
        };
        let asked = Asked::next_point(prompts.clone(), lengths.to_vec(), Scale::One)?;
        let of = |name: &str, steps: &Steps| match self.count >= FEWEST {
            true => asked.recorded(&*self.path(name, data, steps)?),
            false => asked.recorded(&self.learner(name)?.trajectory(&prompts, steps)?),
        };
        let answers = of(setting.network, &network.default_steps())?;
        let theirs = among.iter().map(|baseline| of(baseline.solver, &baseline.steps()?));
        let theirs = theirs.collect::<Result<Vec<Answers>>>()?;
        self.taken(&*network, &asked, &answers, &among, theirs)
    }

    fn taken(
        &self,
        learner: &dyn Learner,
        asked: &Asked,
        answers: &Answers,
        among: &[Baseline],
        theirs: Vec<Answers>,
    ) -> Result<Taken> {
        let options = Options { seed: self.seed, ..Options::default() };
        let fingerprint = Fingerprint::from_answers(learner, answers, asked, &options)?;
        let candidates =
            among.iter().zip(theirs).map(|(baseline, theirs)| Candidate::new(baseline.label, theirs));
        let candidates: Vec<Candidate> = candidates.collect();
        let naming = Naming::of_answers(answers, &candidates, asked, self.seed);
        let theirs = candidates.iter().map(|candidate| {
            let steps = naming.of(&candidate.name).map_or(&[][..], |named| &named.steps);
            let lengths = fingerprint.lengths.iter().enumerate();
            let of = |(l, after): (usize, &AfterPairs)| candidate.filters(asked, l, &after.knots, steps);
            lengths.map(of).collect()
        });
        let theirs = theirs.collect();
        Ok(Taken { fingerprint, naming, theirs })
    }
}

impl Taken {
    /// How much more of w − w_OLS one algorithm leaves than another, each at its best steps.
    pub fn behind(&self, one: &str, other: &str) -> Estimate {
        self.naming.difference(one, other)
    }
}
