//! Training steps on this machine's cores.

use engine::cpu::{Runner, gradient_norm, on_pool};
use engine::model::networks::{Mode, Network};
use engine::model::optim::OptimiserState;

use super::{StepReport, StepSpec, not_finite};
use crate::error::Result;
use crate::networks::experiment::Experiment;
use crate::networks::tokens;

/// Parameters, moments and buffers in memory.
pub(super) struct Cpu {
    pub params: Vec<f32>,
    pub adam: OptimiserState,
    grads: Vec<f32>,
    /// Buffers of the shape in use; rebuilt when a curriculum changes it.
    runner: Option<Runner>,
}

impl Cpu {
    pub fn new(params: Vec<f32>, adam: OptimiserState) -> Cpu {
        Cpu { grads: vec![0.0; params.len()], params, adam, runner: None }
    }

    /// One gradient step on fresh prompts.
    pub fn step(&mut self, experiment: &Experiment, network: &Network) -> Result<StepReport> {
        on_pool(|| self.step_on_pool(experiment, network))
    }

    fn step_on_pool(&mut self, experiment: &Experiment, network: &Network) -> Result<StepReport> {
        let spec = &experiment.training;
        let step = StepSpec::of(experiment, self.adam.step);
        let prompts = step.sample(experiment)?;
        if self.runner.as_ref().is_none_or(|runner| runner.points() != step.points) {
            self.runner = None; // free the old buffers before the new ones are made
            self.runner = Some(network.predictor(spec.batch, step.points, Mode::Train)?);
        }
        let runner = self.runner.as_mut().expect("made above");
        let targets: Vec<f32> = prompts.ys.iter().map(|y| *y as f32).collect();
        runner.set_tokens(&tokens(&prompts, network.features()))?;
        runner.set_targets(&targets)?;
        let loss = f64::from(runner.gradients(&self.params, &mut self.grads));
        let norm = gradient_norm(&self.grads);
        if !loss.is_finite() || !norm.is_finite() {
            return Err(not_finite(spec, step.step, loss, f64::from(norm)));
        }
        let (rate, clip) = (step.rate as f32, spec.clip.map(|clip| clip as f32));
        self.adam.step_with_norm(&mut self.params, &self.grads, norm, rate, clip);
        Ok(step.report(loss, f64::from(norm)))
    }
}
