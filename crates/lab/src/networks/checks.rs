//! Checks that training on a CUDA device is training on the CPU: the same prompts, the same curriculum, runs that go on
//! with the same bits. The engine's own checks (`engine::cuda::checks`) are about networks alone.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use engine::cuda::checks::{self, Check, Failure, Named, kernels_of, relative_distance, tolerance};
use engine::cuda::{self, CudaError, KernelSource, Precision};
use engine::deviation::worst;
use engine::model::optim::OptimiserState;

use crate::data::functions::FUNCTIONS;
use crate::data::inputs::INPUTS;
use crate::data::prompts::Task;
use crate::data::sampling::DeviceSampler;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::networks::devices::Device;
use crate::networks::evaluation;
use crate::networks::experiment::Experiment;
use crate::networks::train::{StepReport, Trainer};
use crate::networks::{Weights, tokens};
use crate::patching::{Donor, Part, Patched, Place};
use crate::probe;
use crate::streams;

/// Logarithms, sines and the order of sums may round differently, and nothing else.
const SAMPLED: f64 = 1e-6;

/// Batch, points and features of the prompts that are compared.
const SHAPE: [usize; 3] = [16, 41, 20];

fn checked_sampler(function: &str, inputs: &str) -> Result<Option<DeviceSampler>> {
    let [batch, points, features] = SHAPE;
    DeviceSampler::new(function, inputs, Seed(5), "train", batch, points, features)
}

/// One batch from the sampling kernel against [`Task::sample`], with all dimensions in use and with fewer; the largest
/// difference relative to the largest number.
pub fn sampler(device: &Arc<cuda::Device>, function: &str, inputs: &str) -> Result<Check> {
    const STEP: u64 = 300_000_001; // its prompts have numbers of more than 32 bits
    let [batch, points, features] = SHAPE;
    let name = format!("{function} of {inputs}");
    let sampler = checked_sampler(function, inputs)?
        .ok_or_else(|| CudaError::Unsupported(format!("{name} has no sampling kernel")))?;
    let mut error = 0.0;
    for dims in [features, 13] {
        let kernel =
            cuda::SampleKernel { source: &sampler.source, threads: sampler.threads, cooperative: false };
        let found = cuda::sample_once(device, kernel, SHAPE, STEP, dims as u32)?;
        let task = Task::new(function, inputs, dims, points)?;
        let prompts = task.sample(Seed(5), "train", STEP * batch as u64, batch);
        let targets: Vec<f32> = prompts.ys.iter().map(|y| *y as f32).collect();
        for (found, expected) in [(found.0, tokens(&prompts, features)), (found.1, targets)] {
            let largest = expected.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
            let apart = found.iter().zip(&expected).map(|(a, b)| (a - b).abs() / largest);
            error = worst(apart.map(f64::from).chain([error]));
        }
    }
    Ok(Check { name, error, tolerance: SAMPLED })
}

/// Points and dimensions grow, the rate changes, gradients are clipped; `function` may be one that only the host samples.
fn experiment(function: &str) -> Experiment {
    let text = format!(
        "name = \"check\"\n[task]\nfunction = \"{function}\"\ninputs = \"gaussian\"\ndim = 5\npoints = 11\n\
         [network]\nkind = \"gpt2\"\nlayers = 2\nheads = 2\nwidth = 64\npositions = 22\n\
         [training]\nsteps = 60\nbatch = 16\nrate = 1e-3\nclip = 1.0\nschedule = \"cosine\"\nwarmup = 0.1\n\
         dims = {{ start = 3, end = 5, over = 0.5 }}\npoints = {{ start = 7, end = 11, by = 2, every = 20 }}\n"
    );
    Experiment::parse(&text, Path::new("check")).expect("a sound experiment")
}

/// A function whose weights fit into no shared memory.
const HOST_SAMPLED: &str = "relu-2nn:hidden=1000";

/// Trains until `end`, at most `most` steps at a time.
fn train(trainer: &mut Trainer, end: u64, most: u64) -> Result<Vec<StepReport>> {
    let mut reports = Vec::new();
    while trainer.done() < end {
        reports.extend(trainer.advance(most.min(end - trainer.done()))?);
    }
    Ok(reports)
}

/// Losses of a whole experiment with its curriculum against the CPU's, prompts from the device and from the host; and the
/// evaluation at its end.
pub fn training(device: &Arc<cuda::Device>, precision: Precision) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for (function, fed) in [("linear", "sampled there"), (HOST_SAMPLED, "sampled here")] {
        let experiment = experiment(function);
        let steps = experiment.training.steps;
        let mut cpu = Trainer::new(&experiment)?;
        let mut gpu = Trainer::on(&Device::Cuda(device.clone(), precision), &experiment, None)?;
        let [expected, found] = [train(&mut cpu, steps, 1)?, train(&mut gpu, steps, 17)?];
        let losses = |reports: &[StepReport]| reports.iter().map(|r| r.loss).collect::<Vec<f64>>();
        let same_schedule = expected.len() == found.len()
            && expected
                .iter()
                .zip(&found)
                .all(|(a, b)| (a.rate, a.dims, a.points) == (b.rate, b.dims, b.points) && b.norm.is_finite());
        let apart = relative_distance(&losses(&found), &losses(&expected), 0.0);
        let name = format!("loss curve of an experiment, {fed}");
        let error = if same_schedule { apart } else { f64::NAN };
        checks.push(Check { name, error, tolerance: 3.0 * tolerance(precision) });
        // The evaluation alone: of the same weights, and always in float32.
        let saved = (gpu.params()?.into_owned(), gpu.optimiser()?.into_owned());
        let cpu = Trainer::on(&Device::Cpu, &experiment, Some(saved))?;
        let error = relative_distance(&gpu.evaluate(700)?, &cpu.evaluate(700)?, 0.0);
        let name = format!("evaluation of an experiment, {fed}");
        checks.push(Check { name, error, tolerance: 10.0 * tolerance(Precision::Float32) });
    }
    Ok(checks)
}

/// Chunks of any size, and going on from what was saved, end with the same bits.
pub fn resumed(device: &Arc<cuda::Device>, precision: Precision) -> Result<Check> {
    let device = Device::Cuda(device.clone(), precision);
    let state = |trainer: &Trainer| -> Result<(Vec<f32>, OptimiserState)> {
        Ok((trainer.params()?.into_owned(), trainer.optimiser()?.into_owned()))
    };
    let mut different = 0;
    for function in ["linear", HOST_SAMPLED] {
        let experiment = experiment(function);
        let mut whole = Trainer::on(&device, &experiment, None)?;
        train(&mut whole, 60, 1000)?;
        let mut first = Trainer::on(&device, &experiment, None)?;
        train(&mut first, 23, 5)?;
        let mut second = Trainer::on(&device, &experiment, Some(state(&first)?))?;
        train(&mut second, 60, 7)?;
        different += u32::from(state(&whole)? != state(&second)?);
    }
    Ok(Check { name: "same bits in chunks and resumed".into(), error: f64::from(different), tolerance: 0.0 })
}

/// A loss that is not finite is the CPU's error, and the steps before it count.
pub fn explodes(device: &Arc<cuda::Device>, precision: Precision) -> Result<Check> {
    let mut experiment = experiment("linear");
    (experiment.training.rate, experiment.training.clip) = (1e18, None);
    let mut trainer = Trainer::on(&Device::Cuda(device.clone(), precision), &experiment, None)?;
    let failure = train(&mut trainer, 60, 1000);
    let right =
        matches!(&failure, Err(Error::Training(text)) if text.contains(&format!("step {}:", trainer.done())));
    let sound = trainer.params()?.iter().all(|p| p.is_finite());
    let error = f64::from(u8::from(!right) + u8::from(!sound));
    Ok(Check { name: "a loss that explodes is an error".into(), error, tolerance: 0.0 })
}

/// Answers with streams, heads and hidden layers taken from donors, against the CPU's: more prompts than run together.
pub fn patching(device: &Arc<cuda::Device>, precision: Precision) -> Result<Vec<Check>> {
    let experiment = experiment("linear");
    let trainer = Trainer::new(&experiment)?;
    let weights = Weights::new(trainer.network().clone(), trainer.params()?.into_owned());
    let (prompts, donors) = Donor::Both.pairs(&experiment.task.build()?, Seed(3), 300);
    let device = Device::Cuda(device.clone(), precision);
    let places = [Place::Y, Place::Query, Place::Token(4)];
    let mut checks = Vec::new();
    for (part, name, _) in Part::ALL {
        let [found, expected] = [&device, &Device::Cpu]
            .map(|device| Patched::on(device, &weights, [&prompts, &donors], part, &places));
        let flat = |of: Patched| -> Vec<f64> { of.patched.into_iter().flatten().flatten().collect() };
        let error = relative_distance(&flat(found?), &flat(expected?), 0.0);
        checks.push(Check { name: format!("{name} of a donor"), error, tolerance: tolerance(precision) });
    }
    Ok(checks)
}

/// Networks at every number of points of the curriculum.
fn kernels_of_curriculum(device: &cuda::DeviceInfo, precision: Precision) -> Vec<KernelSource> {
    let Experiment { task, training, network, .. } = experiment("linear");
    let Ok(network) = network.build(task.dim, task.points) else { return Vec::new() };
    let at = |step| training.points.map_or(task.points, |ramp| ramp.at(step, training.steps));
    let points: BTreeSet<usize> = (0..training.steps).map(at).collect();
    let kernels = |points| kernels_of(device, precision, &network, [training.batch, 2 * points]);
    points.into_iter().flat_map(kernels).collect()
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Cuda(error) => error.into(),
            other => Failure::Failed(other.to_string()),
        }
    }
}

/// Every check of a device, in groups: its memory, the engine's networks in each precision, then those of this module.
pub fn all() -> Vec<(String, Vec<Named>)> {
    let memory = ("device memory".to_string(), checks::memory());
    let networks = Precision::ALL.map(|(precision, name)| {
        (format!("networks in {name}, against the reference"), checks::suite(precision))
    });
    let labs = suite().into_iter().map(|(name, checks)| (format!("{name}, against the CPU"), checks));
    std::iter::once(memory).chain(networks).chain(labs).collect()
}

/// Every check of the lab, in groups: sampling, training in each precision, and evaluation.
pub fn suite() -> Vec<(String, Vec<Named>)> {
    let pairs = FUNCTIONS.iter().flat_map(|f| INPUTS.iter().map(|i| (f.name, i.name)));
    let samplers = pairs.map(|(function, inputs)| {
        let name = format!("{function} of {inputs}");
        Named::new(name, move |device| sampler(device, function, inputs).map(|c| vec![c])).using(move |_| {
            let sampler = checked_sampler(function, inputs).ok().flatten();
            sampler.iter().map(|s| KernelSource::sampler(Precision::Float32, &s.source)).collect()
        })
    });
    let mut groups = vec![("prompts".to_string(), samplers.collect())];
    for (precision, name) in Precision::ALL {
        let checks = vec![
            Named::new("experiments with a curriculum", move |device| training(device, precision))
                .using(move |device| kernels_of_curriculum(device, precision)),
            Named::new("chunks and resumed", move |device| resumed(device, precision).map(|c| vec![c])),
            Named::new("activations of donors", move |device| patching(device, precision)),
            Named::new("a loss that explodes", move |device| explodes(device, precision).map(|c| vec![c])),
        ];
        groups.push((format!("training in {name}"), checks));
    }
    // Networks are evaluated in float32, whatever they are trained in.
    let precision = evaluation::PRECISION;
    let layers = Named::new("layers and answers", move |device| probe::checks::layers(device, precision));
    let read = Named::new("residual streams", move |device| streams::on_device::check(device, precision));
    groups.push((format!("evaluation in {}", precision.name()), vec![layers, read]));
    groups
}
