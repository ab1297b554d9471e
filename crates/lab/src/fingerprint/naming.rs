//! Which of some algorithms a learner is: the one that, at its best steps, leaves least of w − w_OLS; and which others cannot
//! be told from it.
//!
//! Anything that converges comes close to w, so what an algorithm leaves is measured against w − w_OLS. Its best step for
//! each step of the learner is chosen on the prompts of even number and judged on the others. Row N9 of the analyses
//! calibrates it: known algorithms, with and without noise, and learners that are none of them.

use std::sync::OnceLock;

use ndarray::Array2;

use super::RESAMPLES;
use super::asked::{Answers, Asked};
use super::filter::{Knots, fit, parts};
use super::judged::{Errors, Judged, mean_shares};
use crate::data::seed::Seed;
use crate::error::Result;
use crate::learners::Learner;
use crate::learners::steps::Steps;
use crate::parallel;
use crate::stats::{Estimate, interval, multiplicities};

/// A step with less than this share of ‖w_OLS‖² still to do is over, and carries no mark of an algorithm.
const OVER: f64 = 1e-3;
/// A step with more than this share is no better than w = 0.
const NOT_BEGUN: f64 = 0.95;
/// Algorithms are not told apart by less than this share of what the closest leaves, nor by less than this share alone.
const MARGIN: (f64, f64) = (0.05, 1e-4);
/// An algorithm that leaves more than this share is no description: algorithms of different kinds leave about as much of each
/// other. A step of which w = 0 leaves no more has not begun either.
const NO_DESCRIPTION: f64 = 0.1;
/// Fewest steps that must say something. Any one filter is met closely by some step of many algorithms; a name rests on how
/// filters follow one another.
const FEWEST_STEPS: usize = 3;

/// An algorithm that a learner may be, asked once.
pub struct Candidate {
    /// Its name with settings.
    pub name: String,
    answers: Answers,
    /// Taken when it is first held against a learner.
    errors: OnceLock<Errors>,
}

impl Candidate {
    /// Asks an algorithm after each of its steps.
    pub fn ask(name: &str, learner: &dyn Learner, steps: &Steps, asked: &Asked) -> Result<Candidate> {
        Ok(Candidate::new(name, asked.ask(learner, steps)?))
    }

    /// One that has been asked.
    pub fn new(name: &str, answers: Answers) -> Candidate {
        Candidate { name: name.to_string(), answers, errors: OnceLock::new() }
    }

    /// The steps that are searched.
    pub fn steps(&self) -> &Steps {
        self.answers.steps()
    }

    /// Its filters `[s][k]` over some knots after the `l`th number of pairs, at some of the steps it was asked.
    pub fn filters(&self, asked: &Asked, l: usize, knots: &Knots, steps: &[u64]) -> Vec<Vec<f64>> {
        let parts = parts(knots, asked, l, &self.answers);
        let filters = fit(parts.iter().map(|part| (part, 1.0)), knots.count(), self.answers.count());
        steps.iter().filter_map(|&step| Some(filters[self.answers.steps.position(step)?].clone())).collect()
    }
}

/// A learner among candidates.
#[derive(Clone, Debug)]
pub struct Naming {
    /// Recorded steps `[s]` that say something: begun and not over, after some number of pairs. To have begun is to be closer
    /// to w_OLS than 0 is, and not so close to 0 that it would describe the step.
    pub informative: Vec<bool>,
    /// The candidates, the closest first.
    pub candidates: Vec<Named>,
}

/// One candidate.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name with settings.
    pub name: String,
    /// Its best step for each recorded step of the learner `[s]`.
    pub steps: Vec<u64>,
    /// Share of w − w_OLS that it leaves at that step `[s]`, mean over the numbers of pairs that say something, or over all.
    pub left: Vec<f64>,
    /// Mean over informative steps.
    pub score: Estimate,
    /// How much more than the closest it leaves, over the same resampled prompts.
    pub behind: Estimate,
    /// Whether it is the closest, or cannot be told from it.
    pub tied: bool,
    /// Its score under each resample.
    resampled: Vec<f64>,
}

impl Naming {
    /// The algorithms that the learner may be: the closest and those that cannot be told from it; none unless the closest
    /// leaves at most a tenth, by its whole interval, and at least three steps say something.
    pub fn names(&self) -> Vec<&str> {
        match self.candidates.first() {
            Some(closest) if self.says_enough() && closest.score.high <= NO_DESCRIPTION => {
                self.candidates.iter().filter(|c| c.tied).map(|c| c.name.as_str()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn says_enough(&self) -> bool {
        self.informative.iter().filter(|says| **says).count() >= FEWEST_STEPS
    }

    /// The candidate of that name.
    pub fn of(&self, name: &str) -> Option<&Named> {
        self.candidates.iter().find(|candidate| candidate.name == name)
    }

    /// How much more than another candidate one leaves, over the same resampled prompts.
    pub fn difference(&self, one: &str, other: &str) -> Estimate {
        let (Some(one), Some(other)) = (self.of(one), self.of(other)) else { return Estimate::NONE };
        let differences = one.resampled.iter().zip(&other.resampled).map(|(x, y)| x - y);
        let (low, high) = interval(differences.collect());
        Estimate { value: one.score.value - other.score.value, low, high }
    }

    /// What was found, a sentence or two.
    pub fn words(&self) -> String {
        let Some(closest) = self.candidates.first() else { return "Nothing was named.".into() };
        let percent = |e: &Estimate| format!("{:.1} %", 100.0 * e.value);
        if !self.informative.contains(&true) {
            return "No step has begun without being over: no algorithm can be named.".into();
        }
        let names = self.names();
        match names.as_slice() {
            [] if !self.says_enough() => format!(
                "Fewer than {FEWEST_STEPS} steps have begun without being over: too few to name an algorithm. The closest, {}, \
                 leaves {} of w − w_OLS.",
                closest.name,
                percent(&closest.score)
            ),
            [] => format!(
                "None of the algorithms: the closest, {}, leaves {} of w − w_OLS.",
                closest.name,
                percent(&closest.score)
            ),
            [only] => {
                let next = self.candidates.get(1).map_or(String::new(), |next| {
                    format!("; the next, {}, {}", next.name, percent(&next.score))
                });
                format!("Closest is {only}, which leaves {} of w − w_OLS{next}.", percent(&closest.score))
            }
            [first, others @ ..] => format!(
                "Closest is {first}, which leaves {} of w − w_OLS; it cannot be told from {}.",
                percent(&closest.score),
                others.join(", ")
            ),
        }
    }

    /// Names a learner by its answers.
    pub fn of_answers(answers: &Answers, candidates: &[Candidate], asked: &Asked, seed: Seed) -> Naming {
        let errors = Errors::of(answers, asked);
        let says = informative(answers, asked);
        let informative: Vec<bool> = says.iter().map(|says| says.contains(&true)).collect();
        let judge = |candidate: &Candidate| {
            let theirs = candidate.errors.get_or_init(|| Errors::of(&candidate.answers, asked));
            Judged::of(&errors, theirs, &says)
        };
        let judged: Vec<Judged> = parallel::map_items(candidates, judge);
        let once = Array2::ones((1, asked.prompts() / 2));
        let scores = mean_shares(&judged, &errors, &says, &once).row(0).to_vec();
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        order.sort_by(|&i, &j| scores[i].total_cmp(&scores[j]));
        let times: Vec<f64> =
            (0..RESAMPLES).flat_map(|r| multiplicities(seed, r, asked.prompts() / 2)).collect();
        let times =
            Array2::from_shape_vec((RESAMPLES, asked.prompts() / 2), times).expect("a row per resample");
        let resampled = mean_shares(&judged, &errors, &says, &times);
        let estimate = |value: f64, resampled: Vec<f64>| {
            let (low, high) = interval(resampled);
            Estimate { value, low, high }
        };
        let named = order.iter().map(|&i| {
            let (first, own) = (order[0], resampled.column(i).to_vec());
            let more = (&resampled.column(i) - &resampled.column(first)).to_vec();
            let behind = estimate(scores[i] - scores[first], more);
            Named {
                name: candidates[i].name.clone(),
                steps: judged[i].best.iter().map(|&k| candidates[i].answers.steps.as_slice()[k]).collect(),
                left: judged[i].left(&errors, &says),
                score: estimate(scores[i], own.clone()),
                tied: i == first || behind.low < MARGIN.0 * scores[first] + MARGIN.1,
                behind,
                resampled: own,
            }
        });
        Naming { informative, candidates: named.collect() }
    }
}

/// Whether the answers after each step and number of pairs `[s][l]` say something.
pub(super) fn informative(answers: &Answers, asked: &Asked) -> Vec<Vec<bool>> {
    let says = |s: usize, l: usize| {
        let (mut error, mut size, mut exact) = (0.0, 0.0, 0.0);
        for (problem, seen) in asked.problems[l].iter().zip(&answers.of[l]) {
            let right = problem.exact_answers();
            for (answer, right) in seen[s * right.len()..].iter().zip(&right) {
                error += (answer - right).powi(2);
                size += answer * answer;
                exact += right * right;
            }
        }
        (OVER..=NOT_BEGUN).contains(&(error / exact)) && size > NO_DESCRIPTION * error
    };
    (0..answers.count()).map(|s| (0..asked.lengths.len()).map(|l| says(s, l)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;
    use crate::data::prompts::Task;
    use crate::solvers;

    #[test]
    fn what_has_hardly_begun_or_shows_few_steps_is_not_named() {
        let questions = Task::new("linear", "gaussian", 10, 31).unwrap().questions(
            Seed(5),
            "eval",
            0,
            64,
            vec![15, 30],
            10,
        );
        let asked = Asked::fresh(questions, Scale::One).unwrap();
        let build = |name: &str| solvers::build(name).unwrap();
        let candidates: Vec<Candidate> = ["newton", "gd:eta=0.01", "gd:eta=0.001"]
            .map(|name| Candidate::ask(name, &*build(name), &Steps::range(0, 40), &asked).unwrap())
            .into();
        let named = |name: &str, steps: Steps| {
            Naming::of_answers(&asked.ask(&*build(name), &steps).unwrap(), &candidates, &asked, Seed(0))
        };
        // three steps of w close to 0, which w = 0 would describe
        let hardly = named("gd:eta=0.001", Steps::range(1, 3));
        assert_eq!(hardly.informative, [false; 3]);
        assert!(hardly.names().is_empty() && hardly.words().contains("no algorithm can be named"));
        // ridge has one step, and some step of some algorithm is always near
        let one = named("ridge:lambda=5", Steps::single(1));
        assert!(
            one.informative == [true] && one.candidates[0].score.value < NO_DESCRIPTION,
            "{}",
            one.words()
        );
        assert!(one.names().is_empty() && one.words().contains("Fewer than 3 steps"), "{}", one.words());
        assert_eq!(named("gd:eta=0.01", Steps::range(1, 6)).names(), ["gd:eta=0.01"]);
        // online GD has GD's filter and much besides
        let online = named("ogd", Steps::range(1, 6));
        assert!(online.informative.iter().filter(|says| **says).count() >= FEWEST_STEPS);
        assert!(online.names().is_empty() && online.words().starts_with("None"), "{}", online.words());
    }
}
