//! Training: one step is a pure function of the weights, the moments and the step's number.

mod cpu;
mod cuda;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use engine::model::networks::Network;
use engine::model::optim::{OptimiserState, adam::AdamConfig};
use engine::model::parameters::ParamLayout;
use ndarray::Array2;

use crate::data::prompts::{Prompts, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::learners::steps::Steps;
use crate::networks::Weights;
use crate::networks::devices::Device;
use crate::networks::experiment::{Experiment, Optimiser, Start, TrainingSpec};
use crate::networks::models;
use crate::solvers;
use cpu::Cpu;
use cuda::Cuda;

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

/// What a step does, a pure function of its number.
#[derive(Clone, Copy, Debug)]
struct StepSpec {
    step: u64,
    rate: f64,
    dims: usize,
    points: usize,
}

impl StepSpec {
    fn of(experiment: &Experiment, step: u64) -> StepSpec {
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

    fn report(&self, loss: f64, norm: f64) -> StepReport {
        StepReport { loss, norm, rate: self.rate, dims: self.dims, points: self.points }
    }
}

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
    backend: Backend,
}

/// Where parameters and moments are.
enum Backend {
    Cpu(Box<Cpu>),
    Cuda(Box<Cuda>),
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
        let layout = network.layout();
        let t = &experiment.training;
        let (params, mut adam) = match saved {
            Some(saved) => saved,
            None => {
                let config =
                    AdamConfig { beta1: t.beta1 as f32, beta2: t.beta2 as f32, epsilon: t.epsilon as f32 };
                let params = match &t.init {
                    Some(given) => Weights::read(&weights_at(given), network.clone())?.into_params(),
                    None => fresh(&network, &layout, t),
                };
                (params, OptimiserState::new(config, layout.len()))
            }
        };
        if t.optimiser == Optimiser::Muon {
            adam.muon = network.muon_matrices();
        }
        let backend = match device {
            Device::Cpu => Backend::Cpu(Box::new(Cpu::new(params, adam))),
            Device::Cuda(device, precision) => {
                let cuda = Cuda::new(device, *precision, experiment, &network, &params, &adam)?;
                Backend::Cuda(Box::new(cuda))
            }
        };
        Ok(Trainer { experiment: experiment.clone(), network, layout, backend })
    }

    /// Steps taken so far.
    pub fn done(&self) -> u64 {
        match &self.backend {
            Backend::Cpu(cpu) => cpu.adam.step,
            Backend::Cuda(cuda) => cuda.done(),
        }
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Parameters as they are now.
    pub fn params(&self) -> Result<Cow<'_, [f32]>> {
        Ok(match &self.backend {
            Backend::Cpu(cpu) => Cow::Borrowed(&cpu.params),
            Backend::Cuda(cuda) => Cow::Owned(cuda.params()?),
        })
    }

    /// Moments and step count as they are now.
    pub fn adam(&self) -> Result<Cow<'_, OptimiserState>> {
        Ok(match &self.backend {
            Backend::Cpu(cpu) => Cow::Borrowed(&cpu.adam),
            Backend::Cuda(cuda) => Cow::Owned(cuda.adam()?),
        })
    }

    /// Bytes of device memory in use; none on the CPU.
    pub fn device_bytes(&self) -> Option<usize> {
        match &self.backend {
            Backend::Cpu(_) => None,
            Backend::Cuda(cuda) => Some(cuda.bytes()),
        }
    }

    /// One gradient step on fresh prompts. A loss that is not finite is an error, and the weights are not touched.
    pub fn step(&mut self) -> Result<StepReport> {
        let reports = self.advance(1)?;
        reports.last().copied().ok_or_else(|| Error::Training("all steps are done".into()))
    }

    /// As many gradient steps as suit the device, at least one and at most `most`; what each reports. At a loss that is
    /// not finite the steps before it are reported; when there are none it is an error, and the weights are not touched.
    pub fn advance(&mut self, most: u64) -> Result<Vec<StepReport>> {
        match &mut self.backend {
            Backend::Cpu(cpu) => Ok(vec![cpu.step(&self.experiment, &self.network)?]),
            Backend::Cuda(cuda) => cuda.advance(&self.experiment, most),
        }
    }

    /// Mean squared error by pairs read, over `count` fresh prompts of the whole task.
    pub fn evaluate(&self, count: usize) -> Result<Vec<f64>> {
        let task = &self.experiment.task;
        let task = task.build()?;
        let seed = Seed(self.experiment.training.seed);
        let mut sums = vec![0.0; task.points];
        let mut add = |prompts: &Prompts, predictions: Array2<f64>| {
            for row in (&predictions - &prompts.ys).rows() {
                sums.iter_mut().zip(row).for_each(|(sum, e)| *sum += e * e / count as f64);
            }
        };
        match &self.backend {
            Backend::Cpu(cpu) => {
                let weights = Weights::new(self.network.clone(), cpu.params.clone());
                const CHUNK: usize = 256;
                for first in (0..count).step_by(CHUNK) {
                    let prompts = task.sample(seed, "eval", first as u64, CHUNK.min(count - first));
                    add(&prompts, weights.predictions(&prompts)?);
                }
            }
            Backend::Cuda(cuda) => {
                let prompts = task.sample(seed, "eval", 0, count);
                let values = cuda.predictions(&self.network, &prompts)?;
                let predictions = Array2::from_shape_vec((count, task.points), values);
                add(&prompts, predictions.map_err(|e| Error::BadData(e.to_string()))?);
            }
        }
        Ok(sums)
    }
}

/// The file of weights that `init` means: itself, that of a run's directory, or that of a shipped network's name.
fn weights_at(init: &Path) -> PathBuf {
    let name = init.to_str().filter(|name| models::named(name).is_ok());
    let path = match name {
        Some(name) if !init.exists() => Path::new(models::FOLDER).join(name),
        _ => init.to_path_buf(),
    };
    if path.is_dir() { path.join("checkpoint.safetensors") } else { path }
}

/// First weights.
fn fresh(network: &Network, layout: &ParamLayout, spec: &TrainingSpec) -> Vec<f32> {
    let mut params = layout.initial(&Seed(spec.seed));
    if let (Start::PassThrough, Network::Lstm(config)) = (spec.start, network) {
        config.pass_through(&mut params);
    }
    params
}

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
    fn floors_agree_where_both_are_known() {
        let exact = bayes_loss("linear", "gaussian", 20, 41).unwrap().unwrap();
        assert!((exact - 5.122).abs() < 1e-3);
        let sampled = bayes_loss("noisy-linear:sigma=0.001", "gaussian", 20, 41).unwrap().unwrap();
        assert!((sampled / exact - 1.0).abs() < 0.05, "{sampled} {exact}");
        assert!(bayes_loss("relu-2nn", "gaussian", 20, 41).unwrap().is_none());
        assert!(bayes_loss("linear", "skewed:kappa=100", 20, 41).unwrap().is_none());
    }
}
