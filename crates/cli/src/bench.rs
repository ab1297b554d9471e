//! `iclab bench`: how fast, as numbers one can keep.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use lab::devices::Device;
use lab::experiment::Experiment;
use lab::train::Trainer;
use lab::{Learner, Prompts, Seed, Steps, Task};
use serde_json::json;

use crate::device::DeviceArgs;
use crate::error::{Error, Result};
use crate::{output, reproduce};

/// Measure speed on this machine
#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The paper's tables of Newton and GD (320 prompts × 41 positions), whole trajectories in one pass
    Solvers(SolversArgs),
    /// A whole training step: sampling, forward, backward, clipping and Adam, at the end of the curriculum
    Train(TrainArgs),
}

#[derive(Args)]
#[command(after_help = "Examples:\n  iclab bench train --experiment r1 --device cpu --json\n  \
                        iclab bench train --experiment r5 --device cuda --precision tf32 --batch 256\n  \
                        iclab bench train --experiment experiments/miniature.toml")]
struct TrainArgs {
    /// r1, r5 (24 layers), r7 or lstm, small (3 layers × 64, d=5, 11 points, batch 64), or an experiment file
    #[arg(long, default_value = "r1")]
    experiment: String,
    #[command(flatten)]
    device: DeviceArgs,
    /// Prompts per step, instead of the experiment's
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    batch: Option<u32>,
    /// Steps that are timed after some that are not: each alone on the CPU (default 5), chunks of 100 on a CUDA device
    /// (default 1000)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write the JSON to a file
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  iclab bench solvers --json --out benches/runs/2026-01-31-laptop/solvers.json"
)]
struct SolversArgs {
    /// Times each part is run; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write the JSON to a file
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &BenchArgs) -> Result<()> {
    match &args.what {
        What::Solvers(args) => solvers(args),
        What::Train(args) => steps_of_training(args),
    }
}

const SMALL: &str = r#"
name = "small"
[task]
function = "linear"
inputs = "gaussian"
dim = 5
points = 11
[network]
kind = "gpt2"
layers = 3
heads = 2
width = 64
positions = 22
[training]
steps = 1000000
batch = 64
rate = 1e-4
clip = 1.0
"#;

/// An experiment by its name here, or from a file.
pub fn experiment(name: &str) -> Result<Experiment> {
    Ok(match name {
        "r1" => Experiment::parse(include_str!("../../../experiments/r1.toml"), Path::new("r1.toml"))?,
        "r5" => Experiment::parse(include_str!("../../../experiments/r5.toml"), Path::new("r5.toml"))?,
        "r7" | "lstm" => {
            Experiment::parse(include_str!("../../../experiments/r7.toml"), Path::new("r7.toml"))?
        }
        "small" => Experiment::parse(SMALL, Path::new("small.toml"))?,
        path if path.ends_with(".toml") => Experiment::read(Path::new(path))?,
        other => {
            return Err(Error::Usage(format!(
                "experiment '{other}'; accepted: r1, r5, r7, lstm, small, or the name of a .toml file"
            )));
        }
    })
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
        self.ms[self.ms.len() / 2]
    }
}

/// Times steps of an experiment on a device: of the whole task from the first step on, since the end of a curriculum is
/// where the time goes.
pub fn time_steps(
    device: &Device,
    experiment: &Experiment,
    steps: u32,
    mut heard: impl FnMut(),
) -> Result<Timing> {
    // A device is given many steps at once: one alone would be timed with its way there and back.
    let (chunk, warm) = match device {
        Device::Cpu => (1, 2),
        Device::Cuda(..) => (steps.min(100), 1),
    };
    let mut experiment = experiment.clone();
    (experiment.training.dims, experiment.training.points) = (None, None);
    experiment.training.steps = experiment.training.steps.max(1_000_000);
    let mut trainer = Trainer::on(device, &experiment, None)?;
    let mut ms = Vec::new();
    for round in 0..warm + steps / chunk {
        let (start, end) = (Instant::now(), trainer.done() + u64::from(chunk));
        while trainer.done() < end {
            trainer.advance(end - trainer.done())?;
        }
        if round >= warm {
            ms.push(start.elapsed().as_secs_f64() * 1e3 / f64::from(chunk));
        }
        heard();
    }
    ms.sort_by(f64::total_cmp);
    Ok(Timing { ms, chunk, parameters: trainer.layout.len(), device_bytes: trainer.device_bytes() })
}

fn steps_of_training(args: &TrainArgs) -> Result<()> {
    let mut experiment = experiment(&args.experiment)?;
    experiment.training.batch = args.batch.map_or(experiment.training.batch, |batch| batch as usize);
    let device = args.device.devices()?.choose(None)?.device;
    let steps = args.steps.unwrap_or(match device {
        Device::Cpu => 5,
        Device::Cuda(..) => 1000,
    });
    let bar = crate::progress::spinner(&format!("{} on {}", experiment.name, device.describe()));
    let timing = time_steps(&device, &experiment, steps, || bar.tick())?;
    bar.finish_and_clear();
    let (best, median) = (timing.best_ms(), timing.median_ms());
    let mut record = json!({
        "benchmark": "train", "version": env!("CARGO_PKG_VERSION"), "machine": reproduce::machine(),
        "threads": rayon::current_num_threads(), "experiment": experiment.name, "device": device.name(),
        "parameters": timing.parameters, "batch": experiment.training.batch, "points": experiment.task.points,
        "steps": timing.ms.len() * timing.chunk as usize, "best_ms": best, "median_ms": median,
        "peak_mib": peak_mib(),
    });
    if let Device::Cuda(cuda, precision) = &device {
        record["device"] = json!("cuda");
        record["precision"] = json!(precision.name());
        record["device_name"] = json!(cuda.info.name);
        record["device_mib"] = json!(timing.device_bytes.map(|bytes| bytes as f64 / (1 << 20) as f64));
        record["chunk"] = json!(timing.chunk);
        record["prompts_per_second"] = json!(experiment.training.batch as f64 * 1e3 / median);
    }
    if let Some(path) = &args.out {
        output::write_file(path, format!("{record:#}\n").as_bytes())?;
    }
    if args.json {
        println!("{record:#}");
    } else {
        let digits = if median < 10.0 { 3 } else { 1 };
        println!(
            "{} on {}: {median:.digits$} ms a step of {} prompts (best {best:.digits$}), {} parameters",
            experiment.name,
            device.describe(),
            experiment.training.batch,
            timing.parameters
        );
    }
    Ok(())
}

/// The most memory this process has used, in MiB, where the system tells.
fn peak_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib / 1024.0)
}

fn median_seconds(repeat: u32, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..repeat)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn solvers(args: &SolversArgs) -> Result<()> {
    let prompts = Task::new("linear", "gaussian", 20, 41)?.sample(Seed(0), "eval", 0, 320);
    let parts = [
        ("Newton, steps 1…23", "newton", "1..=23"),
        ("GD, steps 1, 50, …, 1300", "gd", "1,50..=1300/50"),
        ("GD, steps 2⁰…2¹²", "gd", "pow2:0..=12"),
    ];
    let bar = crate::progress::bar(parts.len() + 1);
    let mut rows = Vec::new();
    let mut total = 0.0;
    for (label, name, steps) in parts {
        bar.set_message(label);
        let (learner, steps) = (lab::solvers::build(name)?, Steps::parse(steps)?);
        let seconds = median_seconds(args.repeat, || {
            learner.trajectory(&prompts, &steps).expect("these steps exist");
        });
        total += seconds;
        rows.push(json!({"part": label, "learner": name, "steps": steps.to_string(), "seconds": seconds}));
        bar.inc(1);
    }
    bar.set_message("the same, each step count from zero");
    let from_zero = recomputed(&prompts)?;
    bar.finish_and_clear();
    // In Python, each step count recomputed from zero, on two cores: 0.36 s per Newton iteration and 0.5 s per GD step.
    let units = |text: &str| Steps::parse(text).map(|s| s.as_slice().iter().sum::<u64>() as f64);
    let python = 0.36 * units("1..=23")? + 0.5 * (units("1,50..=1300/50")? + units("pow2:0..=12")?);
    let record = json!({
        "benchmark": "solvers", "version": env!("CARGO_PKG_VERSION"), "machine": reproduce::machine(),
        "threads": rayon::current_num_threads(), "prompts": 320, "positions": 41, "repeat": args.repeat,
        "parts": rows, "total_seconds": total,
        "each_step_count_from_zero_seconds": from_zero, "ratio_to_from_zero": from_zero / total,
        "python_seconds_quoted": python, "ratio_to_python_quoted": python / total,
    });
    if let Some(path) = &args.out {
        output::write_file(path, format!("{record:#}\n").as_bytes())?;
    }
    if args.json {
        println!("{record:#}");
        return Ok(());
    }
    for row in &rows {
        println!(
            "{:<40} {:>9.3} s",
            row["part"].as_str().unwrap_or_default(),
            row["seconds"].as_f64().unwrap_or(f64::NAN)
        );
    }
    println!("{:<40} {total:>9.3} s", "all three tables");
    println!(
        "{:<40} {from_zero:>9.0} s  ({:.0} times as long)",
        "each step count from zero, same code",
        from_zero / total
    );
    println!(
        "{:<40} {python:>9.0} s  ({:.0} times as long)",
        "authors' way in Python, as quoted",
        python / total
    );
    Ok(())
}

/// Seconds that the same tables take when every step count starts again from zero and GD is iterated; measured on a
/// few prompts and scaled up.
fn recomputed(prompts: &Prompts) -> Result<f64> {
    let few = 2;
    let sample = Prompts::new(
        prompts.xs.slice(ndarray::s![..few, .., ..]).to_owned(),
        prompts.ys.slice(ndarray::s![..few, ..]).to_owned(),
    )?;
    let each = |learner: &dyn Learner, steps: Steps| -> Result<()> {
        for &step in steps.as_slice() {
            learner.trajectory(&sample, &Steps::single(step))?;
        }
        Ok(())
    };
    let start = Instant::now();
    each(&*lab::solvers::build("newton")?, Steps::parse("1..=23")?)?;
    let gd = lab::solvers::build("gd:form=iterated")?;
    each(&*gd, Steps::parse("1,50..=1300/50")?)?;
    each(&*gd, Steps::parse("pow2:0..=12")?)?;
    Ok(start.elapsed().as_secs_f64() * prompts.count() as f64 / few as f64)
}
