//! The fingerprint of a learner by name, with every default written out: the `plan.toml` of `iclab fingerprint`.

use serde::{Deserialize, Serialize};

use super::asked::{Answers, Asked, Scale};
use super::shown::{Curve, Identified};
use super::{Candidate, Fingerprint, Linearity, Naming, Options, by_unit};
use crate::Progress;
use crate::compare::constructed::as_constructed;
use crate::data::prompts::{Prompts, Questions};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::findings::numbers::counted;
use crate::learners::planned::{self, OWN, Sampled, Source};
use crate::learners::steps::Steps;
use crate::learners::task::{KnownTask, task_of};
use crate::learners::{self, Learner, Resolved};
use crate::networks::experiment::TaskSpec;
use crate::solvers;

/// The algorithms that a learner may be when nobody says which, each with the steps that are searched. Newton's iteration
/// from both starts and one of a higher order, gradient descent with the paper's step size and with that of the identity
/// start, the same on inputs that are transformed along the way, the best polynomials, and one that is no polynomial.
pub const AGAINST: &[(&str, &str)] = &[
    ("newton", "0..=30"),
    ("newton:start=identity", "0..=20"),
    ("hyperpower:order=3", "0..=20"),
    ("hyperpower:order=3,start=identity", "0..=16"),
    ("gd", MANY_STEPS),
    ("gd:eta=fro", MANY_STEPS),
    ("gd++", "0..=24"),
    ("chebyshev", "0..=40"),
    ("cg", "0..=25"),
    ("ogd", "1"),
];

/// Steps of gradient descent: every one at first, then four per doubling, so that no step between two of them is missed by
/// more than a hundredth of w − w_OLS. Its closed form makes them cheap.
const MANY_STEPS: &str = "0..=32,38,45,54,64,76,91,108,128,152,181,215,256,304,362,431,512,609,724,861,1024,1218,1448,1722,\
                          2048,2435,2896,3444,4096,4871,5793,6889,8192,9742,11585,13777,16384";

/// Prompts that are sampled when nobody says how many.
const PROMPTS: usize = 256;
/// Prompts on which linearity is tried: each is asked six times.
const FOR_LINEARITY: usize = 64;

/// Whose fingerprint is to be taken, as somebody asks for it; [`Plan::new`] and [`Plan::run`] write out what is left open.
pub struct Wish {
    /// The learner, by name.
    pub learner: String,
    /// Its steps; its own when absent.
    pub steps: Option<Steps>,
    /// Algorithms that it may be; [`AGAINST`] when empty.
    pub against: Vec<String>,
    /// Numbers of pairs; 5d/4, 3d/2 and 2d when empty.
    pub pairs: Vec<usize>,
    /// How many prompts, or which; 256, or all that were recorded, when absent.
    pub prompts: Option<Source>,
    /// Queries per prompt; 2d when absent, as the weights that answers imply need.
    pub queries: Option<usize>,
    /// Eigenvalues at which filters are measured.
    pub knots: usize,
    /// The unit of eigenvalues; the one that leaves the least unexplained when absent.
    pub unit: Option<Scale>,
    /// What is asked for of the task; the rest is what the learner knows, or the paper's.
    pub task: KnownTask,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Whose fingerprint is taken, and how. What is `None` is left open until [`Plan::run`] writes it out.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// `fingerprint`.
    pub command: String,
    /// The learner, by name.
    pub learner: String,
    /// Its steps; [`OWN`] until it is built.
    pub steps: String,
    /// Number of prompts, or the name of an .npz file; [`OWN`] until the learner is built.
    pub prompts: String,
    /// Numbers of pairs after which it is asked.
    pub pairs: Option<Vec<usize>>,
    /// Queries per prompt; none for recorded predictions.
    pub queries: Option<usize>,
    /// Eigenvalues at which filters are measured.
    pub knots: usize,
    /// The unit of eigenvalues.
    pub unit: Option<Scale>,
    /// Where prompts are sampled from.
    pub task: Sampled,
    /// Algorithms that the learner may be.
    pub against: Vec<Against>,
}

/// An algorithm that the learner may be.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Against {
    /// Its name.
    pub name: String,
    /// The steps that are searched; [`OWN`] until it is built.
    pub steps: String,
}

impl Plan {
    /// A plan with the names written out. Also what the user should know of that, in full sentences.
    pub fn new(wish: Wish) -> Result<(Plan, Vec<String>)> {
        let notes: Vec<String> = planned::note_on(&wish.learner)?.into_iter().collect();
        let learner = learners::resolve(&wish.learner)?;
        let task = wish.task.clone().or(task_of(&learner)?);
        Plan::of(Wish { learner, task, ..wish }, notes)
    }

    /// The same for a learner that has no name to be found by: its task is the wish's, or the paper's.
    pub fn of_unnamed(wish: Wish) -> Result<(Plan, Vec<String>)> {
        Plan::of(wish, Vec::new())
    }

    fn of(wish: Wish, mut notes: Vec<String>) -> Result<(Plan, Vec<String>)> {
        let learner = wish.learner;
        let names = match wish.against.is_empty() {
            true => AGAINST.iter().map(|(name, _)| name.to_string()).collect(),
            false => wish.against,
        };
        let mut against = Vec::new();
        for mut name in names {
            if !name.contains(':') {
                let ([_, constructed], note) = as_constructed([learner.clone(), name])?;
                name = constructed;
                notes.extend(note);
            }
            let row = AGAINST.iter().find(|(known, _)| known.split(':').next() == name.split(':').next());
            let steps = row.map_or(OWN, |(_, steps)| *steps).into();
            let name = learners::resolve(&name)?;
            if against.iter().all(|other: &Against| other.name != name) {
                against.push(Against { name, steps });
            }
        }
        let task = Sampled::new(wish.task.or_usual(), wish.seed);
        let mut pairs = wish.pairs;
        pairs.sort_unstable();
        pairs.dedup();
        let plan = Plan {
            command: "fingerprint".into(),
            learner,
            steps: wish.steps.map_or(OWN.into(), |steps| steps.to_string()),
            prompts: wish.prompts.map_or(OWN.into(), |prompts| prompts.to_string()),
            pairs: (!pairs.is_empty()).then_some(pairs),
            queries: wish.queries,
            knots: wish.knots,
            unit: wish.unit,
            task,
            against,
        };
        Ok((plan, notes))
    }

    /// Takes the fingerprint and names the learner. Writes out what was left open; `tell` hears what is going on.
    pub fn run(&mut self, tell: Progress) -> Result<Identified> {
        let file = match &*self.prompts {
            OWN => None,
            text => match Source::read(text)? {
                Source::Count(_) => None,
                source => Some(source.prompts(&self.task, &[])?),
            },
        };
        let (dim, points) =
            file.as_ref().map_or((self.task.dim, self.task.points), |p| (p.dim(), p.points()));
        let spec = TaskSpec { dim, points, ..self.task.spec() };
        let Resolved { learner, notes } = learners::build_for(&self.learner, Some(&spec), tell)?;
        let mut found = self.run_on(&*learner, file, tell)?;
        found.notes.splice(0..0, notes);
        Ok(found)
    }

    /// The same of a learner that is there, by some prompts or by sampled ones.
    pub fn run_on(
        &mut self,
        learner: &dyn Learner,
        prompts: Option<Prompts>,
        tell: Progress,
    ) -> Result<Identified> {
        let (dim, points) =
            prompts.as_ref().map_or((self.task.dim, self.task.points), |p| (p.dim(), p.points()));
        let spec = TaskSpec { dim, points, ..self.task.spec() };
        let steps = planned::steps(&self.steps, learner)?;
        self.steps = steps.to_string();
        let (asked, few, mut notes) = self.asked(learner, prompts, (dim, points))?;
        asked.check_knots(self.knots)?;

        tell(&format!("{} on {}", learner.id(), counted(asked.prompts(), "prompt", "prompts")));
        let answers = asked.ask(learner, &steps)?;
        let (asked, units) = by_unit(asked, &answers, self.knots)?;
        let unit = *self.unit.get_or_insert(units.best());
        let asked = asked.rescaled(unit);
        tell("resampling prompts");
        let options = Options { knots: self.knots, seed: Seed(self.task.seed) };
        let fingerprint = Fingerprint::from_answers(learner, &answers, &asked, &options)?;
        notes.extend(fingerprint.lengths.iter().filter_map(|after| left_out(after, dim)));
        let (naming, curves, cut) = self.named(&answers, &asked, &fingerprint, &spec, tell)?;
        notes.extend(cut);
        let linearity = match few {
            None => None,
            Some(few) => {
                tell("trying linearity");
                let pairs = asked.lengths[asked.lengths.len() - 1];
                Some(Linearity::of(learner, &steps, &few, pairs, options.seed)?)
            }
        };
        Ok(Identified { fingerprint, naming, linearity, curves, unit, units, notes })
    }

    /// What the learner is asked, the first few of the questions for linearity, and what the user should know of them.
    fn asked(
        &mut self,
        learner: &dyn Learner,
        file: Option<Prompts>,
        (dim, points): (usize, usize),
    ) -> Result<(Asked, Option<Questions>, Vec<String>)> {
        let recorded = learner.recorded_prompts();
        if self.prompts == OWN {
            self.prompts = recorded.unwrap_or(PROMPTS).to_string();
        }
        let pairs = self.pairs.get_or_insert_with(|| usual_pairs(dim, points)).clone();
        if recorded.is_some() {
            let prompts = match file {
                Some(prompts) => prompts,
                None => Source::read(&self.prompts)?.prompts(&self.task, &[&self.learner])?,
            };
            let note = format!(
                "{} answers no fresh queries, its predictions being recorded: filters are taken from the next point of {}, \
                 one query each. Degrees, the share outside of what was read and linearity need more, and are left out.",
                learner.id(),
                counted(prompts.count(), "prompt", "prompts")
            );
            return Ok((Asked::next_point(prompts, pairs, Scale::One)?, None, vec![note]));
        }
        let queries = *self.queries.get_or_insert(2 * dim);
        if queries == 0 {
            return Err(Error::BadData("0 queries per prompt; accepted: at least 1".into()));
        }
        let seed = Seed(self.task.seed);
        let (questions, mut notes) = match file {
            None => {
                let Source::Count(count) = Source::read(&self.prompts)? else {
                    unreachable!("a file of prompts was read before");
                };
                (self.task.task()?.questions(seed, "eval", 0, count, pairs, queries), Vec::new())
            }
            Some(prompts) => {
                let note = format!(
                    "{} does not tell the distribution of its inputs: queries are normal, of the inputs' root mean square {:.3}.",
                    self.prompts,
                    prompts.input_size()
                );
                (Questions::normal(prompts, pairs, queries, seed), vec![note])
            }
        };
        if queries < 2 * dim {
            notes.push(format!(
                "{} in {dim} dimensions say too little of weights: degrees and the share outside of what was read are left out.",
                counted(queries, "query", "queries")
            ));
        }
        let few = questions.head(FOR_LINEARITY, dim.max(2));
        let few = (few.prompts.count() > 1 && queries > 1).then_some(few); // used in twos
        Ok((Asked::fresh(questions, Scale::One)?, few, notes))
    }

    /// The learner among its candidates, the candidates' filters at middle steps after each number of pairs, and what the
    /// user should know of the candidates.
    fn named(
        &mut self,
        answers: &Answers,
        asked: &Asked,
        fingerprint: &Fingerprint,
        spec: &TaskSpec,
        tell: Progress,
    ) -> Result<(Naming, Vec<Vec<Curve>>, Vec<String>)> {
        let (mut candidates, mut notes) = (Vec::new(), Vec::new());
        for against in &mut self.against {
            let name = solvers::short(&against.name);
            tell(&format!("asking {name}"));
            let learner = learners::build_for(&against.name, Some(spec), tell)?.learner;
            if learner.recorded_prompts().is_some() && asked.fresh_queries() {
                return Err(Error::BadData(format!(
                    "{name} has recorded predictions, which answer no fresh queries; accepted to be told from: algorithms, \
                     constructed weights, networks with weights"
                )));
            }
            let steps = planned::steps(&against.steps, &*learner)?;
            against.steps = steps.to_string();
            match asked.ask_while_sound(&*learner, &steps)? {
                None => notes.push(format!("{name} diverges on some prompts at once and is left out.")),
                Some(theirs) => {
                    if theirs.steps() != &steps {
                        let last = theirs.steps().last();
                        notes.push(format!(
                            "{name} diverges on some prompts after step {last}, and is searched up to there."
                        ));
                    }
                    candidates.push(Candidate::new(&name, theirs));
                }
            }
        }
        let naming = Naming::of_answers(answers, &candidates, asked, Seed(self.task.seed));
        let curves = (0..asked.lengths.len()).map(|l| {
            let of = |candidate| Curve::of(candidate, asked, l, fingerprint, &naming);
            candidates.iter().flat_map(of).collect()
        });
        let curves = curves.collect();
        Ok((naming, curves, notes))
    }
}

/// 5d/4, 3d/2 and 2d pairs, as far as a point is left to be asked; all pairs but one where even the first are too many.
fn usual_pairs(dim: usize, points: usize) -> Vec<usize> {
    let last = points.saturating_sub(1).max(1);
    let mut pairs: Vec<usize> = [(5, 4), (3, 2), (2, 1)].map(|(times, over)| times * dim / over).into();
    pairs.retain(|pairs| (1..=last).contains(pairs));
    pairs.dedup();
    if pairs.is_empty() { vec![last] } else { pairs }
}

/// Directions that have no eigenvalue yet, a sentence.
fn left_out(after: &super::AfterPairs, dim: usize) -> Option<String> {
    let most = after.outside.iter().copied().fold(0.0, f64::max);
    let share = match after.outside.is_empty() {
        true => String::new(),
        false => format!(", and hold up to {:.1} % of ‖w‖²", 100.0 * most),
    };
    (after.pairs < dim).then(|| {
        format!(
            "{} in {dim} dimensions leave {} without an eigenvalue: they are left out{share}.",
            counted(after.pairs, "pair", "pairs"),
            counted(dim - after.pairs, "direction", "directions")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_leave_a_point_to_be_asked() {
        assert_eq!(usual_pairs(20, 41), [25, 30, 40]);
        assert_eq!(usual_pairs(20, 40), [25, 30]);
        assert_eq!(usual_pairs(5, 16), [6, 7, 10]);
        assert_eq!(usual_pairs(1, 3), [1, 2]);
        assert_eq!(usual_pairs(20, 11), [10]);
    }

    #[test]
    fn a_plan_is_written_and_read_again() {
        let (mut plan, notes) = Plan::new(Wish {
            learner: "newton".into(),
            steps: Some(Steps::range(0, 6)),
            against: vec!["newton:start=identity,eta=0.01".into(), "newton".into(), "newton".into()],
            pairs: vec![9, 7, 9],
            prompts: Some(Source::Count(64)),
            queries: None,
            knots: 6,
            unit: None,
            task: KnownTask { dim: Some(4), points: Some(12), ..KnownTask::default() },
            seed: 3,
        })
        .unwrap();
        assert!(notes.is_empty() && plan.against.len() == 2 && plan.unit.is_none());
        assert_eq!(plan.pairs.as_deref(), Some(&[7, 9][..]));
        let found = plan.run(&|_| ()).unwrap();
        assert!(plan.queries == Some(8) && plan.unit.is_some() && plan.unit != Some(Scale::One));
        assert_eq!(found.naming.names(), ["newton"]);
        let text = toml::to_string(&plan).unwrap();
        let mut again: Plan = toml::from_str(&text).unwrap();
        let said = again.run(&|_| ()).unwrap();
        assert_eq!(toml::to_string(&again).unwrap(), text);
        assert_eq!(said.json(&again), found.json(&plan));
        assert!(toml::from_str::<Plan>(&text.replace("knots", "nots")).is_err());
    }
}
