//! The unit of the eigenvalues: a learner whose step size follows each prompt has one filter for all prompts only in the
//! unit that it follows.

use super::asked::{Answers, Asked, Scale};
use super::filter::{fit, parts};
use super::knots;
use super::naming::informative;
use crate::error::Result;

/// Share of w − w_OLS that no filter explains, in each unit: the mean over what says something; NaN where nothing does.
#[derive(Clone, Debug, PartialEq)]
pub struct ByUnit(pub [(Scale, f64); 3]);

impl ByUnit {
    /// The unit that leaves the least unexplained; the first where nothing says anything.
    pub fn best(&self) -> Scale {
        let known = self.0.iter().filter(|(_, share)| share.is_finite());
        known.min_by(|x, y| x.1.total_cmp(&y.1)).map_or(Scale::One, |(scale, _)| *scale)
    }

    /// What is left in one of them.
    pub fn of(&self, unit: Scale) -> f64 {
        self.0.iter().find(|(scale, _)| *scale == unit).map_or(f64::NAN, |(_, share)| *share)
    }
}

/// Measures what filters leave unexplained of answers in each unit, fitted on half of the prompts and judged on the others.
pub fn by_unit(mut asked: Asked, answers: &Answers, count: usize) -> Result<(Asked, ByUnit)> {
    let says = informative(answers, &asked);
    let mut found = ByUnit(Scale::ALL.map(|(scale, ..)| (scale, f64::NAN)));
    for (scale, mean) in &mut found.0 {
        asked = asked.rescaled(*scale);
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
                shares.push(left / all);
            }
        }
        *mean = shares.iter().sum::<f64>() / shares.len() as f64;
    }
    Ok((asked, found))
}
