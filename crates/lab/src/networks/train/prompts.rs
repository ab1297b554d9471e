//! What a step does and the prompts it is fed with: sampled by the host, or by a kernel on the device.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use engine::trainer::{Batch, Feed};

use super::StepReport;
use crate::data::prompts::Prompts;
use crate::data::sampling::DeviceSampler;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::networks::experiment::Experiment;
use crate::networks::tokens;

/// Largest batch that the sampling kernel offers.
const LARGEST_SAMPLED: usize = 1 << 16;

/// What a step does, a pure function of its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepSpec {
    step: u64,
    pub rate: f64,
    pub dims: usize,
    pub points: usize,
}

impl StepSpec {
    pub fn of(experiment: &Experiment, step: u64) -> StepSpec {
        let (spec, task) = (&experiment.training, &experiment.task);
        StepSpec {
            step,
            rate: spec.rate_at(step),
            dims: spec.dims.map_or(task.dim, |ramp| ramp.at(step, spec.steps)),
            points: spec.points.map_or(task.points, |ramp| ramp.at(step, spec.steps)),
        }
    }

    /// The step's prompts.
    fn sample(&self, experiment: &Experiment) -> Result<Prompts> {
        let (spec, task) = (&experiment.training, &experiment.task);
        let task = task.in_dims(self.dims, self.points)?;
        Ok(task.sample(Seed(spec.seed), "train", self.step * spec.batch as u64, spec.batch))
    }

    pub fn report(&self, loss: f64, norm: f64) -> StepReport {
        StepReport { loss, norm, rate: self.rate, dims: self.dims, points: self.points }
    }
}

/// The prompts of a step, as the engine takes them.
pub(super) fn batch(experiment: &Experiment, step: u64) -> Result<Batch> {
    let prompts = StepSpec::of(experiment, step).sample(experiment)?;
    let targets = prompts.ys.iter().map(|y| *y as f32).collect();
    Ok(Batch { tokens: tokens(&prompts, experiment.task.dim), targets })
}

/// The sampling kernel where there is one, else the host.
pub(super) fn feed(experiment: &Experiment, points: usize) -> Result<Feed> {
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

/// Prompts of one step after the other.
#[derive(Default)]
pub(super) struct PromptQueue {
    ahead: Option<SampledAhead>,
}

impl PromptQueue {
    /// The batch of a step; those of the steps after it are sampled while the device computes.
    pub fn sampled_ahead(&mut self, experiment: &Experiment, step: u64) -> Result<Batch> {
        if self.ahead.as_ref().is_none_or(|ahead| ahead.next != step) {
            self.ahead = None; // ends the old thread first
            self.ahead = Some(SampledAhead::new(experiment, step)?);
        }
        let ahead = self.ahead.as_mut().expect("made above");
        ahead.next += 1;
        match ahead.batches.as_ref().map(Receiver::recv) {
            Some(Ok(batch)) => batch,
            _ => Err(Error::Training(format!("step {step}: the thread that samples prompts has ended"))),
        }
    }
}

/// Prompts from the host, sampled by a thread of their own while the device computes.
struct SampledAhead {
    next: u64,
    /// Taken away before the thread is waited for, so that it ends.
    batches: Option<Receiver<Result<Batch>>>,
    thread: Option<JoinHandle<()>>,
}

impl SampledAhead {
    fn new(experiment: &Experiment, first: u64) -> Result<SampledAhead> {
        let (give, take) = sync_channel(1);
        let experiment = experiment.clone();
        let sample = move || {
            for step in first..experiment.training.steps {
                if give.send(batch(&experiment, step)).is_err() {
                    return; // nobody listens any more
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("prompts".into())
            .spawn(sample)
            .map_err(|e| Error::Training(format!("cannot start the thread that samples prompts: {e}")))?;
        Ok(SampledAhead { next: first, batches: Some(take), thread: Some(thread) })
    }
}

impl Drop for SampledAhead {
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
        let mut queue = PromptQueue::default();
        for step in [0, 1, 2, 7, 8, 2, 3] {
            let found = queue.sampled_ahead(&experiment, step).unwrap();
            let prompts = StepSpec::of(&experiment, step).sample(&experiment).unwrap();
            assert_eq!(found.tokens, tokens(&prompts, experiment.task.dim), "step {step}");
            assert_eq!(found.targets.len(), prompts.ys.len());
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
