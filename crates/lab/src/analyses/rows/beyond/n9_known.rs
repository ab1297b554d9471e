//! The algorithms by which naming is calibrated, as what is named and as what names; and which of them are the same.

use ndarray::Array4;

use crate::data::prompts::{Prompts, Questions, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::fingerprint::{Asked, Candidate, Naming, Scale};
use crate::learners::steps::Steps;
use crate::learners::{Learner, Trajectory, Unit};
use crate::registry::Id;
use crate::solvers;

/// An algorithm that is to be named.
pub struct Subject {
    /// In tables.
    pub label: &'static str,
    /// The algorithm.
    pub solver: &'static str,
    /// Its steps that are shown.
    pub steps: &'static str,
    /// Candidates that make the same weights at those steps, with the reason.
    pub same: &'static [Same],
}

/// Names and the reason.
pub type Same = (&'static [&'static str], &'static str);

/// A candidate, which is also a subject.
struct Known {
    subject: Subject,
    /// Its steps that are searched.
    searched: &'static str,
}

const fn known(
    solver: &'static str,
    steps: &'static str,
    searched: &'static str,
    same: &'static [Same],
) -> Known {
    Known { subject: Subject { label: solver, solver, steps, same }, searched }
}

const fn another(
    label: &'static str,
    solver: &'static str,
    steps: &'static str,
    same: &'static [Same],
) -> Subject {
    Subject { label, solver, steps, same }
}

/// Some steps of gradient descent that are no powers of 2, 3 or 4 only.
const GD: &str = "1..=3,5,7,10,15,20,30,50,100,150,200,300,500,700,1000";
/// Those, all small ones, half octaves, and powers of 3.
const GD_SEARCHED: &str = "1..=64,81,91,100,128,150,181,200,243,256,300,362,500,512,700,724,729,1000,1024,1448,2048,2187,2896,\
                           4096,5793,8192,11585,16384";

const DOUBLES: &str = "both have the residual (1−ηλ)^(2^k)";
const TRIPLES: &str = "both have the residual (1−ηλ)^(3^k)";
const QUADRUPLES: &str = "both have the residual (1−ηλ)^(4^k)";
const TWO_IN_ONE: &str = "order 4 is two Newton steps in one";
const CONJUGATE: &str = "with exact line searches on a quadratic all take conjugate directions";
const NO_MOMENTUM: &str = "without momentum it is gradient descent";

/// Newton's and gradient descent's kin, all filters of S.
const KIN: usize = 17;

static KNOWN: [Known; 31] = [
    known("newton", "0..=20", "0..=30", &[]),
    known("newton:alpha=spectral", "0..=20", "0..=30", &[]),
    known("newton:a=1.5", "0..=24", "0..=45", &[]),
    known("newton:start=identity", "0..=12", "0..=16", &[(&["gd:eta=fro"], DOUBLES)]),
    known("newton:start=identity,eta=spectral", "0..=12", "0..=16", &[(&["gd:eta=lmax"], DOUBLES)]),
    known("newton:start=identity,eta=0.01", "0..=12", "0..=16", &[(&["gd:eta=0.01"], DOUBLES)]),
    known("newton:start=identity,a=1.5", "0..=20", "0..=30", &[]),
    known("hyperpower:order=3", "0..=12", "0..=16", &[]),
    known("hyperpower:order=3,start=identity", "0..=7", "0..=9", &[(&["gd:eta=fro"], TRIPLES)]),
    known("hyperpower:order=4", "0..=10", "0..=15", &[(&["newton"], TWO_IN_ONE)]),
    known(
        "hyperpower:order=4,start=identity",
        "0..=6",
        "0..=7",
        &[(&["newton:start=identity"], TWO_IN_ONE), (&["gd:eta=fro"], QUADRUPLES)],
    ),
    known("gd:eta=0.01", GD, GD_SEARCHED, &[]),
    known("gd:eta=fro", GD, GD_SEARCHED, &[]),
    known("gd:eta=lmax", GD, GD_SEARCHED, &[]),
    known("gd:eta=optimal", GD, GD_SEARCHED, &[]),
    known("gd++", "0..=12", "0..=16", &[]),
    known("gd++:eta=lmax", "0..=12", "0..=16", &[]),
    known("heavy-ball", "1..=30", "1..=80", &[]),
    known("heavy-ball:eta=0.01,beta=0.5", "1..=30", "1..=100", &[]),
    known("nesterov", "1..=30", "1..=100", &[]),
    known("chebyshev", "1..=30", "1..=80", &[]),
    known("amp", "1..=16", "1..=40", &[]),
    known("cg", "1..=15", "1..=20", &[(&["bfgs", "dfp", "lbfgs"], CONJUGATE)]),
    known("bfgs", "1..=15", "1..=20", &[(&["cg", "dfp", "lbfgs"], CONJUGATE)]),
    known("dfp", "1..=15", "1..=20", &[(&["cg", "bfgs", "lbfgs"], CONJUGATE)]),
    known("lbfgs", "1..=15", "1..=20", &[(&["cg", "bfgs", "dfp"], CONJUGATE)]),
    known("bfgs:line_search=armijo", "1..=30", "1..=60", &[]),
    known("dfp:line_search=armijo", "1..=30", "1..=60", &[]),
    known("lbfgs:line_search=armijo", "1..=30", "1..=60", &[]),
    known("pcg", "1..=15", "1..=20", &[]),
    known("pcg:preconditioner=gauss-seidel", "1..=15", "1..=20", &[]),
];

/// Candidates at steps at which they are others, and others that are candidates by another name.
static FURTHER: [Subject; 8] = [
    another("gd:eta=fro at 2^k", "gd:eta=fro", "pow2:0..=10", &[(&["newton:start=identity"], DOUBLES)]),
    another(
        "gd:eta=fro at 4^k",
        "gd:eta=fro",
        "1,4,16,64,256,1024",
        &[(&["newton:start=identity"], DOUBLES), (&["hyperpower:order=4,start=identity"], QUADRUPLES)],
    ),
    another("newton at 2k", "newton", "0..=20/2", &[(&["hyperpower:order=4"], TWO_IN_ONE)]),
    another(
        "hyperpower:order=2",
        "hyperpower:order=2",
        "0..=20",
        &[(&["newton"], "order 2 is Newton's iteration")],
    ),
    another("gd++:gamma=0", "gd++:gamma=0", "1..=12", &[(&["gd:eta=fro"], "inputs are not transformed")]),
    another("heavy-ball:beta=0", "heavy-ball:eta=0.01,beta=0", "1..=12", &[(&["gd:eta=0.01"], NO_MOMENTUM)]),
    another("nesterov:beta=0", "nesterov:eta=0.01,beta=0", "1..=12", &[(&["gd:eta=0.01"], NO_MOMENTUM)]),
    another(
        "pcg:preconditioner=identity",
        "pcg:preconditioner=identity",
        "1..=15",
        &[(&["cg"], "nothing is preconditioned"), (&["bfgs", "dfp", "lbfgs"], CONJUGATE)],
    ),
];

/// Every subject; the first of them are the candidates, in their order.
pub fn subjects() -> impl Iterator<Item = &'static Subject> {
    KNOWN.iter().map(|known| &known.subject).chain(&FURTHER)
}

impl Subject {
    /// Whether a candidate makes the same weights.
    pub fn is(&self, name: &str) -> bool {
        name == self.solver || self.same().any(|same| same == name)
    }

    /// The candidates that make the same weights, itself apart.
    pub fn same(&self) -> impl Iterator<Item = &'static str> {
        self.same.iter().flat_map(|(names, _)| names.iter().copied())
    }

    /// Whether it is named, and nothing that is something else.
    pub fn named_rightly(&self, naming: &Naming) -> bool {
        let names = naming.names();
        !names.is_empty() && names.iter().all(|name| self.is(name))
    }

    /// Whether it is among what is named.
    pub fn among_names(&self, naming: &Naming) -> bool {
        naming.names().iter().any(|name| self.is(name))
    }
}

/// What is asked of all, and the candidates that were asked.
pub struct Bench {
    questions: Questions,
    pub asked: Asked,
    candidates: Vec<Candidate>,
    seed: Seed,
}

impl Bench {
    /// Prompts of linear regression with isotropic inputs, and d queries each after each of `lengths` pairs.
    /// `more` are candidates besides those of the table.
    pub fn new(
        seed: Seed,
        (dim, lengths): (usize, [usize; 2]),
        prompts: usize,
        more: &[(String, &str)],
    ) -> Result<Bench> {
        let task = Task::new("linear", "gaussian", dim, lengths[1] + 1)?;
        let questions = task.questions(seed, "eval", 0, prompts, lengths.to_vec(), dim);
        let asked = Asked::fresh(questions.clone(), Scale::One)?;
        let table = KNOWN.iter().map(|known| (known.subject.solver, known.searched));
        let all = table.chain(more.iter().map(|(name, steps)| (name.as_str(), *steps)));
        // amp diverges on some prompts, the sooner the fewer features they have: it is searched up to there
        let ask = |(name, steps): (&str, &str)| {
            let answers = asked.ask_while_sound(&*solvers::build(name)?, &Steps::parse(steps)?)?;
            Ok(answers.map(|answers| Candidate::new(name, answers)))
        };
        let candidates = all.filter_map(|known| ask(known).transpose()).collect::<Result<_>>()?;
        Ok(Bench { questions, asked, candidates, seed })
    }

    /// The prompts.
    pub fn prompts(&self) -> &Prompts {
        &self.questions.prompts
    }

    /// Names a learner among all candidates.
    pub fn name(&self, learner: &dyn Learner, steps: &Steps) -> Result<Naming> {
        self.name_among(learner, steps, &self.candidates)
    }

    /// Names a learner among Newton's and gradient descent's kin alone.
    pub fn name_among_kin(&self, learner: &dyn Learner, steps: &Steps) -> Result<Naming> {
        self.name_among(learner, steps, &self.candidates[..KIN])
    }

    fn name_among(&self, learner: &dyn Learner, steps: &Steps, among: &[Candidate]) -> Result<Naming> {
        Ok(Naming::of_answers(&self.asked.ask(learner, steps)?, among, &self.asked, self.seed))
    }

    /// What a subject answers, to be named with noise.
    pub fn said_by(&self, subject: &Subject) -> Result<Said> {
        let (learner, steps) = (solvers::build(subject.solver)?, Steps::parse(subject.steps)?);
        let answers = learner.answers(&self.questions, &steps)?;
        Ok(Said { id: learner.id(), steps, answers, noise: 0.0, seed: self.seed })
    }
}

/// Answers that were given, with noise: a Gaussian number of `noise` times the root mean square of all answers at the same step
/// after as many pairs.
pub struct Said {
    id: Id,
    pub steps: Steps,
    /// `[s, b, l, q]`
    answers: Array4<f64>,
    pub noise: f64,
    seed: Seed,
}

impl Learner for Said {
    fn id(&self) -> Id {
        self.id.clone()
    }

    fn unit(&self) -> Unit {
        Unit::Iteration
    }

    fn default_steps(&self) -> Steps {
        self.steps.clone()
    }

    fn trajectory(&self, _: &Prompts, _: &Steps) -> Result<Trajectory> {
        let (action, why) = ("predict labels", "only answers to fresh queries were given");
        Err(Error::Unsupported { learner: self.id.to_string(), action, why })
    }

    fn answers(&self, _: &Questions, _: &Steps) -> Result<Array4<f64>> {
        let mut answers = self.answers.clone();
        let mut draws = self.seed.at(&format!("noise/{}", self.id), self.noise.to_bits());
        for mut of_step in answers.outer_iter_mut() {
            for mut of_length in of_step.axis_iter_mut(ndarray::Axis(1)) {
                let power = of_length.iter().map(|a| a * a).sum::<f64>() / of_length.len() as f64;
                let size = self.noise * power.sqrt();
                of_length.iter_mut().for_each(|answer| *answer += size * draws.normal());
            }
        }
        Ok(answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_iterative_algorithm_with_linear_answers_is_a_candidate() {
        for row in solvers::SOLVERS.iter().filter(|row| row.properties.linear) {
            let learner = solvers::build(row.name).unwrap();
            // of an algorithm without iterations one step is known; online GD is a control
            if learner.default_steps().len() > 1 && row.name != "ogd" {
                let named = |known: &Known| known.subject.solver.split(':').next() == Some(row.name);
                assert!(KNOWN.iter().any(named), "{} is no candidate", row.name);
            }
        }
    }

    #[test]
    fn the_table_names_what_it_has() {
        let known = |name: &str| KNOWN.iter().position(|known| known.subject.solver == name);
        for subject in subjects() {
            for same in subject.same() {
                assert!(known(same).is_some() && same != subject.solver, "{}: {same}", subject.label);
            }
        }
        let kin = ["newton", "hyperpower", "gd"];
        for (i, known) in KNOWN.iter().enumerate() {
            assert_eq!(kin.iter().any(|kin| known.subject.solver.starts_with(kin)), i < KIN);
        }
    }
}
