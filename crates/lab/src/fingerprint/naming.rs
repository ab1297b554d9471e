//! Which of some algorithms a learner is: the one that, at its best steps, leaves least of w − w_OLS; and which others cannot
//! be told from it.
//!
//! Anything that converges comes close to w, so what an algorithm leaves is measured against w − w_OLS. Its best step for
//! each step of the learner is chosen on the prompts of even number and judged on the others.

use rayon::prelude::*;

use super::RESAMPLES;
use super::asked::{Answers, Asked};
use super::filter::{Knots, fit, parts};
use crate::data::seed::Seed;
use crate::error::Result;
use crate::learners::Learner;
use crate::learners::steps::Steps;
use crate::stats::{Estimate, interval, multiplicities};

/// A step with less than this share of ‖w_OLS‖² still to do is over, and carries no mark of an algorithm.
const OVER: f64 = 1e-3;
/// A step with more than this share has not begun.
const NOT_BEGUN: f64 = 0.95;
/// Algorithms are not told apart by less than this share of what the closest leaves, nor by less than this share alone.
const MARGIN: (f64, f64) = (0.05, 1e-4);
/// An algorithm that leaves more than this share is no description.
const NO_DESCRIPTION: f64 = 0.5;

/// An algorithm that a learner may be, asked once.
pub struct Candidate {
    /// Its name with settings.
    pub name: String,
    answers: Answers,
}

impl Candidate {
    /// Asks an algorithm after each of its steps.
    pub fn ask(name: &str, learner: &dyn Learner, steps: &Steps, asked: &Asked) -> Result<Candidate> {
        Ok(Candidate::new(name, asked.ask(learner, steps)?))
    }

    /// One that has been asked.
    pub fn new(name: &str, answers: Answers) -> Candidate {
        Candidate { name: name.to_string(), answers }
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
    /// Recorded steps `[s]` that say something: begun and not over, after some number of pairs.
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
    /// Share of w − w_OLS that it leaves at that step `[s]`, mean over numbers of pairs.
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
    /// The algorithms that the learner may be: the closest and those that cannot be told from it; none when the closest
    /// leaves more than half, or when no step says anything.
    pub fn names(&self) -> Vec<&str> {
        match self.candidates.first() {
            Some(closest) if closest.score.value <= NO_DESCRIPTION => {
                self.candidates.iter().filter(|c| c.tied).map(|c| c.name.as_str()).collect()
            }
            _ => Vec::new(),
        }
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
        let of = Distances::of(answers, answers, asked);
        let steps = answers.count();
        // `[s][l]`: whether these answers say something
        let says: Vec<Vec<bool>> = (0..steps)
            .map(|s| {
                (0..asked.lengths.len())
                    .map(|l| {
                        let share =
                            of.power[l].iter().map(|p| p[s]).sum::<f64>() / of.exact[l].iter().sum::<f64>();
                        (OVER..=NOT_BEGUN).contains(&share)
                    })
                    .collect()
            })
            .collect();
        let informative: Vec<bool> = says.iter().map(|says| says.contains(&true)).collect();
        let judged: Vec<Judged> =
            candidates.iter().map(|candidate| Judged::of(answers, candidate, asked, &says)).collect();
        let scores: Vec<f64> = judged.iter().map(|j| j.score(&says, &|_| 1.0)).collect();
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        order.sort_by(|&i, &j| scores[i].total_cmp(&scores[j]));
        let resampled: Vec<Vec<f64>> = (0..RESAMPLES)
            .into_par_iter()
            .map(|r| {
                let times = multiplicities(seed, r, asked.prompts() / 2);
                judged.iter().map(|j| j.score(&says, &|b| times[b])).collect()
            })
            .collect();
        let estimate = |of: &dyn Fn(&[f64]) -> f64| {
            let (low, high) = interval(resampled.iter().map(|scores| of(scores)).collect());
            Estimate { value: of(&scores), low, high }
        };
        let named = order.iter().map(|&i| {
            let behind = estimate(&|scores| scores[i] - scores[order[0]]);
            Named {
                name: candidates[i].name.clone(),
                steps: judged[i].best.iter().map(|&k| candidates[i].answers.steps.as_slice()[k]).collect(),
                left: judged[i].left(),
                score: estimate(&|scores| scores[i]),
                tied: i == order[0] || behind.low < MARGIN.0 * scores[order[0]] + MARGIN.1,
                behind,
                resampled: resampled.iter().map(|scores| scores[i]).collect(),
            }
        });
        Naming { informative, candidates: named.collect() }
    }
}

/// Squared distances between answers of two learners and to least squares.
struct Distances {
    /// Σ (answer − least squares)² `[l][b][s]`.
    power: Vec<Vec<Vec<f64>>>,
    /// Σ least squares² `[l][b]`.
    exact: Vec<Vec<f64>>,
    /// Σ (answer − other's answer)² `[l][b][s × k]`.
    between: Vec<Vec<Vec<f64>>>,
}

impl Distances {
    fn of(answers: &Answers, other: &Answers, asked: &Asked) -> Distances {
        let mut found = Distances { power: Vec::new(), exact: Vec::new(), between: Vec::new() };
        for (l, problems) in asked.problems.iter().enumerate() {
            let of = |b: usize| {
                let exact = problems[b].exact_answers();
                let own = answers.of[l][b].chunks_exact(exact.len());
                let apart = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - y).powi(2)).sum::<f64>();
                let power: Vec<f64> = own.clone().map(|a| apart(a, &exact)).collect();
                let theirs = other.of[l][b].chunks_exact(exact.len());
                let between = own.flat_map(|a| theirs.clone().map(move |o| apart(a, o))).collect();
                (power, exact.iter().map(|e| e * e).sum::<f64>(), between)
            };
            let per_prompt: Vec<(Vec<f64>, f64, Vec<f64>)> =
                (0..problems.len()).into_par_iter().map(of).collect();
            found.exact.push(per_prompt.iter().map(|(_, exact, _)| *exact).collect());
            let (power, between) = per_prompt.into_iter().map(|(power, _, between)| (power, between)).unzip();
            found.power.push(power);
            found.between.push(between);
        }
        found
    }
}

/// A candidate at its best steps, on the prompts of odd number.
struct Judged {
    /// Position of its best step `[s]`.
    best: Vec<usize>,
    /// What it leaves and what there was `[s][l][odd prompt]`.
    sums: Vec<Vec<Vec<(f64, f64)>>>,
}

impl Judged {
    fn of(answers: &Answers, candidate: &Candidate, asked: &Asked, says: &[Vec<bool>]) -> Judged {
        let Distances { power, between, .. } = Distances::of(answers, &candidate.answers, asked);
        let (steps, theirs) = (answers.count(), candidate.answers.count());
        let lengths = 0..asked.lengths.len();
        let best: Vec<usize> = (0..steps)
            .map(|s| {
                let cost = |k: usize| {
                    // where nothing is said of any number of pairs, all count
                    let counts = |l: &usize| says[s][*l] || !says[s].contains(&true);
                    let share = |l: usize| {
                        let sum =
                            |of: &dyn Fn(usize) -> f64| (0..power[l].len()).step_by(2).map(of).sum::<f64>();
                        sum(&|b| between[l][b][s * theirs + k])
                            / sum(&|b| power[l][b][s]).max(f64::MIN_POSITIVE)
                    };
                    lengths.clone().filter(counts).map(share).sum::<f64>()
                };
                (0..theirs).map(|k| (k, cost(k))).min_by(|x, y| x.1.total_cmp(&y.1)).map_or(0, |(k, _)| k)
            })
            .collect();
        let sums = (0..steps)
            .map(|s| {
                let odd = |l: usize| (1..power[l].len()).step_by(2);
                let of = |l: usize| {
                    odd(l).map(|b| (between[l][b][s * theirs + best[s]], power[l][b][s])).collect()
                };
                lengths.clone().map(of).collect()
            })
            .collect();
        Judged { best, sums }
    }

    /// Share that it leaves `[s]`, mean over numbers of pairs.
    fn left(&self) -> Vec<f64> {
        let mean = |by_length: &Vec<Vec<(f64, f64)>>| {
            by_length.iter().map(|sums| ratio(sums, &|_| 1.0)).sum::<f64>() / by_length.len() as f64
        };
        self.sums.iter().map(mean).collect()
    }

    /// Mean share over what says something, each prompt counted so many times.
    fn score(&self, says: &[Vec<bool>], times: &dyn Fn(usize) -> f64) -> f64 {
        let all = self.sums.iter().zip(says).flat_map(|(sums, says)| sums.iter().zip(says));
        let (mut sum, mut count) = (0.0, 0.0);
        for (sums, _) in all.filter(|(_, says)| **says) {
            sum += ratio(sums, times);
            count += 1.0;
        }
        if count > 0.0 { sum / count } else { f64::NAN }
    }
}

/// Σ of the first over Σ of the second.
fn ratio(sums: &[(f64, f64)], times: &dyn Fn(usize) -> f64) -> f64 {
    let (mut above, mut below) = (0.0, 0.0);
    for (b, of) in sums.iter().enumerate() {
        above += times(b) * of.0;
        below += times(b) * of.1;
    }
    above / below.max(f64::MIN_POSITIVE)
}
