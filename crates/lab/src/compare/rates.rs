//! From best-matching steps to a rate: is B's step a line or an exponential of A's step?

use std::f64::consts::LN_2;

use serde::{Deserialize, Serialize};

use crate::compare::matching::Matching;
use crate::stats::{Estimate, interval, line};

/// The shape of a matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trend {
    /// step_b = intercept + slope · step_a: the same rate of convergence.
    Linear,
    /// step_b = exp(intercept + slope · step_a): B is exponentially slower.
    Exponential,
}

/// A fitted curve.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Fit {
    /// Value (or logarithm of the value) at step 0 of A.
    pub intercept: f64,
    /// Change per step of A.
    pub slope: f64,
    /// Bayesian information criterion; smaller is better.
    pub bic: f64,
}

/// Both fits and the choice between them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RateFit {
    /// (step of A, best step of B) that were fitted: matches at the edge of the search are left out.
    pub points: Vec<(f64, f64)>,
    /// The straight line.
    pub linear: Fit,
    /// The exponential.
    pub exponential: Fit,
    /// The one with the smaller BIC.
    pub trend: Trend,
    /// 95 % bootstrap interval of the chosen slope.
    pub slope_interval: Option<(f64, f64)>,
    /// 95 % bootstrap interval of the line's slope.
    pub linear_interval: Option<(f64, f64)>,
    /// 95 % bootstrap interval of the exponential's slope.
    pub exponential_interval: Option<(f64, f64)>,
    /// 95 % bootstrap interval of [`RateFit::evidence_for_exponential`].
    pub evidence_interval: Option<(f64, f64)>,
    /// Share of resamples that choose the same trend.
    pub agreement: Option<f64>,
}

impl RateFit {
    /// The chosen fit.
    pub fn chosen(&self) -> Fit {
        match self.trend {
            Trend::Linear => self.linear,
            Trend::Exponential => self.exponential,
        }
    }

    /// BIC of the line minus BIC of the exponential: positive favours the exponential.
    pub fn evidence_for_exponential(&self) -> f64 {
        self.linear.bic - self.exponential.bic
    }

    /// How much better `trend` fits than the other: [`RateFit::evidence_for_exponential`], or the opposite for a line.
    pub fn evidence(&self, trend: Trend) -> Estimate {
        let sign = if trend == Trend::Linear { -1.0 } else { 1.0 };
        let (low, high) = self.evidence_interval.unwrap_or((f64::NAN, f64::NAN));
        let (low, high) = (sign * low, sign * high);
        Estimate { value: sign * self.evidence_for_exponential(), low: low.min(high), high: low.max(high) }
    }

    /// Steps of B per step of A by the line, or doublings of B's steps per step of A by the exponential.
    pub fn per_step(&self, trend: Trend) -> Estimate {
        let (fit, interval, scale) = match trend {
            Trend::Linear => (self.linear, self.linear_interval, 1.0),
            Trend::Exponential => (self.exponential, self.exponential_interval, 1.0 / LN_2),
        };
        let (low, high) = interval.unwrap_or((f64::NAN, f64::NAN));
        Estimate { value: fit.slope * scale, low: low * scale, high: high * scale }
    }

    /// The chosen rate in words: `a line of 2.95 steps per layer (95 %: 2.71 to 3.20)`, where `layer` is what A takes.
    pub fn words(&self, one: &str) -> String {
        let rate = self.per_step(self.trend);
        let (words, what) = match self.trend {
            Trend::Linear => ("a line of", "steps"),
            Trend::Exponential => ("an exponential of", "doublings of steps"),
        };
        format!("{words} {:.2} {what} per {one}{}", rate.value, rate.words())
    }

    /// The chosen curve at a step of A.
    pub fn predict(&self, a: f64) -> f64 {
        let fit = self.chosen();
        let value = fit.intercept + fit.slope * a;
        if self.trend == Trend::Linear { value } else { value.exp() }
    }
}

/// Fewest best matches on which a verdict about a rate rests: two more than a line and its spread have numbers.
pub const ENOUGH: usize = 5;

/// Best matches of the steps of A from `first` to `last` that a rate can be fitted to: those away from the ends of the search.
pub fn usable_matches(matching: &Matching, first: u64, last: u64) -> usize {
    usable(matching, &matching.best, first, last).len()
}

/// Fits the matches of the steps of A from `first` to `last`; `None` with fewer than three usable ones.
pub fn fit_rate(matching: &Matching, first: u64, last: u64) -> Option<RateFit> {
    let points = usable(matching, &matching.best, first, last);
    let (linear, exponential) = fit(&points, matching)?;
    let choose = |l: Fit, e: Fit| if l.bic <= e.bic { Trend::Linear } else { Trend::Exponential };
    let trend = choose(linear, exponential);
    let mut result = RateFit {
        points,
        linear,
        exponential,
        trend,
        slope_interval: None,
        linear_interval: None,
        exponential_interval: None,
        evidence_interval: None,
        agreement: None,
    };
    if !matching.resampled.is_empty() {
        let refits: Vec<(Fit, Fit)> = matching
            .resampled
            .iter()
            .filter_map(|best| fit(&usable(matching, best, first, last), matching))
            .collect();
        let over = |value: fn(&(Fit, Fit)) -> f64| Some(interval(refits.iter().map(value).collect()));
        result.linear_interval = over(|(l, _)| l.slope);
        result.exponential_interval = over(|(_, e)| e.slope);
        result.evidence_interval = over(|(l, e)| l.bic - e.bic);
        result.slope_interval = match trend {
            Trend::Linear => result.linear_interval,
            Trend::Exponential => result.exponential_interval,
        };
        let same = refits.iter().filter(|(l, e)| choose(*l, *e) == trend).count();
        result.agreement = Some(same as f64 / refits.len().max(1) as f64);
    }
    Some(result)
}

fn usable(matching: &Matching, best: &[Option<usize>], first: u64, last: u64) -> Vec<(f64, f64)> {
    let steps = matching.a.as_slice().iter().zip(best).filter(|(a, _)| (first..=last).contains(a));
    steps
        .filter_map(|(a, best)| best.map(|b| (*a, b)))
        .filter(|(_, b)| !matching.at_edge(*b))
        .map(|(a, b)| (a as f64, matching.b.as_slice()[b] as f64))
        .collect()
}

/// Normal errors around the line, log-normal around the exponential, both as densities of the same data. A match is
/// only known to the spacing of B's steps, so neither spread may fall below that of a uniform error of one spacing.
fn fit(points: &[(f64, f64)], matching: &Matching) -> Option<(Fit, Fit)> {
    let n = points.len();
    if n < 3 || points.iter().any(|p| p.1 <= 0.0) {
        return None;
    }
    let steps: Vec<f64> = matching.b.as_slice().iter().map(|&s| s as f64).collect();
    let spacing = |y: f64, scale: fn(f64) -> f64| {
        let i = steps.iter().position(|&s| s == y).unwrap_or(0);
        let (low, high) = (steps[i.saturating_sub(1)].max(0.5), steps[(i + 1).min(steps.len() - 1)]);
        (scale(high) - scale(low)) / 2.0
    };
    let resolution = |scale: fn(f64) -> f64| {
        points.iter().map(|p| spacing(p.1, scale).powi(2)).sum::<f64>() / n as f64 / 12.0
    };
    let bic = |rss: f64, floor: f64, jacobian: f64| {
        let variance = (rss / n as f64).max(floor).max(1e-12);
        let log_likelihood =
            -0.5 * n as f64 * (std::f64::consts::TAU * variance).ln() - 0.5 * rss / variance - jacobian;
        -2.0 * log_likelihood + 3.0 * (n as f64).ln()
    };
    let (intercept, slope, rss) = line(points);
    let linear = Fit { intercept, slope, bic: bic(rss, resolution(|v| v), 0.0) };
    let logs: Vec<(f64, f64)> = points.iter().map(|p| (p.0, p.1.ln())).collect();
    let (intercept, slope, rss) = line(&logs);
    let jacobian = logs.iter().map(|p| p.1).sum();
    let exponential = Fit { intercept, slope, bic: bic(rss, resolution(f64::ln), jacobian) };
    Some((linear, exponential))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learners::steps::Steps;

    fn matching(b: Steps, best: impl Fn(u64) -> u64) -> Matching {
        let a = Steps::range(0, 20);
        let nearest = |target: u64| {
            (0..b.len()).min_by_key(|&i| b.as_slice()[i].abs_diff(target)) // the grid need not hold the exact step
        };
        let best: Vec<_> = a.as_slice().iter().map(|&a| nearest(best(a))).collect();
        Matching { similarity: vec![1.0; best.len()], a, b, best, resampled: Vec::new() }
    }

    #[test]
    fn lines_and_exponentials_are_told_apart_on_either_grid() {
        for grid in [Steps::range(0, 2000), Steps::powers_of_two(0, 12)] {
            let fit = fit_rate(&matching(grid, |a| 2u64.pow(a as u32 / 2)), 2, 20).unwrap();
            assert_eq!(fit.trend, Trend::Exponential);
            assert!((fit.per_step(Trend::Exponential).value - 0.5).abs() < 0.028, "{fit:?}");
            assert!(fit.evidence(Trend::Exponential).value > 0.0 && fit.evidence(Trend::Linear).value < 0.0);
        }
        let fit = fit_rate(&matching(Steps::range(0, 100), |a| 3 * a + 1), 0, 20).unwrap();
        assert_eq!(fit.trend, Trend::Linear);
        assert!((fit.linear.slope - 3.0).abs() < 1e-9);
    }

    #[test]
    fn edges_are_left_out() {
        let fit = fit_rate(&matching(Steps::range(0, 10), |a| a), 0, 20).unwrap();
        assert_eq!(fit.points.len(), 9); // 1…9 of 0…20: 0 and everything from 10 on sit at an edge
    }
}
