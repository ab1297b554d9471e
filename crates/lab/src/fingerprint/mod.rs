//! Spectral fingerprints: what a learner does to each eigen-direction of S = XᵀX, step by step.
//!
//! Similarity of errors cannot tell Newton from gradient descent with enough steps. The weights that a learner's answers
//! imply can: GD, Newton and all their kin answer with w = f(S) w_OLS, and differ in the filter f. Newton from αS has
//! f(λ) = 1−(1−αλ²)^(2ᵏ), GD 1−(1−ηλ)ᵐ, and Newton from ηI 1−(1−ηλ)^(2ᵏ): gradient descent with 2ᵏ steps, exactly.
//!
//! asked: prompts in the eigenbasis; filter: f with its knots; shape: its exponent; return_map: from step to step; degree:
//! how many products with S there must have been; naming: which of some algorithms; linearity: in the query and the labels;
//! units: of the eigenvalues; shown: words, figures, tables and arrays; plan: the whole by name, for `iclab fingerprint`.
//!
//! ```
//! use lab::fingerprint::{Asked, Fingerprint, Options, Scale};
//! use lab::prelude::*;
//!
//! let questions = Task::new("linear", "gaussian", 5, 16)?.questions(Seed(0), "eval", 0, 64, vec![15], 10);
//! let asked = Asked::fresh(questions, Scale::One)?;
//! let newton = solvers::build("newton:start=identity")?;
//! let found = Fingerprint::of(&*newton, &Steps::range(0, 6), &asked, &Options { knots: 8, ..Options::default() })?;
//! let after = &found.lengths[0]; // after 15 pairs
//! let map = after.maps[2].expect("from step 2 to step 3");
//! assert!((map.a.value - 2.0).abs() < 0.05 && (map.b.value - 1.0).abs() < 0.05); // f ← 2f − f²
//! # Ok::<(), Error>(())
//! ```

mod asked;
mod degree;
mod filter;
mod judged;
mod linearity;
mod naming;
pub mod plan;
mod return_map;
mod shape;
pub mod shown;
mod units;

use rayon::prelude::*;

pub use asked::{Answers, Asked, Scale};
pub use filter::Knots;
pub use linearity::Linearity;
pub use naming::{Candidate, Named, Naming};
pub use units::{ByUnit, Unexplained, by_unit};

use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::learners::steps::Steps;
use crate::learners::{Learner, Unit};
use crate::linalg::dot;
use crate::registry::Id;
use crate::stats::{Estimate, interval, median_of, multiplicities};
use asked::Eigen;
use filter::{EIGENVALUES_PER_KNOT, evidence, fit, parts};

/// How many times prompts are resampled: each time with filters, shapes and maps of its own.
const RESAMPLES: usize = 300;

/// The widest that the intervals of a filter may be, on average, for a shape or a map.
const WIDE: f64 = 0.2;

/// How a fingerprint is taken.
#[derive(Clone, Debug)]
pub struct Options {
    /// Eigenvalues at which filters are measured.
    pub knots: usize,
    /// Of resampled prompts.
    pub seed: Seed,
}

impl Default for Options {
    fn default() -> Self {
        Options { knots: 12, seed: Seed(0) }
    }
}

/// What a learner does to each eigen-direction, after each of its steps and some numbers of pairs.
#[derive(Clone, Debug)]
pub struct Fingerprint {
    /// Whose.
    pub learner: Id,
    /// What a step is.
    pub unit: Unit,
    /// Its steps.
    pub steps: Steps,
    /// Prompts it was taken from.
    pub prompts: usize,
    /// After each number of pairs, ascending.
    pub lengths: Vec<AfterPairs>,
}

/// A fingerprint after one number of pairs. Intervals are over resampled prompts.
#[derive(Clone, Debug)]
pub struct AfterPairs {
    /// Pairs read, t.
    pub pairs: usize,
    /// Eigenvalues at which filters are measured.
    pub knots: Knots,
    /// f `[s][k]`.
    pub filters: Vec<Vec<Estimate>>,
    /// Power of the answers less those of least squares over the power of those `[s]`: what is still to do.
    pub remaining: Vec<Estimate>,
    /// Share of w − w_OLS that no filter explains `[s]`, by the answers, fitted on half of the prompts and judged on the other.
    pub unexplained: Vec<Estimate>,
    /// Share of ‖w‖² outside of the directions that the pairs have read `[s]`; empty when t ≥ d, or with fewer than 2d queries.
    pub outside: Vec<f64>,
    /// Shape of the filter `[s]`; none where it has not begun, is done, or is hardly known.
    pub shapes: Vec<Option<Shape>>,
    /// From each recorded step to the next `[s−1]`; none where filters say too little.
    pub maps: Vec<Option<ReturnMap>>,
    /// The means of all shapes and all maps.
    pub overall: Overall,
    /// Lowest degree of a polynomial that comes as close to w_OLS, median over prompts `[s]`; none where no degree is enough,
    /// empty with fewer than 2d queries.
    pub degrees: Vec<Option<usize>>,
}

/// f(λ) = 1 − exp(−(λ/λ_c)^p)
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// p: near 1 for GD and Newton from ηI, near 2 for Newton from αS.
    pub exponent: Estimate,
    /// λ_c: where f is 1 − 1/e.
    pub cutoff: Estimate,
}

/// f_{s+1} = a f_s − b f_s²
#[derive(Clone, Copy, Debug)]
pub struct ReturnMap {
    /// a: 2 for a Newton iteration.
    pub a: Estimate,
    /// b: 1 for a Newton iteration.
    pub b: Estimate,
    /// r of f_{s+1} = 1 − (1−f_s)^r.
    pub order: Estimate,
}

/// Means over the steps that have a shape and over those that have a map.
#[derive(Clone, Copy, Debug)]
pub struct Overall {
    /// p of the shapes.
    pub exponent: Estimate,
    /// a of the maps.
    pub a: Estimate,
    /// b of the maps.
    pub b: Estimate,
    /// log₂ of the order: Newton iterations that a step is worth.
    pub iterations: Estimate,
}

impl Fingerprint {
    /// Asks a learner and takes its fingerprint.
    pub fn of(learner: &dyn Learner, steps: &Steps, asked: &Asked, options: &Options) -> Result<Fingerprint> {
        let answers = asked.ask(learner, steps)?;
        Fingerprint::from_answers(learner, &answers, asked, options)
    }

    /// Takes the fingerprint of answers that `learner` gave.
    pub fn from_answers(
        learner: &dyn Learner,
        answers: &Answers,
        asked: &Asked,
        options: &Options,
    ) -> Result<Fingerprint> {
        let per_length = (0..asked.lengths.len()).map(|l| AfterPairs::of(asked, answers, l, options));
        Ok(Fingerprint {
            learner: learner.id(),
            unit: learner.unit(),
            steps: answers.steps.clone(),
            prompts: asked.prompts(),
            lengths: per_length.collect::<Result<_>>()?,
        })
    }

    /// The part of it after `pairs` pairs.
    pub fn after(&self, pairs: usize) -> Option<&AfterPairs> {
        self.lengths.iter().find(|after| after.pairs == pairs)
    }
}

impl AfterPairs {
    fn of(asked: &Asked, answers: &Answers, l: usize, options: &Options) -> Result<AfterPairs> {
        let knots = knots(asked, l, options.knots)?;
        let parts = parts(&knots, asked, l, answers);
        let steps = answers.count();
        let weights = evidence(&parts, knots.count());
        let fitted = |times: &[f64]| fit(parts.iter().zip(times.iter().copied()), knots.count(), steps);
        let held_out = fit(parts.iter().step_by(2).map(|part| (part, 1.0)), knots.count(), steps);
        let odd = Resamples::of(options.seed, parts.len() / 2);
        let unexplained = (0..steps).map(|s| {
            let parts = parts.iter().skip(1).step_by(2);
            odd.share(&parts.map(|part| (part.left(s, &held_out[s]), part.power[s])).collect::<Vec<_>>())
        });
        let unexplained: Vec<Estimate> = unexplained.collect();
        let all = Resamples::of(options.seed, parts.len());
        let remaining = (0..steps)
            .map(|s| all.share(&parts.iter().map(|part| (part.power[s], part.exact)).collect::<Vec<_>>()))
            .collect();

        let whole = Derived::of(&knots, &weights, fitted(&vec![1.0; parts.len()]), None);
        let resampled: Vec<Derived> = all
            .times
            .par_iter()
            .map(|times| Derived::of(&knots, &weights, fitted(times), Some(&whole)))
            .collect();
        let estimate = |value: &dyn Fn(&Derived) -> f64| {
            let (low, high) = interval(resampled.iter().map(value).collect());
            Estimate { value: value(&whole), low, high }
        };
        let filters: Vec<Vec<Estimate>> = (0..steps)
            .map(|s| (0..knots.count()).map(|k| estimate(&|d| d.filters[s][k])).collect())
            .collect();
        // whether the filter of a step is known well enough; how much of the step it explains is another question
        let known = |s: usize| {
            let filter: &[Estimate] = &filters[s];
            let widths = filter.iter().zip(&weights).map(|(f, weight)| weight * (f.high - f.low));
            widths.sum::<f64>() <= WIDE * weights.iter().sum::<f64>()
        };
        // what most resamples lack is not there
        let mostly = |has: &dyn Fn(&Derived) -> bool| {
            has(&whole) && 10 * resampled.iter().filter(|d| has(d)).count() >= 9 * resampled.len()
        };
        let shaped: Vec<bool> = (0..steps).map(|s| known(s) && mostly(&|d| d.shapes[s].is_some())).collect();
        let mapped: Vec<bool> =
            (1..steps).map(|s| known(s - 1) && known(s) && mostly(&|d| d.maps[s - 1].is_some())).collect();
        let shape = |d: &Derived, s: usize, i: usize| d.shapes[s].map_or(f64::NAN, |(p, c)| [p, c][i]);
        let map = |d: &Derived, s: usize, i: usize| d.maps[s].map_or(f64::NAN, |map| map[i]);
        let shapes = shaped.iter().enumerate().map(|(s, shaped)| {
            let of = |i: usize| estimate(&|d| shape(d, s, i));
            shaped.then(|| Shape { exponent: of(0), cutoff: of(1) })
        });
        let maps = mapped.iter().enumerate().map(|(s, mapped)| {
            let of = |i: usize| estimate(&|d| map(d, s, i));
            mapped.then(|| ReturnMap { a: of(0), b: of(1), order: of(2) })
        });
        let (shapes, maps) = (shapes.collect(), maps.collect());
        // over the same steps in every resample
        let mean = |which: &[bool], of: &dyn Fn(usize) -> f64| {
            let chosen = which.iter().enumerate().filter(|(_, chosen)| **chosen).map(|(s, _)| of(s));
            let known: Vec<f64> = chosen.filter(|v| v.is_finite()).collect();
            known.iter().sum::<f64>() / known.len() as f64
        };
        let overall = Overall {
            exponent: estimate(&|d| mean(&shaped, &|s| shape(d, s, 0))),
            a: estimate(&|d| mean(&mapped, &|s| map(d, s, 0))),
            b: estimate(&|d| mean(&mapped, &|s| map(d, s, 1))),
            iterations: estimate(&|d| mean(&mapped, &|s| map(d, s, 2).log2())),
        };
        let (outside, degrees) = by_weights(asked, answers, l);
        let pairs = asked.lengths[l];
        Ok(AfterPairs {
            pairs,
            knots,
            filters,
            remaining,
            unexplained,
            outside,
            shapes,
            maps,
            overall,
            degrees,
        })
    }

    /// The filter after recorded step number `s`, without intervals.
    pub fn filter(&self, s: usize) -> Vec<f64> {
        self.filters[s].iter().map(|f| f.value).collect()
    }
}

/// The knots of one number of pairs; refuses more than the eigenvalues can tell.
fn knots(asked: &Asked, l: usize, wanted: usize) -> Result<Knots> {
    let problems = &asked.problems[l];
    let eigenvalues: usize = problems.iter().map(|p| p.values.len()).sum();
    // of a single query only a mixture of directions is seen
    let seen = if asked.fresh_queries() { eigenvalues } else { problems.len() };
    let most = seen / EIGENVALUES_PER_KNOT;
    if (4..=most).contains(&wanted) {
        return Ok(Knots::over(problems, wanted));
    }
    let prompts = |knots: usize| (knots * EIGENVALUES_PER_KNOT * problems.len()).div_ceil(seen);
    let accepted = match most {
        0..4 => format!("at least {} prompts, or {} with 4 knots", prompts(wanted.max(4)), prompts(4)),
        most if wanted < 4 => format!("from 4 to {most} knots"),
        most => format!("from 4 to {most} knots, or at least {} prompts", prompts(wanted)),
    };
    Err(Error::BadData(format!(
        "filters at {wanted} knots from {} prompts after {} pairs; accepted: {accepted}",
        problems.len(),
        asked.lengths[l]
    )))
}

/// Filters of some prompts and what follows from them.
struct Derived {
    filters: Vec<Vec<f64>>,
    shapes: Vec<Option<(f64, f64)>>,
    maps: Vec<Option<[f64; 3]>>,
}

impl Derived {
    /// What follows from filters; the shapes of others, if there are, are near enough to start from.
    fn of(knots: &Knots, weights: &[f64], filters: Vec<Vec<f64>>, near: Option<&Derived>) -> Derived {
        let shapes = filters.iter().enumerate().map(|(s, f)| {
            let near = near.and_then(|near| near.shapes[s]);
            shape::fit(&knots.values, weights, f, near)
        });
        let shapes = shapes.collect();
        let maps = filters.windows(2).map(|pair| return_map::fit(weights, &pair[0], &pair[1])).collect();
        Derived { filters, shapes, maps }
    }
}

/// How often each prompt occurs in each resample.
struct Resamples {
    /// `[resample][b]`
    times: Vec<Vec<f64>>,
}

impl Resamples {
    fn of(seed: Seed, count: usize) -> Resamples {
        Resamples { times: (0..RESAMPLES).into_par_iter().map(|r| multiplicities(seed, r, count)).collect() }
    }

    /// Σ of the first over Σ of the second of each prompt, with its interval.
    fn share(&self, sums: &[(f64, f64)]) -> Estimate {
        let of = |times: &mut dyn Iterator<Item = f64>| {
            let (mut above, mut below) = (0.0, 0.0);
            for (of, times) in sums.iter().zip(times) {
                above += times * of.0;
                below += times * of.1;
            }
            if below > 0.0 { above / below } else { f64::NAN }
        };
        let resampled = self.times.iter().map(|times| of(&mut times.iter().copied()));
        let (low, high) = interval(resampled.collect());
        Estimate { value: of(&mut std::iter::repeat(1.0)), low, high }
    }
}

/// Share of ‖w‖² outside of what was read `[s]`, and the median over prompts of the lowest degree `[s]`, by the weights that
/// answers imply; both empty where queries are too few, the first where everything was read.
fn by_weights(asked: &Asked, answers: &Answers, l: usize) -> (Vec<f64>, Vec<Option<usize>>) {
    let (problems, dim) = (&asked.problems[l], asked.dim());
    let of = |b: usize| Some((&problems[b], asked.induced(b, &answers.of[l][b])?));
    let Some(all): Option<Vec<(&Eigen, Vec<f64>)>> = (0..problems.len()).into_par_iter().map(of).collect()
    else {
        return (Vec::new(), Vec::new());
    };
    let outside = |s: usize| {
        let (mut inside, mut whole) = (0.0, 0.0);
        for (problem, weights) in &all {
            let w = &weights[s * dim..(s + 1) * dim];
            let along = problem.along(w);
            inside += dot(&along, &along);
            whole += dot(w, w);
        }
        if whole > 0.0 { (1.0 - inside / whole).max(0.0) } else { 0.0 }
    };
    let steps = 0..answers.count();
    let outside = if asked.lengths[l] < dim { steps.clone().map(outside).collect() } else { Vec::new() };
    let degrees: Vec<Vec<Option<usize>>> =
        all.par_iter().map(|(problem, weights)| degree::lowest(problem, weights, dim)).collect();
    let every: Vec<usize> = (0..problems.len()).collect();
    let median = |s: usize| {
        let of = degrees.iter().map(|found| found[s].map_or(f64::INFINITY, |degree| degree as f64));
        let median = median_of(&of.collect::<Vec<_>>(), &every);
        median.is_finite().then_some(median as usize)
    };
    (outside, steps.map(median).collect())
}

#[cfg(test)]
mod tests;
