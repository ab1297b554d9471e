//! Best-matching steps: for each step of A the most similar step of B, and who is ahead where several are compared.

use std::ops::RangeBounds;

use crate::compare::similarity::{Heatmap, Metric};
use crate::data::seed::Seed;
use crate::learners::steps::Steps;
use crate::parallel;
use crate::stats::{Estimate, RESAMPLES, holm, interval, multiplicities, normal_tail};

/// For each step of A the best step of B, by position in B's steps.
#[derive(Clone, Debug)]
pub struct Matching {
    /// Steps of A.
    pub a: Steps,
    /// Steps of B that were searched.
    pub b: Steps,
    /// Position of the best step of B, where the map is defined.
    pub best: Vec<Option<usize>>,
    /// The similarity there.
    pub similarity: Vec<f64>,
    /// The best step between the searched ones: the vertex of the parabola through it and its neighbours. NaN where there is none.
    pub interpolated: Vec<f64>,
    /// `best` under each resampling of the prompts; empty until [`bootstrap`] fills it.
    pub resampled: Vec<Vec<Option<usize>>>,
    /// `interpolated` under each resampling of the prompts.
    pub resampled_interpolated: Vec<Vec<f64>>,
}

impl Matching {
    /// Best step of B for the step `a` of A.
    pub fn step_for(&self, a: u64) -> Option<u64> {
        self.best[self.a.position(a)?].map(|i| self.b.as_slice()[i])
    }

    /// Whether a match sits at the end of what was searched, so that the true one may lie beyond.
    pub fn at_edge(&self, best: usize) -> bool {
        self.b.len() > 1 && (best == 0 || best == self.b.len() - 1)
    }

    /// The best step of B between those that were searched, for the step at position `i` of A; an interval needs [`bootstrap`].
    pub fn optimum(&self, i: usize) -> Estimate {
        let (low, high) = interval(self.resampled_interpolated.iter().map(|r| r[i]).collect());
        Estimate { value: self.interpolated[i], low, high }
    }

    /// 95 % bootstrap interval of the best position, per step of A.
    pub fn intervals(&self) -> Vec<Option<(usize, usize)>> {
        (0..self.best.len())
            .map(|i| {
                let mut seen: Vec<usize> = self.resampled.iter().filter_map(|r| r[i]).collect();
                seen.sort_unstable();
                let at = |q: f64| seen[((seen.len() - 1) as f64 * q).round() as usize];
                (!seen.is_empty()).then(|| (at(0.025), at(0.975)))
            })
            .collect()
    }

    /// The same as steps of B.
    pub fn step_intervals(&self) -> Vec<Option<(u64, u64)>> {
        let step = |i: usize| self.b.as_slice()[i];
        self.intervals().into_iter().map(|i| i.map(|(low, high)| (step(low), step(high)))).collect()
    }
}

/// Best match on all prompts.
pub fn best_match(map: &Heatmap) -> Matching {
    let rows: Vec<Vec<f64>> = map.mean.outer_iter().map(|row| row.to_vec()).collect();
    let best: Vec<Option<usize>> = rows.iter().map(|row| best_of(row, map.metric)).collect();
    let similarity = best.iter().zip(&rows).map(|(b, row)| b.map_or(f64::NAN, |b| row[b])).collect();
    let interpolated =
        best.iter().zip(&rows).map(|(b, row)| optimum(row, *b, &map.b.steps, map.metric)).collect();
    Matching {
        a: map.a.steps.clone(),
        b: map.b.steps.clone(),
        best,
        similarity,
        interpolated,
        resampled: Vec::new(),
        resampled_interpolated: Vec::new(),
    }
}

/// Best match with the matches under resampled prompts.
pub fn bootstrap(map: &Heatmap, seed: Seed) -> Matching {
    let found = parallel::map(RESAMPLES, |r| {
        let times = multiplicities(seed, r, map.prompts());
        let of_step = |i: usize| {
            let row = resampled_row(map, i, &times);
            let best = best_of(&row, map.metric);
            (best, optimum(&row, best, &map.b.steps, map.metric))
        };
        (0..map.a.steps.len()).map(of_step).unzip()
    });
    let (resampled, resampled_interpolated) = found.into_iter().unzip();
    Matching { resampled, resampled_interpolated, ..best_match(map) }
}

/// The best step between the searched ones: the vertex of the parabola through the best and its two neighbours, over the step
/// where these are about evenly spaced and over its logarithm where the spacing grows. The searched step itself at an end of
/// the search, beside an undefined cell and where the two agree exactly; NaN without a best.
fn optimum(row: &[f64], best: Option<usize>, steps: &Steps, metric: Metric) -> f64 {
    let Some(best) = best else { return f64::NAN };
    let steps = steps.as_slice();
    let here = steps[best] as f64;
    let exact = match metric {
        Metric::Cosine => row[best] > 1.0 - 1e-9,
        Metric::Distance => row[best] < 1e-9,
    };
    if best == 0 || best + 1 == steps.len() || exact {
        return here;
    }
    let (before, after) = (steps[best - 1] as f64, steps[best + 1] as f64);
    let even = before == 0.0 || after - here <= 1.25 * (here - before);
    let scale = |step: f64| if even { step } else { step.ln() };
    let (left, right) = (scale(here) - scale(before), scale(after) - scale(here));
    // the slope is that of each secant in its middle, and 0 in between
    let (to_here, from_here) = ((row[best] - row[best - 1]) / left, (row[best + 1] - row[best]) / right);
    let shift = (to_here * right + from_here * left) / (2.0 * (to_here - from_here));
    match shift.is_finite() {
        true if even => here + shift,
        true => here * shift.exp(),
        false => here,
    }
}

/// For each step of A, how much more similar the best step of one learner is than the best step of another, on the same
/// prompts; resampled in pairs and with the best steps chosen anew each time. An interval that holds 0 means that the two
/// cannot be told apart there.
pub fn advantage(one: &Heatmap, other: &Heatmap, seed: Seed) -> Vec<Estimate> {
    let (values, resampled) = differences(one, &[other], seed);
    (0..one.a.steps.len())
        .map(|i| {
            let (low, high) = interval(resampled.iter().map(|r| r[i]).collect());
            Estimate { value: values[i], low, high }
        })
        .collect()
}

/// Whether one learner is ahead of another at a step of A.
#[derive(Clone, Copy, Debug)]
pub struct Lead {
    /// The step of A, a layer say.
    pub step: u64,
    /// Which of the others, by position.
    pub other: usize,
    /// How much more similar the one is than the other, each at its best step; negative where the other is ahead.
    pub difference: Estimate,
    /// Of the lead in the direction in which it points, against none above [`MARGIN`]: one-sided, adjusted by Holm.
    pub p: f64,
}

impl Lead {
    /// Whether the one is ahead beyond doubt.
    pub fn first(&self) -> bool {
        self.difference.value > 0.0 && self.beyond_doubt()
    }

    /// Whether the other is ahead beyond doubt.
    pub fn second(&self) -> bool {
        self.difference.value < 0.0 && self.beyond_doubt()
    }

    /// Whether either is. 2.5 % for each direction, so that 5 % are left for any false lead at all.
    pub fn beyond_doubt(&self) -> bool {
        self.p < 0.025
    }
}

/// The smallest lead that counts, in units of similarity: what two solvers that have both converged differ by.
pub const MARGIN: f64 = 0.001;

/// At which of the steps of A in `steps`, layers say, is one learner more similar than each of the others, or less, by more than
/// [`MARGIN`] and beyond doubt? Differences are paired on shared prompts, with the best steps chosen anew in each resample; a
/// p-value follows from the difference and the bootstrap's standard deviation, and Holm's method keeps the chance of any false
/// lead, over all steps and all others, at what it is for one.
pub fn ahead(one: &Heatmap, others: &[&Heatmap], steps: impl RangeBounds<u64>, seed: Seed) -> Vec<Lead> {
    let (values, resampled) = differences(one, others, seed);
    let layers = one.a.steps.as_slice();
    let asked = (0..values.len()).map(|cell| (cell, layers[cell % layers.len()]));
    let leads: Vec<(Lead, f64)> = asked
        .filter(|(_, step)| steps.contains(step))
        .map(|(cell, step)| {
            let seen: Vec<f64> = resampled.iter().map(|r| r[cell]).collect();
            let spread = standard_deviation(&seen);
            let (low, high) = interval(seen);
            let difference = Estimate { value: values[cell], low, high };
            (Lead { step, other: cell / layers.len(), difference, p: 1.0 }, spread)
        })
        .collect();
    // each direction is a family of its own; a lead belongs to the one in which it points
    let tail = |(lead, spread): &(Lead, f64), sign: f64| {
        let above = sign * lead.difference.value - MARGIN;
        if *spread > 0.0 { normal_tail(above / spread) } else { f64::from(above <= 0.0) }
    };
    let family = |sign: f64| holm(&leads.iter().map(|lead| tail(lead, sign)).collect::<Vec<_>>());
    let (first, second) = (family(1.0), family(-1.0));
    leads
        .into_iter()
        .zip(first.into_iter().zip(second))
        .map(|((lead, _), (first, second))| Lead {
            p: if lead.difference.value < 0.0 { second } else { first },
            ..lead
        })
        .collect()
}

/// How much more similar the best step of `one` is than the best step of each of `others`, `[other × step of A]`, on all prompts
/// and under each resample.
fn differences(one: &Heatmap, others: &[&Heatmap], seed: Seed) -> (Vec<f64>, Vec<Vec<f64>>) {
    for other in others {
        assert_eq!(one.prompts(), other.prompts(), "maps of the same prompts");
        assert_eq!(one.a.steps, other.a.steps, "maps of the same steps");
    }
    let best = |map: &Heatmap, i: usize, times: &[f64]| {
        let row = resampled_row(map, i, times);
        let closeness = if map.metric == Metric::Cosine { 1.0 } else { -1.0 };
        best_of(&row, map.metric).map_or(f64::NAN, |b| closeness * row[b])
    };
    let under = |times: &[f64]| -> Vec<f64> {
        let rows = 0..one.a.steps.len();
        let ones: Vec<f64> = rows.clone().map(|i| best(one, i, times)).collect();
        let all = others.iter().flat_map(|other| rows.clone().map(|i| ones[i] - best(other, i, times)));
        all.collect()
    };
    let resampled = parallel::map(RESAMPLES, |r| under(&multiplicities(seed, r, one.prompts())));
    (under(&vec![1.0; one.prompts()]), resampled)
}

/// Similarity of a step of A with every step of B where each prompt occurs so many times; what is undefined on all prompts
/// stays undefined.
fn resampled_row(map: &Heatmap, i: usize, times: &[f64]) -> Vec<f64> {
    let (_, nb, count) = map.per_prompt.dim();
    let cells = map.per_prompt.as_slice().expect("standard layout");
    let mean = |j: usize| weighted_mean(&cells[(i * nb + j) * count..(i * nb + j + 1) * count], times);
    (0..nb).map(|j| if map.mean[[i, j]].is_nan() { f64::NAN } else { mean(j) }).collect()
}

fn standard_deviation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt()
}

/// Mean of the values that are not NaN, each counted `times`.
fn weighted_mean(values: &[f64], times: &[f64]) -> f64 {
    let sum = crate::linalg::dot(values, times);
    if !sum.is_nan() {
        return sum / values.len() as f64;
    }
    let valid = values.iter().zip(times).filter(|(v, _)| !v.is_nan());
    let (sum, weight) = valid.fold((0.0, 0.0), |(s, w), (v, t)| (s + v * t, w + t));
    sum / weight
}

fn best_of(row: &[f64], metric: Metric) -> Option<usize> {
    let better = |x: f64, y: f64| match metric {
        Metric::Cosine => x > y,
        Metric::Distance => x < y,
    };
    let mut best: Option<usize> = None;
    for (j, v) in row.iter().enumerate().filter(|(_, v)| !v.is_nan()) {
        if best.is_none_or(|b| better(*v, row[b])) {
            best = Some(j);
        }
    }
    best
}

#[cfg(test)]
impl Matching {
    /// Matches that are given.
    pub(super) fn known(a: Steps, b: Steps, best: Vec<Option<usize>>) -> Matching {
        let step = |best: &Option<usize>| best.map_or(f64::NAN, |i| b.as_slice()[i] as f64);
        let interpolated = best.iter().map(step).collect();
        let (resampled, resampled_interpolated) = (vec![], vec![]);
        let similarity = vec![1.0; best.len()];
        Matching { a, b, best, similarity, interpolated, resampled, resampled_interpolated }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array3;

    use super::*;
    use crate::compare::similarity::Side;
    use crate::learners::Unit;
    use crate::registry::Id;

    fn map(steps: Steps, per_prompt: Array3<f64>) -> Heatmap {
        let side = |steps| Side {
            learner: Id { name: "made".into(), given: Default::default() },
            unit: Unit::Layer,
            steps,
        };
        let layers = Steps::range(1, per_prompt.dim().0 as u64);
        Heatmap::new(side(layers), side(steps), Metric::Cosine, "SimE", per_prompt)
    }

    /// Similarities of twelve layers with 21 steps on 200 prompts that share their difficulty, highest at step 10.3.
    fn noisy(name: &str, seed: u64, lead: impl Fn(usize) -> f64) -> Heatmap {
        let draw = |stream: &str, i: usize| Seed(seed).at(stream, i as u64).normal();
        let value = |(i, j, b): (usize, usize, usize)| {
            let away = (j as f64 - 10.3) / 20.0;
            let own = 0.004 * draw(name, (i * 21 + j) * 200 + b);
            0.99 - 0.05 * away * away + lead(i) + 0.02 * draw("shared", b) + own
        };
        map(Steps::range(0, 20), Array3::from_shape_fn((12, 21, 200), value))
    }

    #[test]
    fn an_optimum_between_the_searched_steps_is_found_on_either_grid() {
        let peak = |steps: &str, scale: fn(f64) -> f64, top: f64| {
            let steps = Steps::parse(steps).unwrap();
            let height = |s: u64| 1.0 - (scale(s as f64) - scale(top)).powi(2);
            let row: Vec<f64> = steps.as_slice().iter().map(|&s| height(s)).collect();
            optimum(&row, best_of(&row, Metric::Cosine), &steps, Metric::Cosine)
        };
        assert!((peak("0..=30", |s| s, 20.7) - 20.7).abs() < 1e-9);
        assert!((peak("pow2:0..=12", f64::ln, 100.0) - 100.0).abs() < 1e-6);
        assert!((peak("64,91,128,181", f64::ln, 100.0) - 100.0).abs() < 1e-6);
        assert!((peak("1,50..=1300/50", |s| s, 68.0) - 68.0).abs() < 1e-6);
        assert_eq!((peak("0..=30", |s| s, 44.0), peak("5..=30", |s| s, 1.0)), (30.0, 5.0));
        let steps = Steps::range(0, 3);
        assert_eq!(optimum(&[0.1, 0.5, f64::NAN, 0.2], Some(1), &steps, Metric::Cosine), 1.0);
        assert_eq!(optimum(&[0.5; 4], Some(1), &steps, Metric::Cosine), 1.0, "flat: any is as good");
        assert!(optimum(&[f64::NAN; 4], None, &steps, Metric::Cosine).is_nan());
    }

    #[test]
    fn the_interval_of_an_optimum_holds_it_though_the_grid_does_not() {
        let found = bootstrap(&noisy("one", 3, |_| 0.0), Seed(1));
        let held = (0..12).filter(|&i| {
            let Estimate { value, low, high } = found.optimum(i);
            assert!(low < high && low <= value && value <= high);
            low <= 10.3 && 10.3 <= high
        });
        assert!(held.count() >= 10);
    }

    #[test]
    fn where_nobody_is_ahead_hardly_anybody_is_found_to_be() {
        let any = |seed: u64| {
            let maps = ["one", "two", "three"].map(|name| noisy(name, seed, |_| 0.0));
            ahead(&maps[0], &[&maps[1], &maps[2]], .., Seed(seed)).iter().any(Lead::beyond_doubt)
        };
        let leads = (0..20).filter(|&seed| any(seed)).count();
        assert!(leads <= 2, "{leads} of 20 families of 24 comparisons"); // at most 1 expected
    }

    #[test]
    fn a_planted_lead_is_found_and_one_within_the_margin_is_not() {
        let one = noisy("one", 5, |i| [0.005, 0.0, 0.0008][i % 3]);
        let other = noisy("two", 5, |i| [0.0, 0.005, 0.0][i % 3]);
        let found = ahead(&one, &[&other], 4.., Seed(2));
        assert_eq!(found.iter().map(|lead| lead.step).collect::<Vec<_>>(), (4..=12).collect::<Vec<_>>());
        for lead in &found {
            let expected = [(true, false), (false, true), (false, false)][(lead.step as usize - 1) % 3];
            assert_eq!((lead.first(), lead.second()), expected, "{lead:?}");
        }
        let backwards = ahead(&other, &[&one], 4.., Seed(2));
        for (lead, back) in found.iter().zip(&backwards) {
            assert_eq!((lead.first(), lead.second()), (back.second(), back.first()));
        }
        assert!(ahead(&one, &[&one], .., Seed(2)).iter().all(|lead| lead.p == 1.0));
    }
}
