//! Training steps on a CUDA device: many are given to it at once, and their results are read when they are wanted.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use engine::cuda::{self, CudaRunner, CudaTrainer, Feed, Precision, ScheduleRow};
use engine::model::networks::{Mode, Network};
use engine::model::optim::OptimiserState;

use super::{StepReport, StepSpec, not_finite};
use crate::data::prompts::Prompts;
use crate::data::sampling::DeviceSampler;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::networks::experiment::Experiment;
use crate::networks::tokens;

/// Steps given to the device at once: few enough that a request to stop is heard soon.
const CHUNK: usize = 256;
const _: () = assert!(CHUNK <= cuda::TABLE);

/// Prompts that are evaluated at once.
const EVALUATED: usize = 512;

/// Largest batch that the sampling kernel offers.
const LARGEST_SAMPLED: usize = 1 << 16;

/// Parameters and moments on the device.
pub(super) struct Cuda {
    device: Arc<cuda::Device>,
    trainer: CudaTrainer,
    /// Where prompts of the points in use come from.
    feed: Feed,
    ahead: Option<Ahead>,
}

impl Cuda {
    pub fn new(
        device: &Arc<cuda::Device>,
        precision: Precision,
        experiment: &Experiment,
        network: &Network,
        params: &[f32],
        adam: &OptimiserState,
    ) -> Result<Cuda> {
        let spec = &experiment.training;
        let clip = spec.clip.map(|c| c as f32);
        let trainer = CudaTrainer::new(device, network, precision, spec.batch, clip, params, adam)?;
        let mut cuda = Cuda { device: device.clone(), trainer, feed: Feed::Host, ahead: None };
        // A network that the device cannot run is refused here, and not in the middle of a run.
        cuda.prepare(experiment, StepSpec::of(experiment, adam.step).points)?;
        Ok(cuda)
    }

    /// Makes ready for prompts of so many points.
    fn prepare(&mut self, experiment: &Experiment, points: usize) -> Result<()> {
        if self.trainer.points() != Some(points) {
            self.feed = feed(experiment, points)?;
            self.trainer.prepare(points, &self.feed)?;
        }
        Ok(())
    }

    pub fn done(&self) -> u64 {
        self.trainer.done()
    }

    pub fn bytes(&self) -> usize {
        self.trainer.bytes()
    }

    pub fn params(&self) -> Result<Vec<f32>> {
        Ok(self.trainer.params()?)
    }

    pub fn adam(&self) -> Result<OptimiserState> {
        Ok(self.trainer.adam()?)
    }

    /// Up to `most` steps, fewer where the curriculum changes the shape.
    pub fn advance(&mut self, experiment: &Experiment, most: u64) -> Result<Vec<StepReport>> {
        let (spec, first) = (&experiment.training, self.done());
        let points = StepSpec::of(experiment, first).points;
        let steps: Vec<StepSpec> = (first..spec.steps.min(first.saturating_add(most)))
            .take(CHUNK)
            .map(|step| StepSpec::of(experiment, step))
            .take_while(|step| step.points == points)
            .collect();
        self.prepare(experiment, points)?;
        let rows: Vec<ScheduleRow> =
            steps.iter().map(|s| ScheduleRow { rate: s.rate as f32, dims: s.dims as u32 }).collect();
        let results = match &self.feed {
            Feed::Kernel { .. } => self.trainer.run(&rows)?,
            Feed::Host => {
                let (ahead, mut step) = (&mut self.ahead, first);
                self.trainer.run_host(&rows, || -> Result<_> {
                    step += 1;
                    Ahead::take(ahead, experiment, step - 1)
                })?
            }
        };
        let taken = (self.done() - first) as usize;
        if let (0, Some(result)) = (taken, results.first()) {
            return Err(not_finite(spec, first, f64::from(result.loss), f64::from(result.norm)));
        }
        // A step that was not taken is tried again by the next call, which then reports it.
        let taken = steps.iter().zip(&results).take(taken);
        Ok(taken.map(|(step, r)| step.report(f64::from(r.loss), f64::from(r.norm))).collect())
    }

    /// Predictions `[b,n]`, row-major. In float32 whatever the training: the weights are, and whoever reads the checkpoint.
    pub fn predictions(&self, network: &Network, prompts: &Prompts) -> Result<Vec<f64>> {
        let (count, points) = (prompts.count(), prompts.points());
        let batch = EVALUATED.min(count);
        let shape = [batch, 2 * points];
        let mut runner = CudaRunner::new(&self.device, network, Precision::Float32, shape, Mode::Infer)?;
        runner.set_params(&self.params()?)?;
        let tokens = tokens(prompts, network.features());
        let mut all = Vec::with_capacity(count * points);
        for chunk in tokens.chunks(batch * 2 * points * network.features()) {
            // The last chunk is filled up with prompts of zeros.
            let mut chunk = chunk.to_vec();
            chunk.resize(batch * 2 * points * network.features(), 0.0);
            runner.set_tokens(&chunk)?;
            runner.forward()?;
            all.extend(runner.predictions()?.into_iter().map(f64::from));
        }
        all.truncate(count * points);
        Ok(all)
    }
}

/// The sampling kernel where there is one, else the host.
fn feed(experiment: &Experiment, points: usize) -> Result<Feed> {
    let (task, spec) = (&experiment.task, &experiment.training);
    if spec.batch > LARGEST_SAMPLED {
        return Ok(Feed::Host);
    }
    let (seed, batch) = (Seed(spec.seed), spec.batch);
    let sampler = DeviceSampler::new(&task.function, &task.inputs, seed, "train", batch, points, task.dim)?;
    Ok(match sampler {
        Some(DeviceSampler { source, threads, .. }) => Feed::Kernel { source, threads },
        None => Feed::Host,
    })
}

/// Tokens and targets.
type Batch = (Vec<f32>, Vec<f32>);

/// Prompts from the host, sampled by a thread of their own while the device computes.
struct Ahead {
    next: u64,
    /// Taken away before the thread is waited for, so that it ends.
    batches: Option<Receiver<Result<Batch>>>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    fn new(experiment: &Experiment, first: u64) -> Result<Ahead> {
        let (give, take) = sync_channel(1);
        let experiment = experiment.clone();
        let sample = move || {
            for step in first..experiment.training.steps {
                let batch = StepSpec::of(&experiment, step).sample(&experiment).map(|prompts| {
                    let targets = prompts.ys.iter().map(|y| *y as f32).collect();
                    (tokens(&prompts, experiment.task.dim), targets)
                });
                if give.send(batch).is_err() {
                    return; // nobody listens any more
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("prompts".into())
            .spawn(sample)
            .map_err(|e| Error::Training(format!("cannot start the thread that samples prompts: {e}")))?;
        Ok(Ahead { next: first, batches: Some(take), thread: Some(thread) })
    }

    /// The batch of a step; steps that follow each other are sampled ahead.
    fn take(slot: &mut Option<Ahead>, experiment: &Experiment, step: u64) -> Result<Batch> {
        if slot.as_ref().is_none_or(|ahead| ahead.next != step) {
            *slot = None; // ends the old thread first
            *slot = Some(Ahead::new(experiment, step)?);
        }
        let ahead = slot.as_mut().expect("made above");
        ahead.next += 1;
        let received = ahead.batches.as_ref().map(Receiver::recv);
        match received {
            Some(Ok(batch)) => batch,
            _ => Err(Error::Training(format!("step {step}: the thread that samples prompts has ended"))),
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a thread samples ahead is what the step would have sampled, also after going back.
    #[test]
    fn prompts_ahead_are_those_of_their_steps() {
        let text = include_str!("../../../../../experiments/miniature.toml");
        let mut experiment = Experiment::parse(text, std::path::Path::new("miniature.toml")).unwrap();
        experiment.training.batch = 3;
        let mut slot = None;
        for step in [0, 1, 2, 7, 8, 2, 3] {
            let (found, targets) = Ahead::take(&mut slot, &experiment, step).unwrap();
            let prompts = StepSpec::of(&experiment, step).sample(&experiment).unwrap();
            assert_eq!(found, tokens(&prompts, experiment.task.dim), "step {step}");
            assert_eq!(targets.len(), prompts.ys.len());
        }
    }

    #[test]
    fn experiments_are_fed_by_the_device_where_it_can_sample() {
        let text = include_str!("../../../../../experiments/r1.toml");
        let mut experiment = Experiment::parse(text, std::path::Path::new("r1.toml")).unwrap();
        assert!(matches!(feed(&experiment, 11).unwrap(), Feed::Kernel { .. }));
        experiment.training.batch = LARGEST_SAMPLED + 1;
        assert!(matches!(feed(&experiment, 11).unwrap(), Feed::Host));
        experiment.training.batch = 64;
        experiment.task.function = "relu-2nn:hidden=5000".into();
        assert!(matches!(feed(&experiment, 11).unwrap(), Feed::Host));
    }
}
