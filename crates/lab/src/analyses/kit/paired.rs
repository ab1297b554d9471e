//! One network against two baselines on the same prompts: what is said of both at once is resampled with both at once.

use super::compared::Compared;
use crate::compare::matching::Matching;
use crate::compare::rates::{Trend, fit_rate};
use crate::data::seed::Seed;
use crate::stats::{Estimate, interval, mean};

/// A statistic of the best matches with two baselines, each given under the same resampled prompts.
pub fn paired(one: &Compared, other: &Compared, statistic: impl Fn(&Matching, &Matching) -> f64) -> Estimate {
    let [bare_one, bare_other] = [one, other].map(|of| bare(&of.matching));
    let (low, high) = interval(
        (0..one.matching.resampled.len().min(other.matching.resampled.len()))
            .map(|r| statistic(&under(&bare_one, &one.matching, r), &under(&bare_other, &other.matching, r)))
            .collect(),
    );
    Estimate { value: statistic(&bare_one, &bare_other), low, high }
}

/// Steps of one baseline per layer, by the line, over doublings of the other's steps per layer, by the exponential; fitted to the
/// same layers.
pub fn slope_ratio(one: &Compared, other: &Compared, layers: Option<(u64, u64)>) -> Estimate {
    let Some((first, last)) = layers else { return Estimate::NONE };
    let slope = |of: &Matching, trend: Trend| {
        fit_rate(of, first, last).map_or(f64::NAN, |fit| fit.per_step(trend).value)
    };
    paired(one, other, |one, other| slope(one, Trend::Linear) / slope(other, Trend::Exponential))
}

/// How much more similar a network is to one baseline than to another, each at its best step, on average over the layers from
/// `first` on. Prompts on which either diverges are left out.
pub fn lead(one: &Compared, other: &Compared, first: u64, seed: Seed) -> Estimate {
    let layers = one.matching.a.as_slice().iter().enumerate().filter(|(_, layer)| **layer >= first);
    let layers: Vec<usize> = layers.map(|(i, _)| i).collect();
    let at = |of: &Compared, i: usize, b: usize| {
        of.matching.best[i].map_or(f64::NAN, |best| of.map.per_prompt[[i, best, b]])
    };
    let difference =
        |b: usize| layers.iter().map(|&i| at(one, i, b) - at(other, i, b)).sum::<f64>() / layers.len() as f64;
    let differences = (0..one.map.prompts()).map(difference).filter(|d| d.is_finite());
    mean(seed, &differences.collect::<Vec<_>>())
}

/// A matching without its resamples, which are many.
fn bare(of: &Matching) -> Matching {
    Matching {
        a: of.a.clone(),
        b: of.b.clone(),
        best: of.best.clone(),
        similarity: of.similarity.clone(),
        interpolated: of.interpolated.clone(),
        resampled: Vec::new(),
        resampled_interpolated: Vec::new(),
    }
}

/// The same matching in one of the resamples.
fn under(bare: &Matching, of: &Matching, resample: usize) -> Matching {
    Matching {
        best: of.resampled[resample].clone(),
        interpolated: of.resampled_interpolated[resample].clone(),
        ..bare.clone()
    }
}
