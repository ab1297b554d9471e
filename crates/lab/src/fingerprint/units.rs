//! The unit of the eigenvalues: a learner whose step size follows each prompt has one filter for all prompts only in the
//! unit that it follows.

use super::asked::{Answers, Asked, Scale};
use super::filter::{fit, parts};
use super::naming::informative;
use super::taken::knots;
use crate::error::Result;
use crate::stats::median_of;

/// Share of w − w_OLS that no filter explains in one unit, over what says something; NaN where nothing does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unexplained {
    /// The unit.
    pub unit: Scale,
    /// Mean over steps and numbers of pairs.
    pub mean: f64,
    /// Their median, which a few steps that are badly fitted do not move.
    pub median: f64,
}

/// The same in every unit.
#[derive(Clone, Debug, PartialEq)]
pub struct ByUnit(pub [Unexplained; 3]);

impl ByUnit {
    /// The unit that leaves the least unexplained, by the median; the first where nothing says anything.
    pub fn best(&self) -> Scale {
        let known = self.0.iter().filter(|of| of.median.is_finite());
        known.min_by(|x, y| x.median.total_cmp(&y.median)).map_or(Scale::One, |of| of.unit)
    }

    /// What is left in one of them, the mean.
    pub fn of(&self, unit: Scale) -> f64 {
        self.0.iter().find(|of| of.unit == unit).map_or(f64::NAN, |of| of.mean)
    }
}

/// Measures what filters leave unexplained of answers in each unit, fitted on half of the prompts and judged on the others.
pub fn by_unit(mut asked: Asked, answers: &Answers, count: usize) -> Result<(Asked, ByUnit)> {
    let says = informative(answers, &asked);
    let mut found =
        ByUnit(Scale::ALL.map(|(unit, ..)| Unexplained { unit, mean: f64::NAN, median: f64::NAN }));
    for Unexplained { unit, mean, median } in &mut found.0 {
        asked = asked.rescaled(*unit);
        let mut shares = Vec::new();
        for l in 0..asked.lengths.len() {
            let parts = parts(&knots(&asked, l, count)?, &asked, l, answers);
            let filters = fit(parts.iter().step_by(2).map(|part| (part, 1.0)), count, answers.count());
            let steps = filters.iter().zip(&says).enumerate().filter(|(_, (_, says))| says[l]);
            for (s, (filter, _)) in steps {
                let (mut left, mut all) = (0.0, 0.0);
                for part in parts.iter().skip(1).step_by(2) {
                    left += part.left(s, filter);
                    all += part.power[s];
                }
                shares.push((left / all).min(1.0)); // one that does worse than none is none
            }
        }
        if !shares.is_empty() {
            *mean = shares.iter().sum::<f64>() / shares.len() as f64;
            *median = median_of(&shares, &(0..shares.len()).collect::<Vec<_>>());
        }
    }
    Ok((asked, found))
}
