//! From best-matching steps to a rate: is B's step a line or an exponential of A's step?
//!
//! The paper names these two. Six to nine matches that lie on neither would still favour one of them, so a power law and a
//! parabola compete as well, and only a difference of BIC above [`BEYOND_DOUBT`] is a verdict.

mod shapes;

use std::f64::consts::LN_2;

use serde::{Deserialize, Serialize};

pub use self::shapes::{Fit, Shape};
use self::shapes::{Fits, fit_shapes};
use crate::compare::matching::Matching;
use crate::stats::{Estimate, interval};

/// Difference of BIC above which one shape is better beyond doubt: odds of twenty to one, "strong" by Kass and Raftery (1995).
pub const BEYOND_DOUBT: f64 = 6.0;

/// The shape of a matching, of the two that the paper names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trend {
    /// step_b = intercept + slope · step_a: the same rate of convergence.
    Linear,
    /// step_b = exp(intercept + slope · step_a): B is exponentially slower.
    Exponential,
}

/// All fits and the choice between the paper's two.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RateFit {
    /// (step of A, best step of B between the searched ones) that were fitted: matches at the edge of the search are left out.
    pub points: Vec<(f64, f64)>,
    /// The straight line.
    pub linear: Fit,
    /// The exponential.
    pub exponential: Fit,
    /// The power law.
    pub power: Fit,
    /// The parabola.
    pub quadratic: Fit,
    /// Line or exponential, by the smaller BIC.
    pub trend: Trend,
    /// 95 % bootstrap interval of the chosen slope.
    pub slope_interval: Option<(f64, f64)>,
    /// 95 % bootstrap interval of the line's slope.
    pub linear_interval: Option<(f64, f64)>,
    /// 95 % bootstrap interval of the exponential's slope.
    pub exponential_interval: Option<(f64, f64)>,
    /// 95 % bootstrap interval of BIC of the line minus BIC of the exponential.
    pub evidence_interval: Option<(f64, f64)>,
    /// 95 % bootstrap interval of `evidence(Trend::Exponential)`, where a power law and a parabola compete too.
    pub exponential_evidence_interval: Option<(f64, f64)>,
    /// 95 % bootstrap interval of [`RateFit::straightness`].
    pub straightness_interval: Option<(f64, f64)>,
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

    /// How much better `trend` fits, as a difference of BIC. A line has to beat the exponential, and
    /// [`RateFit::straightness`] says whether a curve does better; an exponential has to beat the line, the power law and the
    /// parabola, since all of them bend.
    pub fn evidence(&self, trend: Trend) -> Estimate {
        let fits = self.fits();
        match trend {
            Trend::Linear => {
                let opposite = self.evidence_interval.map(|(low, high)| (-high, -low));
                estimate(-fits.exponential_over_line(), opposite)
            }
            Trend::Exponential => estimate(fits.exponential_over_all(), self.exponential_evidence_interval),
        }
    }

    /// The smaller BIC of power law and parabola minus BIC of the line: below −[`BEYOND_DOUBT`] the matches bend.
    pub fn straightness(&self) -> Estimate {
        estimate(self.fits().straightness(), self.straightness_interval)
    }

    /// The shape of the four with the smallest BIC.
    pub fn best(&self) -> Shape {
        self.fits().best()
    }

    /// The trend that is beyond doubt: better than the others by more than [`BEYOND_DOUBT`] and, for a line, no curve better
    /// than it by as much. `None` where it cannot be told.
    pub fn settled(&self) -> Option<Trend> {
        let beyond = |trend| self.evidence(trend).value > BEYOND_DOUBT;
        if beyond(Trend::Exponential) {
            Some(Trend::Exponential)
        } else {
            let line = beyond(Trend::Linear) && self.straightness().value >= -BEYOND_DOUBT;
            line.then_some(Trend::Linear)
        }
    }

    /// Why neither trend is beyond doubt, in words: `a power law fits best, a line by 2.1 worse`.
    pub(super) fn doubt(&self) -> String {
        let mut order = Shape::ALL;
        order.sort_by(|x, y| self.of(*x).bic.total_cmp(&self.of(*y).bic));
        let [best, next, ..] = order;
        let by = self.of(next).bic - self.of(best).bic;
        format!("{} fits best, {} is worse by {by:.1}", best.word(), next.word())
    }

    /// The fit of a shape.
    pub fn of(&self, shape: Shape) -> Fit {
        self.fits().of(shape)
    }

    /// Steps of B per step of A by the line, or doublings of B's steps per step of A by the exponential.
    pub fn per_step(&self, trend: Trend) -> Estimate {
        let (fit, interval, scale) = match trend {
            Trend::Linear => (self.linear, self.linear_interval, 1.0),
            Trend::Exponential => (self.exponential, self.exponential_interval, 1.0 / LN_2),
        };
        estimate(fit.slope * scale, interval.map(|(low, high)| (low * scale, high * scale)))
    }

    /// The chosen rate in words: `a line of 2.95 steps per layer (95 %: 2.71 to 3.20)`, where `layer` is what A takes; with
    /// the power law or the parabola where that is better than both.
    pub fn words(&self, one: &str) -> String {
        let rate = self.per_step(self.trend);
        let (words, what) = match self.trend {
            Trend::Linear => ("a line of", "steps"),
            Trend::Exponential => ("an exponential of", "doublings of steps"),
        };
        let better = match self.best() {
            Shape::Line | Shape::Exponential => String::new(),
            shape => {
                let by = self.chosen().bic - self.of(shape).bic;
                format!("; {} fits better, by {by:.1} in BIC", self.of(shape).words(shape))
            }
        };
        format!("{words} {:.2} {what} per {one}{}{better}", rate.value, rate.words())
    }

    fn fits(&self) -> Fits {
        let &RateFit { linear, exponential, power, quadratic, .. } = self;
        Fits { linear, exponential, power, quadratic }
    }
}

fn estimate(value: f64, interval: Option<(f64, f64)>) -> Estimate {
    let (low, high) = interval.unwrap_or((f64::NAN, f64::NAN));
    Estimate { value, low, high }
}

/// Fewest best matches on which a verdict about a rate rests: two more than a line and its spread have numbers.
pub const ENOUGH: usize = 5;

/// Best matches of the steps of A from `first` to `last` that a rate can be fitted to: those away from the ends of the search.
pub fn usable_matches(matching: &Matching, first: u64, last: u64) -> usize {
    usable(matching, (&matching.best, &matching.interpolated), first, last).len()
}

/// Fits the matches of the steps of A from `first` to `last`; `None` with fewer than three usable ones.
pub fn fit_rate(matching: &Matching, first: u64, last: u64) -> Option<RateFit> {
    let points = usable(matching, (&matching.best, &matching.interpolated), first, last);
    let fits = fit_shapes(&points, &matching.b)?;
    let trend = fits.trend();
    let mut result = RateFit {
        points,
        linear: fits.linear,
        exponential: fits.exponential,
        power: fits.power,
        quadratic: fits.quadratic,
        trend,
        slope_interval: None,
        linear_interval: None,
        exponential_interval: None,
        evidence_interval: None,
        exponential_evidence_interval: None,
        straightness_interval: None,
        agreement: None,
    };
    if !matching.resampled.is_empty() {
        let refits: Vec<Fits> = matching
            .resampled
            .iter()
            .zip(&matching.resampled_interpolated)
            .filter_map(|(best, steps)| {
                fit_shapes(&usable(matching, (best, steps), first, last), &matching.b)
            })
            .collect();
        let over = |value: fn(&Fits) -> f64| Some(interval(refits.iter().map(value).collect()));
        result.linear_interval = over(|fits| fits.linear.slope);
        result.exponential_interval = over(|fits| fits.exponential.slope);
        result.evidence_interval = over(Fits::exponential_over_line);
        result.exponential_evidence_interval = over(Fits::exponential_over_all);
        result.straightness_interval = over(Fits::straightness);
        result.slope_interval = match trend {
            Trend::Linear => result.linear_interval,
            Trend::Exponential => result.exponential_interval,
        };
        let same = refits.iter().filter(|fits| fits.trend() == trend).count();
        result.agreement = Some(same as f64 / refits.len().max(1) as f64);
    }
    Some(result)
}

/// (step of A, best step of B between the searched ones) without the matches at an end of the search: on the searched steps
/// alone most resamples would agree to the last digit, and an interval say nothing.
fn usable(
    matching: &Matching,
    (best, steps): (&[Option<usize>], &[f64]),
    first: u64,
    last: u64,
) -> Vec<(f64, f64)> {
    let all = matching.a.as_slice().iter().zip(best.iter().zip(steps));
    let away = |best: &Option<usize>| best.is_some_and(|best| !matching.at_edge(best));
    all.filter(|(a, (best, _))| (first..=last).contains(*a) && away(best))
        .map(|(a, (_, step))| (*a as f64, *step))
        .collect()
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
        Matching::known(a, b, best)
    }

    #[test]
    fn lines_and_exponentials_are_told_apart_on_either_grid() {
        for grid in [Steps::range(0, 2000), Steps::powers_of_two(0, 12)] {
            let fit = fit_rate(&matching(grid, |a| 2u64.pow(a as u32 / 2)), 2, 20).unwrap();
            assert_eq!((fit.trend, fit.settled()), (Trend::Exponential, Some(Trend::Exponential)));
            assert!((fit.per_step(Trend::Exponential).value - 0.5).abs() < 0.028, "{fit:?}");
            assert!(fit.evidence(Trend::Exponential).value > BEYOND_DOUBT);
            assert!(fit.evidence(Trend::Linear).value < -BEYOND_DOUBT);
        }
        let fit = fit_rate(&matching(Steps::range(0, 100), |a| 3 * a + 1), 0, 20).unwrap();
        assert_eq!((fit.trend, fit.settled()), (Trend::Linear, Some(Trend::Linear)));
        assert!((fit.linear.slope - 3.0).abs() < 1e-9);
        assert!(fit.straightness().value > 0.0 && fit.best() == Shape::Line);
    }

    /// The layers that the paper names, and matches as far as the paper's: each shape is recognised, and none is called another.
    #[test]
    fn each_of_the_four_shapes_is_recognised() {
        let grid = || Steps::range(0, 4000);
        type Best = fn(u64) -> u64;
        let made: [(Shape, Best); 4] = [
            (Shape::Line, |a| 30 * a + 11),
            (Shape::Exponential, |a| (8.0 * (0.6 * a as f64).exp()).round() as u64),
            (Shape::Power, |a| (0.3 * (a as f64).powf(3.5)).round() as u64),
            (Shape::Quadratic, |a| 300 + 12 * a * a),
        ];
        for (shape, best) in made {
            let fit = fit_rate(&matching(grid(), best), 3, 9).unwrap();
            assert_eq!(fit.best(), shape, "{fit:?}");
            let expected = match shape {
                Shape::Line => Some(Trend::Linear),
                Shape::Exponential => Some(Trend::Exponential),
                Shape::Power | Shape::Quadratic => None,
            };
            assert_eq!(fit.settled(), expected, "{shape:?}: {fit:?}");
        }
        let bent = fit_rate(&matching(grid(), made[3].1), 3, 9).unwrap();
        assert!(bent.straightness().value < -BEYOND_DOUBT, "{bent:?}");
        assert!(bent.words("layer").contains("a parabola"), "{}", bent.words("layer"));
    }

    /// Between line and exponential alone a cube would pass for an exponential beyond doubt.
    #[test]
    fn what_bends_is_not_an_exponential_for_that() {
        let fit = fit_rate(&matching(Steps::range(0, 2000), |a| a.pow(3) + 2), 3, 12).unwrap();
        assert!(fit.linear.bic - fit.exponential.bic > BEYOND_DOUBT, "{fit:?}");
        assert!(fit.evidence(Trend::Exponential).value < -BEYOND_DOUBT, "{fit:?}");
    }

    #[test]
    fn a_power_law_has_nothing_to_say_of_step_0() {
        let fit = fit_rate(&matching(Steps::range(0, 100), |a| 3 * a + 1), 0, 9).unwrap();
        assert_eq!(fit.power.bic, f64::INFINITY);
        let kept: RateFit = serde_json::from_str(&serde_json::to_string(&fit).unwrap()).unwrap();
        assert_eq!(kept.power.bic, f64::INFINITY);
    }

    #[test]
    fn edges_are_left_out() {
        let fit = fit_rate(&matching(Steps::range(0, 10), |a| a), 0, 20).unwrap();
        assert_eq!(fit.points.len(), 9); // 1…9 of 0…20: 0 and everything from 10 on sit at an edge
    }
}
