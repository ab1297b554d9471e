//! Two learners side by side: similarity at every pair of steps → best matches → rate. [`Comparison`] holds all of it.

pub mod between;
pub(crate) mod constructed;
pub mod forgetting;
pub mod matching;
pub mod plan;
pub mod rates;
pub mod recorded_weights;
mod shown;
pub mod similarity;

use std::fmt;

use crate::compare::matching::{Matching, best_match, bootstrap};
use crate::compare::rates::{BEYOND_DOUBT, ENOUGH, RateFit, Trend, fit_rate, usable_matches};
use crate::compare::similarity::{Heatmap, InducedWeights, Metric, View, of_errors, of_weights};
use crate::data::prompts::Prompts;
use crate::data::seed::Seed;
use crate::error::Result;
use crate::findings::numbers::counted;
use crate::learners::Trajectory;
use crate::registry::Id;
use crate::solvers;
use crate::stats::{self, Estimate};

/// Learner A against learner B: how alike they are at every pair of steps, which step of B is most like each step of A, and
/// at what rate that step grows.
///
/// ```
/// use lab::prelude::*;
///
/// let prompts = Task::new("linear", "gaussian", 5, 16)?.sample(Seed(0), "eval", 0, 64);
/// let newton = solvers::build("newton")?.trajectory(&prompts, &Steps::range(0, 16))?;
/// let gd = solvers::build("gd")?.trajectory(&prompts, &Steps::powers_of_two(0, 12))?;
/// let found = Comparison::of_errors(&newton, &gd, &prompts)?.resampled(Seed(0)).over((3, 16));
/// assert!(found.evidence(Trend::Exponential).value > 6.0); // gradient descent is exponentially slower, beyond doubt
/// let doublings = found.per_step(Trend::Exponential); // of its steps, per step of Newton
/// assert!(0.4 < doublings.low && doublings.high < 0.7);
/// # Ok::<(), lab::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Similarity of every step of A with every step of B.
    pub map: Heatmap,
    /// For each step of A the most similar step of B.
    pub matching: Matching,
    /// Rate of the best matches over [`Comparison::range`]; `None` where fewer than three can be fitted.
    pub fit: Option<RateFit>,
    /// The similarity floor: what having converged is worth by itself. Both at their last steps, unless
    /// [`Comparison::with_floor`] says otherwise.
    pub floor: f64,
    /// What a reader should know beside the numbers, in full sentences.
    pub notes: Vec<String>,
    /// On what they were compared, in words.
    pub data: String,
    range: Option<(u64, u64)>,
    seed: Option<Seed>,
}

impl Comparison {
    /// Best matches of a map and their rate over all steps, without intervals.
    pub fn new(map: Heatmap) -> Comparison {
        let (matching, floor) = (best_match(&map), map.similarity_floor());
        let data = counted(map.prompts(), "prompt", "prompts");
        Comparison { map, matching, fit: None, floor, notes: Vec::new(), data, range: None, seed: None }
            .over((0, u64::MAX))
    }

    /// By the cosine of errors at every position from the first pair on (SimE), as in the paper. For other views and metrics:
    /// `Comparison::new(of_errors(…)?)`.
    pub fn of_errors(a: &Trajectory, b: &Trajectory, prompts: &Prompts) -> Result<Comparison> {
        Ok(Comparison::new(of_errors(a, b, prompts, View::default(), Metric::Cosine)?))
    }

    /// By the cosine of induced weights (SimW), as in the paper.
    pub fn of_weights(a: &InducedWeights, b: &InducedWeights) -> Comparison {
        Comparison::new(of_weights(a, b, Metric::Cosine))
    }

    /// The same with matches under resampled prompts, from which all intervals follow.
    pub fn resampled(mut self, seed: Seed) -> Comparison {
        self.matching = bootstrap(&self.map, seed);
        self.seed = Some(seed);
        let range = self.range;
        self.over(range)
    }

    /// The same with the rate fitted to the steps of A from the first to the last of `range`; to none when there is none.
    pub fn over(mut self, range: impl Into<Option<(u64, u64)>>) -> Comparison {
        self.range = range.into();
        self.fit = self.range.and_then(|(first, last)| self.fit_over(first, last));
        self
    }

    /// The same under another similarity floor, e.g. the best similarity of the exact solution; NaN where there is none.
    pub fn with_floor(self, floor: f64) -> Comparison {
        Comparison { floor, ..self }
    }

    /// The same with another name for learner A in figures and words.
    pub fn named(mut self, a: &str) -> Comparison {
        self.map.a.learner = Id { name: a.into(), given: Default::default() };
        self
    }

    /// The same with other words for what they were compared on.
    pub fn on(self, data: String) -> Comparison {
        Comparison { data, ..self }
    }

    /// The same with more that a reader should know.
    pub fn noting(mut self, notes: impl IntoIterator<Item = String>) -> Comparison {
        self.notes.extend(notes);
        self
    }

    /// The rate over other steps of A than [`Comparison::range`].
    pub fn fit_over(&self, first: u64, last: u64) -> Option<RateFit> {
        fit_rate(&self.matching, first, last)
    }

    /// The first and last step of A to which the rate is fitted.
    pub fn range(&self) -> Option<(u64, u64)> {
        self.range
    }

    /// Best step of B for the step `a` of A.
    pub fn step_for(&self, a: u64) -> Option<u64> {
        self.matching.step_for(a)
    }

    /// The same as a number: NaN where there is none.
    pub fn best_step(&self, a: u64) -> f64 {
        self.step_for(a).map_or(f64::NAN, |step| step as f64)
    }

    /// The same in words: `none` where there is none.
    pub fn step_text(&self, a: u64) -> String {
        self.step_for(a).map_or("none".into(), |step| step.to_string())
    }

    /// [`Comparison::best_step`] of every step of A.
    pub fn best_steps(&self) -> Vec<f64> {
        self.matching.a.as_slice().iter().map(|&a| self.best_step(a)).collect()
    }

    /// Best step of B for the last step of A, between the searched steps, with its interval.
    pub fn last_step(&self) -> Estimate {
        self.matching.optimum(self.matching.a.len() - 1)
    }

    /// Similarity of the step at position `i` of A with its best match; an interval needs [`Comparison::resampled`].
    pub fn similarity_at(&self, i: usize) -> Estimate {
        let Some(best) = self.matching.best[i] else { return Estimate::NONE };
        match self.seed {
            Some(seed) => stats::mean(seed, &self.map.per_prompt.slice(ndarray::s![i, best, ..]).to_vec()),
            None => Estimate { value: self.matching.similarity[i], ..Estimate::NONE },
        }
    }

    /// Similarity of the last step of A with its best match.
    pub fn last_similarity(&self) -> Estimate {
        self.similarity_at(self.matching.best.len() - 1)
    }

    /// The highest similarity of any step of A with its best match.
    pub fn highest(&self) -> f64 {
        self.matching.similarity.iter().copied().fold(f64::NAN, f64::max)
    }

    /// How much better `trend` fits the best matches than what it competes with ([`RateFit::evidence`]): difference of BIC.
    pub fn evidence(&self, trend: Trend) -> Estimate {
        self.fit.as_ref().map_or(Estimate::NONE, |fit| fit.evidence(trend))
    }

    /// How much better a line fits the best matches than a curve of no particular rate ([`RateFit::straightness`]).
    pub fn straightness(&self) -> Estimate {
        self.fit.as_ref().map_or(Estimate::NONE, RateFit::straightness)
    }

    /// Steps (of a line) or doublings of steps (of an exponential) of B per step of A.
    pub fn per_step(&self, trend: Trend) -> Estimate {
        self.fit.as_ref().map_or(Estimate::NONE, |fit| fit.per_step(trend))
    }

    /// `Newton against GD`
    pub fn title(&self) -> String {
        let (a, b) = self.names();
        format!("{a} against {b}")
    }

    /// The rate, if it can be told: five best matches away from the ends of the search, not all the same. Otherwise why not, in
    /// a sentence.
    pub fn rate(&self) -> Result<&RateFit, String> {
        let (a, b) = self.names();
        for (name, steps) in [(&a, &self.matching.a), (&b, &self.matching.b)] {
            if steps.len() == 1 {
                return Err(format!("No rate: {name} has one step here, and a rate needs steps of both."));
            }
        }
        let few = |n: usize| {
            format!(
                "No rate: {n} best matches away from the ends of the search, and a verdict needs {ENOUGH}."
            )
        };
        let fit = self.fit.as_ref().ok_or_else(|| {
            let usable = self.range.map_or(0, |(first, last)| usable_matches(&self.matching, first, last));
            if usable < ENOUGH {
                few(usable)
            } else {
                "No rate: a best match at step 0 has no logarithm.".into()
            }
        })?;
        match &fit.points[..] {
            points if points.len() < ENOUGH => Err(few(points.len())),
            [first, rest @ ..] if rest.iter().all(|point| point.1 == first.1) => {
                Err(format!("No rate: every step of {a} matches the same step {} of {b}.", first.1))
            }
            _ => Ok(fit),
        }
    }

    /// The rate in a sentence or two, or why there is none. A verdict takes a difference of BIC above [`BEYOND_DOUBT`].
    pub fn describe(&self) -> String {
        let fit = match self.rate() {
            Ok(fit) => fit,
            Err(why) => return why,
        };
        match fit.settled() {
            Some(trend) => {
                let by = fit.evidence(trend).value;
                let (word, others) = match trend {
                    Trend::Linear => ("Linear", "an exponential"),
                    Trend::Exponential => ("Exponential", "a line, a power law and a parabola"),
                };
                let rate = self.rate_words(fit, trend);
                format!("{word}: {rate}. It fits better than {others}, by {by:.1} in BIC.")
            }
            None => format!(
                "Line or exponential cannot be told: {}, and a verdict takes a difference of BIC above {BEYOND_DOUBT}. A line has \
                 {}; an exponential has {}.",
                fit.doubt(),
                self.rate_words(fit, Trend::Linear),
                self.rate_words(fit, Trend::Exponential)
            ),
        }
    }

    /// `0.52 doublings of GD steps per step of Newton (95 %: 0.50 to 0.53)`
    fn rate_words(&self, fit: &RateFit, trend: Trend) -> String {
        let (a, b) = self.names();
        let rate = fit.per_step(trend);
        let (value, interval) = (rate.value, rate.words());
        match trend {
            Trend::Linear => format!("{value:.2} steps of {b} per step of {a}{interval}"),
            Trend::Exponential => format!("{value:.2} doublings of {b} steps per step of {a}{interval}"),
        }
    }

    /// Where predictions are not finite, how many prompts the map leaves out, a sentence; `None` where it leaves none out.
    pub fn left_out_words(&self) -> Option<String> {
        let left_out = self.map.left_out();
        let most = left_out.iter().copied().max().filter(|most| *most > 0)?;
        let (count, cells) = (self.map.prompts(), left_out.len());
        let some = left_out.iter().filter(|n| **n > 0).count();
        let empty = self.map.mean.iter().filter(|v| v.is_nan()).count();
        let empty = match empty {
            0 => String::new(),
            n => format!("; {n} have no value, as more than half are left out"),
        };
        Some(format!(
            "predictions that are not finite: up to {most} of {count} prompts are left out, at {some} of {cells} pairs of \
             steps{empty}"
        ))
    }

    /// Both learners as figures name them.
    pub fn names(&self) -> (String, String) {
        (solvers::label(&self.map.a.learner), solvers::label(&self.map.b.learner))
    }
}

/// A line for each step of A with its best match, and how similar they are.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (&a, similarity) in self.matching.a.as_slice().iter().zip(&self.matching.similarity) {
            let best = self.step_for(a).map_or("–".into(), |b| b.to_string());
            writeln!(f, "  {a:>8} → {best:<8} {} {similarity:.4}", self.map.label)?;
        }
        Ok(())
    }
}

fn as_numbers((low, high): (u64, u64)) -> (f64, f64) {
    (low as f64, high as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::prompts::Task;
    use crate::learners::steps::Steps;

    fn newton_against_gd() -> Comparison {
        let prompts = Task::new("linear", "gaussian", 4, 12).unwrap().sample(Seed(2), "compare", 0, 24);
        let path =
            |name: &str, steps: Steps| solvers::build(name).unwrap().trajectory(&prompts, &steps).unwrap();
        let (newton, gd) = (path("newton", Steps::range(0, 14)), path("gd", Steps::powers_of_two(0, 11)));
        Comparison::of_errors(&newton, &gd, &prompts).unwrap()
    }

    #[test]
    fn the_order_of_choices_does_not_matter() {
        let one = newton_against_gd().over((3, 14)).resampled(Seed(1));
        let other = newton_against_gd().resampled(Seed(1)).over((3, 14));
        assert_eq!(one.per_step(Trend::Exponential), other.per_step(Trend::Exponential));
        assert_eq!(one.evidence(Trend::Linear), other.evidence(Trend::Linear));
        assert_eq!((one.range(), one.last_step()), (Some((3, 14)), other.last_step()));
        let whole = newton_against_gd();
        assert_eq!(one.matching.best, whole.matching.best, "resampling changes intervals alone");
        let (sure, alone) = (one.last_similarity(), whole.last_similarity());
        assert!((sure.value - alone.value).abs() < 1e-12 && sure.low < sure.high && alone.low.is_nan());
    }

    #[test]
    fn a_verdict_needs_five_matches_that_differ() {
        let found = |from: u64, to: u64| newton_against_gd().over((from, to));
        let usable = |c: &Comparison| c.fit.as_ref().map_or(0, |fit| fit.points.len());
        let (four, five) = (found(4, 7), found(4, 8));
        assert_eq!((usable(&four), usable(&five)), (4, 5));
        assert!(four.rate().unwrap_err().contains("4 best matches") && five.rate().is_ok());
        assert!(four.per_step(Trend::Exponential).value.is_finite(), "claims still have their number");
        let mut same = newton_against_gd();
        same.matching.best.fill(Some(5));
        same.matching.interpolated.fill(32.0);
        let why = same.over((0, 14)).rate().unwrap_err().to_string();
        assert_eq!(why, "No rate: every step of Newton matches the same step 32 of GD.");
    }

    #[test]
    fn a_trend_is_named_only_beyond_doubt() {
        let settled = newton_against_gd().over((3, 12));
        assert!(settled.describe().starts_with("Exponential: 0."), "{}", settled.describe());
        let few = newton_against_gd().over((4, 8)).describe();
        assert!(few.starts_with("Line or exponential cannot be told: "), "{few}");
        assert!(
            few.contains("BIC above 6") && few.contains("A line has") && few.contains("an exponential has"),
            "{few}"
        );
    }

    #[test]
    fn what_cannot_be_fitted_is_said() {
        let found = newton_against_gd().over(None);
        assert!(found.fit.is_none() && found.per_step(Trend::Linear).value.is_nan());
        assert!(found.describe().starts_with("No rate: 0 best matches"));
        assert_eq!(found.title(), "Newton against GD");
        assert_eq!(newton_against_gd().named("mine").title(), "mine against GD");
        assert!(found.with_floor(f64::NAN).floor.is_nan());
    }
}
