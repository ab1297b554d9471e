//! Training steps on this machine's cores.

use std::borrow::Cow;

use crate::cpu::optimiser::gradient_norm;
use crate::cpu::packed_weights::ForwardParams;
use crate::cpu::runner::Runner;
use crate::cpu::work_queue::on_pool;
use crate::error::EngineError;
use crate::model::networks::{Mode, Network};
use crate::model::optim::OptimiserState;
use crate::trainer::{Batch, Feed, NextBatch, ScheduleRow, StepResult, Trainer};

/// A network in training on the CPU: parameters, moments and buffers in main memory.
#[derive(Debug)]
pub struct CpuTrainer {
    network: Network,
    batch: usize,
    clip: Option<f32>,
    params: Vec<f32>,
    grads: Vec<f32>,
    optimiser: OptimiserState,
    /// Buffers of the points in use; rebuilt when a curriculum changes them.
    runner: Option<Runner>,
}

impl CpuTrainer {
    /// A network with parameters and the optimiser's state as given. With `clip`, gradients are scaled so that their norm is
    /// at most that.
    pub fn new(
        network: &Network,
        batch: usize,
        clip: Option<f32>,
        params: Vec<f32>,
        optimiser: OptimiserState,
    ) -> Self {
        let (network, grads) = (network.clone(), vec![0.0; params.len()]);
        Self { network, batch, clip, params, grads, optimiser, runner: None }
    }

    /// Forward, backward, norm, clipping, optimiser.
    fn step(&mut self, row: ScheduleRow, prompts: &Batch) -> Result<StepResult, EngineError> {
        let runner = self.runner.as_mut().expect("prepared before");
        runner.set_tokens(&prompts.tokens)?;
        runner.set_targets(&prompts.targets)?;
        let loss = runner.gradients(&self.params, &mut self.grads);
        let result = StepResult { loss, norm: gradient_norm(&self.grads) };
        if result.is_finite() {
            let norm = result.norm;
            self.optimiser.step_with_norm(&mut self.params, &self.grads, norm, row.rate, self.clip);
        }
        Ok(result)
    }
}

impl<E: From<EngineError> + Send> Trainer<E> for CpuTrainer {
    fn done(&self) -> u64 {
        self.optimiser.step
    }

    fn params(&self) -> Result<Cow<'_, [f32]>, E> {
        Ok(Cow::Borrowed(&self.params))
    }

    fn optimiser(&self) -> Result<Cow<'_, OptimiserState>, E> {
        Ok(Cow::Borrowed(&self.optimiser))
    }

    fn device_bytes(&self) -> Option<usize> {
        None
    }

    fn points(&self) -> Option<usize> {
        self.runner.as_ref().map(Runner::points)
    }

    fn prepare(&mut self, points: usize, _: &Feed) -> Result<(), E> {
        self.runner = None; // free the old buffers before the new ones are made
        self.runner = Some(self.network.predictor(self.batch, points, Mode::Train)?);
        Ok(())
    }

    fn chunk(&self) -> usize {
        1
    }

    fn run(&mut self, schedule: &[ScheduleRow], next: NextBatch<'_, E>) -> Result<Vec<StepResult>, E> {
        on_pool(|| {
            let mut results = Vec::with_capacity(schedule.len());
            for &row in schedule {
                let prompts = next()?;
                results.push(self.step(row, &prompts)?);
                if results.last().is_some_and(|result| !result.is_finite()) {
                    break;
                }
            }
            Ok(results)
        })
    }

    fn predictions(&self, tokens: &[f32], points: usize) -> Result<Vec<f32>, E> {
        let packed = self.network.pack(&self.params);
        let params = ForwardParams { flat: &self.params, packed: Some(&packed) };
        Ok(self.network.predictions(params, tokens, points)?)
    }
}
