//! A fingerprint after one number of pairs, taken from answers: filters first, then what follows from them, each under the same
//! resampled prompts.

use super::asked::{Answers, Asked, Eigen};
use super::filter::{EIGENVALUES_PER_KNOT, Knots, evidence, fit, parts};
use super::{AfterPairs, Options, Overall, RESAMPLES, ReturnMap, Shape, degree, return_map, shape};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::linalg::dot;
use crate::parallel;
use crate::stats::{Estimate, interval, median_of, multiplicities};

/// The widest that the intervals of a filter may be, on average, for a shape or a map.
const WIDE: f64 = 0.2;

impl AfterPairs {
    pub(super) fn of(asked: &Asked, answers: &Answers, l: usize, options: &Options) -> Result<AfterPairs> {
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
        let resample = |times: &Vec<f64>| Derived::of(&knots, &weights, fitted(times), Some(&whole));
        let resampled = parallel::map_items(&all.times, resample);
        let under = Resampled { whole, resampled };
        let filters: Vec<Vec<Estimate>> = (0..steps)
            .map(|s| (0..knots.count()).map(|k| under.estimate(|d| d.filters[s][k])).collect())
            .collect();
        // whether the filter of a step is known well enough; how much of the step it explains is another question
        let known = |s: usize| {
            let widths = filters[s].iter().zip(&weights).map(|(f, weight)| weight * (f.high - f.low));
            widths.sum::<f64>() <= WIDE * weights.iter().sum::<f64>()
        };
        let shaped: Vec<usize> =
            (0..steps).filter(|&s| known(s) && under.mostly(|d| d.shapes[s].is_some())).collect();
        let mapped: Vec<usize> = (1..steps)
            .filter(|&s| known(s - 1) && known(s) && under.mostly(|d| d.maps[s - 1].is_some()))
            .map(|s| s - 1)
            .collect();
        let shape = |s: usize| {
            let of = |i: usize| under.estimate(|d| d.shape(s)[i]);
            shaped.contains(&s).then(|| Shape { exponent: of(0), cutoff: of(1) })
        };
        let map = |s: usize| {
            let of = |i: usize| under.estimate(|d| d.map(s)[i]);
            mapped.contains(&s).then(|| ReturnMap { a: of(0), b: of(1), order: of(2) })
        };
        let overall = Overall {
            exponent: under.mean(&shaped, |d, s| d.shape(s)[0]),
            a: under.mean(&mapped, |d, s| d.map(s)[0]),
            b: under.mean(&mapped, |d, s| d.map(s)[1]),
            iterations: under.mean(&mapped, |d, s| d.map(s)[2].log2()),
        };
        let shapes = (0..steps).map(shape).collect();
        let maps = (1..steps).map(|s| map(s - 1)).collect();
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
}

/// The knots of one number of pairs; refuses more than the eigenvalues can tell.
pub(super) fn knots(asked: &Asked, l: usize, wanted: usize) -> Result<Knots> {
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

    /// p and λ_c; not a number where there is no shape.
    fn shape(&self, s: usize) -> [f64; 2] {
        self.shapes[s].map_or([f64::NAN; 2], |(p, cutoff)| [p, cutoff])
    }

    /// a, b and the order; not a number where there is no map.
    fn map(&self, s: usize) -> [f64; 3] {
        self.maps[s].unwrap_or([f64::NAN; 3])
    }
}

/// What follows from all prompts, and from each resample of them.
struct Resampled {
    whole: Derived,
    resampled: Vec<Derived>,
}

impl Resampled {
    fn estimate(&self, value: impl Fn(&Derived) -> f64) -> Estimate {
        let (low, high) = interval(self.resampled.iter().map(&value).collect());
        Estimate { value: value(&self.whole), low, high }
    }

    /// The mean over some steps, the same in every resample.
    fn mean(&self, steps: &[usize], value: impl Fn(&Derived, usize) -> f64) -> Estimate {
        self.estimate(|derived| {
            let values = steps.iter().map(|&s| value(derived, s)).filter(|v| v.is_finite());
            let known: Vec<f64> = values.collect();
            known.iter().sum::<f64>() / known.len() as f64
        })
    }

    /// Whether something is there: what most resamples lack is not.
    fn mostly(&self, has: impl Fn(&Derived) -> bool) -> bool {
        has(&self.whole) && 10 * self.resampled.iter().filter(|d| has(d)).count() >= 9 * self.resampled.len()
    }
}

/// How often each prompt occurs in each resample.
pub(super) struct Resamples {
    /// `[resample][b]`
    times: Vec<Vec<f64>>,
}

impl Resamples {
    pub fn of(seed: Seed, count: usize) -> Resamples {
        Resamples { times: parallel::map(RESAMPLES, |r| multiplicities(seed, r, count)) }
    }

    /// Σ of the first over Σ of the second of each prompt, with its interval.
    pub fn share(&self, sums: &[(f64, f64)]) -> Estimate {
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
    let all = parallel::map(problems.len(), of);
    let Some(all): Option<Vec<(&Eigen, Vec<f64>)>> = all.into_iter().collect() else {
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
        parallel::map_items(&all, |(problem, weights)| degree::lowest(problem, weights, dim));
    let every: Vec<usize> = (0..problems.len()).collect();
    let median = |s: usize| {
        let of = degrees.iter().map(|found| found[s].map_or(f64::INFINITY, |degree| degree as f64));
        let median = median_of(&of.collect::<Vec<_>>(), &every);
        median.is_finite().then_some(median as usize)
    };
    (outside, steps.map(median).collect())
}
