//! Training: one step is a pure function of the weights, the moments and the step's number. The lab samples prompts, the
//! engine trains on them.

mod bayes;
mod prompts;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use engine::cpu::CpuTrainer;
use engine::cuda::CudaTrainer;
use engine::model::networks::Network;
use engine::model::optim::{OptimiserState, adam::AdamConfig};
use engine::model::parameters::ParamLayout;
use engine::trainer::{Feed, ScheduleRow};
use ndarray::ArrayView2;

use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::networks::devices::Device;
use crate::networks::experiment::{Experiment, Optimiser, Start, TrainingSpec};
use crate::networks::models;
use crate::networks::{Weights, tokens};
pub use bayes::bayes_loss;
use prompts::{PromptQueue, StepSpec, feed};

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

/// Steps of one shape from which on a device tunes itself to them: a few seconds, which fewer steps would not win back.
const TUNED_FROM: u64 = 50_000;

fn not_finite(spec: &TrainingSpec, step: u64, loss: f64, norm: f64) -> Error {
    Error::Training(format!(
        "step {step}: the loss is {loss} and the gradient norm {norm}; the last checkpoint is untouched. \
         A smaller rate (now {:e}) or clipping usually helps",
        spec.rate
    ))
}

/// A network in training.
pub struct Trainer {
    experiment: Experiment,
    network: Network,
    /// Where parameters lie in the flat buffers.
    pub layout: ParamLayout,
    /// Parameters and moments, on their device.
    trainer: Box<dyn engine::Trainer<Error>>,
    prompts: PromptQueue,
}

impl Trainer {
    /// A fresh network on the CPU.
    pub fn new(experiment: &Experiment) -> Result<Trainer> {
        Trainer::on(&Device::Cpu, experiment, None)
    }

    /// A network on a device: a fresh one, or with parameters and moments that were saved.
    pub fn on(
        device: &Device,
        experiment: &Experiment,
        saved: Option<(Vec<f32>, OptimiserState)>,
    ) -> Result<Trainer> {
        experiment.check()?;
        let network = experiment.network.build(experiment.task.dim, experiment.task.points)?;
        let (layout, spec) = (network.layout(), &experiment.training);
        let (params, mut optimiser) = match saved {
            Some(saved) => saved,
            None => (first_weights(&network, &layout, spec)?, fresh_optimiser(&layout, spec)),
        };
        if spec.optimiser == Optimiser::Muon {
            optimiser.muon = network.muon_matrices();
        }
        let (batch, clip) = (spec.batch, spec.clip.map(|clip| clip as f32));
        let trainer: Box<dyn engine::Trainer<Error>> = match device {
            Device::Cpu => Box::new(CpuTrainer::new(&network, batch, clip, params, optimiser)),
            Device::Cuda(device, precision) => {
                Box::new(CudaTrainer::new(device, &network, *precision, batch, clip, &params, &optimiser)?)
            }
        };
        let (experiment, prompts) = (experiment.clone(), PromptQueue::default());
        let mut trainer = Trainer { experiment, network, layout, trainer, prompts };
        // A network that the device cannot run is refused here, and not in the middle of a run.
        trainer.prepare(StepSpec::of(&trainer.experiment, trainer.done()).points)?;
        trainer.prepare_ahead()?;
        Ok(trainer)
    }

    /// Lets a GPU make ready for the shapes that the curriculum comes to, while it takes the first steps.
    fn prepare_ahead(&self) -> Result<()> {
        let spec = &self.experiment.training;
        let Some(ramp) = spec.points.filter(|_| self.on_gpu()) else { return Ok(()) };
        let points = ramp.after(self.done(), spec.steps).into_iter();
        let shapes: Result<Vec<_>> =
            points.map(|points| Ok((points, feed(&self.experiment, points)?))).collect();
        self.trainer.prepare_ahead(&shapes?);
        Ok(())
    }

    /// Makes ready for prompts of so many points.
    fn prepare(&mut self, points: usize) -> Result<()> {
        if self.trainer.points() == Some(points) {
            return Ok(());
        }
        let feed = if self.on_gpu() { feed(&self.experiment, points)? } else { Feed::Host };
        self.trainer.prepare(points, &feed)?;
        // Of all steps and not of those that are left: a run that was interrupted goes on with the same bits.
        if self.experiment.training.steps_with_points(points) >= TUNED_FROM {
            self.trainer.tune()?;
        }
        Ok(())
    }

    fn on_gpu(&self) -> bool {
        self.device_bytes().is_some()
    }

    /// Steps taken so far.
    pub fn done(&self) -> u64 {
        self.trainer.done()
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Parameters as they are now.
    pub fn params(&self) -> Result<Cow<'_, [f32]>> {
        self.trainer.params()
    }

    /// Moments and step count as they are now.
    pub fn optimiser(&self) -> Result<Cow<'_, OptimiserState>> {
        self.trainer.optimiser()
    }

    /// Bytes of device memory in use; none on the CPU.
    pub fn device_bytes(&self) -> Option<usize> {
        self.trainer.device_bytes()
    }

    /// One gradient step on fresh prompts. A loss that is not finite is an error, and the weights are not touched.
    pub fn step(&mut self) -> Result<StepReport> {
        let reports = self.advance(1)?;
        reports.last().copied().ok_or_else(|| Error::Training("all steps are done".into()))
    }

    /// As many gradient steps as suit the device, at least one and at most `most`, fewer where the curriculum changes the
    /// shape; what each reports. At a loss that is not finite the steps before it are reported; when there are none it is an
    /// error, and the weights are not touched.
    pub fn advance(&mut self, most: u64) -> Result<Vec<StepReport>> {
        let first = self.done();
        let points = StepSpec::of(&self.experiment, first).points;
        self.prepare(points)?;
        let ahead = self.on_gpu();
        let Trainer { experiment, trainer, prompts, .. } = self;
        let steps: Vec<StepSpec> = (first..experiment.training.steps.min(first.saturating_add(most)))
            .take(trainer.chunk())
            .map(|step| StepSpec::of(experiment, step))
            .take_while(|step| step.points == points)
            .collect();
        let rows: Vec<ScheduleRow> =
            steps.iter().map(|s| ScheduleRow { rate: s.rate as f32, dims: s.dims as u32 }).collect();
        let mut next = first..;
        let results = trainer.run(&rows, &mut || {
            let step = next.next().expect("steps do not end");
            if ahead { prompts.sampled_ahead(experiment, step) } else { prompts::batch(experiment, step) }
        })?;
        let taken = (trainer.done() - first) as usize;
        if let (0, Some(result)) = (taken, results.first()) {
            let (loss, norm) = (f64::from(result.loss), f64::from(result.norm));
            return Err(not_finite(&experiment.training, first, loss, norm));
        }
        // A step that was not taken is tried again by the next call, which then reports it.
        let taken = steps.iter().zip(&results).take(taken);
        Ok(taken.map(|(step, r)| step.report(f64::from(r.loss), f64::from(r.norm))).collect())
    }

    /// Mean squared error by pairs read, over `count` fresh prompts of the whole task.
    pub fn evaluate(&self, count: usize) -> Result<Vec<f64>> {
        const CHUNK: usize = 512;
        let task = &self.experiment.task;
        let task = task.build()?;
        let seed = Seed(self.experiment.training.seed);
        let mut sums = vec![0.0; task.points];
        for first in (0..count).step_by(CHUNK) {
            let prompts = task.sample(seed, "eval", first as u64, CHUNK.min(count - first));
            let tokens = tokens(&prompts, self.network.features());
            let predictions = self.trainer.predictions(&tokens, task.points)?;
            let predictions = ArrayView2::from_shape(prompts.ys.dim(), &predictions)
                .map_err(|e| Error::BadData(e.to_string()))?;
            for (predicted, ys) in predictions.rows().into_iter().zip(prompts.ys.rows()) {
                for (sum, (&p, &y)) in sums.iter_mut().zip(predicted.iter().zip(ys)) {
                    let error = f64::from(p) - y;
                    *sum += error * error / count as f64;
                }
            }
        }
        Ok(sums)
    }
}

/// The file of weights that `init` means: itself, that of a run's directory, or that of a shipped network's name.
fn weights_at(init: &Path) -> PathBuf {
    let name = init.to_str().filter(|name| models::named(name).is_ok());
    let path = match name {
        Some(name) if !init.exists() => models::folder().join(name),
        _ => init.to_path_buf(),
    };
    if path.is_dir() { path.join("checkpoint.safetensors") } else { path }
}

/// The weights that training begins with: those of `init`, or random ones.
fn first_weights(network: &Network, layout: &ParamLayout, spec: &TrainingSpec) -> Result<Vec<f32>> {
    if let Some(given) = &spec.init {
        return Ok(Weights::read(&weights_at(given), network.clone())?.into_params());
    }
    let mut params = layout.initial(&Seed(spec.seed));
    match (spec.start, network) {
        (Start::PassThrough, Network::Lstm(config)) => config.pass_through(&mut params),
        (Start::UnitGain, Network::Lstm(config)) => config.unit_gain(&mut params),
        _ => {}
    }
    Ok(params)
}

fn fresh_optimiser(layout: &ParamLayout, spec: &TrainingSpec) -> OptimiserState {
    let [beta1, beta2, epsilon] = [spec.beta1, spec.beta2, spec.epsilon].map(|value| value as f32);
    OptimiserState::new(AdamConfig { beta1, beta2, epsilon }, layout.len())
}
