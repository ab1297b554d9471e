//! `iclab bench train`: milliseconds of a training step.

use std::time::Duration;

use clap::Args;
use lab::findings::numbers::counted;
use lab::networks::devices::Device;
use lab::networks::experiment::Experiment;
use lab::networks::train::Trainer;
use serde_json::json;

use super::{RecordArgs, Rounds, experiment, median, peak_mib, record};
use crate::device::DeviceArgs;
use crate::error::Result;

#[derive(Args)]
#[command(after_help = "Examples:\n  iclab bench train --experiment r1 --device cpu --json\n  \
                        iclab bench train --experiment r5 --device cuda --precision tf32 --batch 256\n  \
                        iclab bench train --experiment experiments/miniature.toml")]
pub struct TrainArgs {
    /// r1, r5 (24 layers), r7 or lstm, small (3 layers × 64, d=5, 11 points, batch 64), or an experiment file
    #[arg(long, default_value = "r1")]
    experiment: String,
    #[command(flatten)]
    device: DeviceArgs,
    /// Prompts per step, instead of the experiment's
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    batch: Option<u32>,
    /// Steps that are timed after some that are not: each alone on the CPU (by default for two seconds, at least 5),
    /// chunks of 100 on a CUDA device (default 1000)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: Option<u32>,
    #[command(flatten)]
    record: RecordArgs,
}

/// Times of training steps, sampling included.
pub struct Timing {
    /// Milliseconds of a step, shortest first: of each step, or the means of chunks.
    ms: Vec<f64>,
    /// Steps in a chunk.
    chunk: u32,
    parameters: usize,
    /// Bytes in use on the device.
    device_bytes: Option<usize>,
}

impl Timing {
    pub fn best_ms(&self) -> f64 {
        self.ms[0]
    }

    pub fn median_ms(&self) -> f64 {
        median(&self.ms)
    }
}

/// Times steps of an experiment on a device, which makes ready for as many as the experiment has: of the whole task from the
/// first step on, since the end of a curriculum is where the time goes.
pub fn time_steps(
    device: &Device,
    experiment: &Experiment,
    steps: Option<u32>,
    mut heard: impl FnMut(),
) -> Result<Timing> {
    let (chunk, warm, timed) = match device {
        // Steps of a few milliseconds get faster for some time: memory is touched, clocks rise, threads stay awake.
        Device::Cpu => (
            1,
            Rounds { least: 2, time: Duration::from_millis(500) },
            steps.map_or(Rounds { least: 5, time: Duration::from_secs(2) }, Rounds::exactly),
        ),
        // A device is given many steps at once: one alone would be timed with its launch and synchronisation.
        Device::Cuda(..) => {
            let steps = steps.unwrap_or(1000);
            let chunk = steps.min(100);
            (chunk, Rounds::exactly(1), Rounds::exactly(steps / chunk))
        }
    };
    let mut experiment = experiment.clone();
    (experiment.training.dims, experiment.training.points) = (None, None);
    // At least as many as are taken; a device tunes itself to long trainings.
    let least = if matches!(device, Device::Cpu) { 1_000_000 } else { 2 * u64::from(steps.unwrap_or(1000)) };
    experiment.training.steps = experiment.training.steps.max(least);
    let mut trainer = Trainer::on(device, &experiment, None)?;
    let mut steps = || {
        let end = trainer.done() + u64::from(chunk);
        while trainer.done() < end {
            trainer.advance(end - trainer.done())?;
        }
        heard();
        Ok(())
    };
    warm.time(&mut steps)?;
    let ms = timed.time(&mut steps)?.iter().map(|seconds| seconds * 1e3 / f64::from(chunk)).collect();
    Ok(Timing { ms, chunk, parameters: trainer.layout.len(), device_bytes: trainer.device_bytes() })
}

pub fn run(args: &TrainArgs) -> Result<()> {
    let mut experiment = experiment(&args.experiment)?;
    experiment.training.batch = args.batch.map_or(experiment.training.batch, |batch| batch as usize);
    let device = args.device.devices()?.choose(None)?.device;
    let bar = crate::progress::spinner(&format!("{} on {}", experiment.name, device.describe()));
    let timing = time_steps(&device, &experiment, args.steps, || bar.tick())?;
    bar.finish_and_clear();
    let (best, median) = (timing.best_ms(), timing.median_ms());
    let mut record = record(
        "train",
        json!({
            "experiment": experiment.name, "device": device.name(), "parameters": timing.parameters,
            "batch": experiment.training.batch, "points": experiment.task.points,
            "steps": timing.ms.len() * timing.chunk as usize, "best_ms": best, "median_ms": median,
            "peak_mib": peak_mib(),
        }),
    );
    if let Device::Cuda(cuda, precision) = &device {
        record["device"] = json!("cuda");
        record["precision"] = json!(precision.name());
        record["device_name"] = json!(cuda.info.name);
        record["device_mib"] = json!(timing.device_bytes.map(|bytes| bytes as f64 / (1 << 20) as f64));
        record["chunk"] = json!(timing.chunk);
        record["prompts_per_second"] = json!(experiment.training.batch as f64 * 1e3 / median);
    }
    args.record.keep(&record, || {
        let digits = if median < 10.0 { 3 } else { 1 };
        format!(
            "{} on {}: {median:.digits$} ms a step of {} (best {best:.digits$}), {} parameters",
            experiment.name,
            device.describe(),
            counted(experiment.training.batch, "prompt", "prompts"),
            timing.parameters
        )
    })
}
