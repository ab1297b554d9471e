//! The smallest loss that any predictor can have on a task.

use crate::data::prompts::Task;
use crate::data::seed::Seed;
use crate::error::Result;
use crate::learners::steps::Steps;
use crate::solvers;

/// The smallest mean loss any predictor can have on a task with `dims` dimensions and `points` points: exact for noiseless
/// linear functions of isotropic inputs, (d−t) at t < d; by ridge on sampled prompts where labels are noisy; unknown
/// (`None`) for the rest. (On ill-conditioned inputs least squares is not the best before t = d: the spectrum is known.)
pub fn bayes_loss(function: &str, inputs: &str, dims: usize, points: usize) -> Result<Option<f64>> {
    let task = Task::new(function, inputs, dims, points)?;
    let name = function.split(':').next().unwrap_or_default();
    if name == "linear" && inputs == "gaussian" {
        let sum: f64 = (0..points.min(dims)).map(|t| (dims - t) as f64).sum();
        return Ok(Some(sum / points as f64));
    }
    let Some(best) = task.best_learner().filter(|_| inputs == "gaussian") else { return Ok(None) };
    let prompts = task.sample(Seed(0), "floor", 0, 512);
    let errors = solvers::build(&best)?.trajectory(&prompts, &Steps::single(1))?.errors(&prompts, 0);
    Ok(Some(errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_agree_where_both_are_known() {
        let exact = bayes_loss("linear", "gaussian", 20, 41).unwrap().unwrap();
        assert!((exact - 5.122).abs() < 1e-3);
        let sampled = bayes_loss("noisy-linear:sigma=0.001", "gaussian", 20, 41).unwrap().unwrap();
        assert!((sampled / exact - 1.0).abs() < 0.05, "{sampled} {exact}");
        assert!(bayes_loss("relu-2nn", "gaussian", 20, 41).unwrap().is_none());
        assert!(bayes_loss("linear", "skewed:kappa=100", 20, 41).unwrap().is_none());
    }
}
