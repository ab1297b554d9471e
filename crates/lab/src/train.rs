//! Training: one step is a pure function of the weights, the moments and the step's number.

use engine::adam::{Adam, AdamConfig};
use engine::networks::{Mode, Network};
use engine::params::ParamLayout;
use engine::runner::Runner;

use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::networks::{Weights, tokens};
use crate::prompts::Task;
use crate::seed::Seed;
use crate::solvers;
use crate::steps::Steps;

/// What one step reports.
#[derive(Clone, Copy, Debug)]
pub struct StepReport {
    /// Mean squared error over all positions, before the update.
    pub loss: f64,
    /// Gradient norm before clipping.
    pub norm: f64,
    /// Learning rate.
    pub rate: f64,
    /// Dimensions in use.
    pub dims: usize,
    /// Points in use.
    pub points: usize,
}

/// A network in training.
pub struct Trainer {
    experiment: Experiment,
    network: Network,
    /// Where parameters lie in the flat buffers.
    pub layout: ParamLayout,
    /// Parameters.
    pub params: Vec<f32>,
    /// Moments and step count.
    pub adam: Adam,
    grads: Vec<f32>,
    /// Buffers of the shape in use; rebuilt when a curriculum changes it.
    runner: Option<Runner>,
}

impl Trainer {
    /// A fresh network.
    pub fn new(experiment: &Experiment) -> Result<Trainer> {
        experiment.check()?;
        let network = experiment.network.build(experiment.task.dim, experiment.task.points)?;
        let layout = network.layout();
        let params = layout.initial(&Seed(experiment.training.seed));
        let t = &experiment.training;
        let config = AdamConfig { beta1: t.beta1 as f32, beta2: t.beta2 as f32, epsilon: t.epsilon as f32 };
        Ok(Trainer {
            experiment: experiment.clone(),
            adam: Adam::new(config, layout.len()),
            grads: vec![0.0; layout.len()],
            network,
            layout,
            params,
            runner: None,
        })
    }

    /// Steps taken so far.
    pub fn done(&self) -> u64 {
        self.adam.step
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// One gradient step on fresh prompts. A loss that is not finite is an error, and the weights are not touched.
    pub fn step(&mut self) -> Result<StepReport> {
        let step = self.done();
        let (spec, task) = (&self.experiment.training, &self.experiment.task);
        let dims = spec.dims.map_or(task.dim, |ramp| ramp.at(step, spec.steps));
        let points = spec.points.map_or(task.points, |ramp| ramp.at(step, spec.steps));
        let batch = spec.batch;
        let task = Task::new(&task.function, &task.inputs, dims, points)?;
        let prompts = task.sample(Seed(spec.seed), "train", step * batch as u64, batch);
        if self.runner.as_ref().is_none_or(|runner| runner.points() != points) {
            self.runner = None; // free the old buffers before the new ones are made
            self.runner = Some(self.network.runner(batch, 2 * points, Mode::Train)?);
        }
        let runner = self.runner.as_mut().expect("made above");
        runner.set_tokens(&tokens(&prompts, self.network.features()))?;
        let targets: Vec<f32> = prompts.ys.iter().map(|y| *y as f32).collect();
        runner.set_targets(&targets)?;
        self.grads.fill(0.0);
        runner.forward(&self.params);
        let loss = f64::from(runner.loss());
        runner.backward(&self.params, &mut self.grads);
        let norm = f64::from(engine::adam::gradient_norm(&self.grads));
        if !loss.is_finite() || !norm.is_finite() {
            return Err(Error::Training(format!(
                "step {step}: the loss is {loss} and the gradient norm {norm}; the last checkpoint is untouched. \
                 A smaller rate (now {:e}) or clipping usually helps",
                spec.rate
            )));
        }
        let rate = spec.rate_at(step);
        self.adam.step(&mut self.params, &self.grads, rate as f32, spec.clip.map(|c| c as f32));
        Ok(StepReport { loss, norm, rate, dims, points })
    }

    /// Mean squared error by pairs read, over `count` fresh prompts of the whole task.
    pub fn evaluate(&self, count: usize) -> Result<Vec<f64>> {
        let task = &self.experiment.task;
        let task = Task::new(&task.function, &task.inputs, task.dim, task.points)?;
        let weights = Weights {
            network: self.network.clone(),
            layout: self.layout.clone(),
            params: self.params.clone(),
        };
        let mut sums = vec![0.0; task.points];
        const CHUNK: usize = 256;
        for first in (0..count).step_by(CHUNK) {
            let prompts = task.sample(
                Seed(self.experiment.training.seed),
                "eval",
                first as u64,
                CHUNK.min(count - first),
            );
            let errors = &weights.predictions(&prompts)? - &prompts.ys;
            for row in errors.rows() {
                sums.iter_mut().zip(row).for_each(|(sum, e)| *sum += e * e / count as f64);
            }
        }
        Ok(sums)
    }
}

/// The smallest mean loss any predictor can have on a task with `dims` dimensions and `points` points: exact for noiseless
/// linear functions of isotropic inputs, (d−t) at t < d; by ridge or least squares on sampled prompts for other
/// linear tasks; unknown (`None`) for the rest.
pub fn bayes_floor(function: &str, inputs: &str, dims: usize, points: usize) -> Result<Option<f64>> {
    let task = Task::new(function, inputs, dims, points)?;
    let name = function.split(':').next().unwrap_or_default();
    if name == "linear" && inputs == "gaussian" {
        let sum: f64 = (0..points.min(dims)).map(|t| (dims - t) as f64).sum();
        return Ok(Some(sum / points as f64));
    }
    if name != "linear" && name != "noisy-linear" {
        return Ok(None);
    }
    let prompts = task.sample(Seed(0), "floor", 0, 512);
    let best =
        if task.noise() > 0.0 { format!("ridge:lambda={}", task.noise().powi(2)) } else { "ols".into() };
    let errors = solvers::build(&best)?.trajectory(&prompts, &Steps::single(1))?.errors(&prompts, 0);
    Ok(Some(errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_agree_where_both_are_known() {
        let exact = bayes_floor("linear", "gaussian", 20, 41).unwrap().unwrap();
        assert!((exact - 5.122).abs() < 1e-3);
        let sampled = bayes_floor("linear", "skewed:kappa=1", 20, 41).unwrap().unwrap();
        assert!((sampled / exact - 1.0).abs() < 0.05, "{sampled} {exact}");
        assert!(bayes_floor("relu-2nn", "gaussian", 20, 41).unwrap().is_none());
    }
}
