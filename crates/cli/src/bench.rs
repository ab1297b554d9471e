//! `iclab bench`: how fast, as numbers one can keep.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use lab::experiment::Experiment;
use lab::train::Trainer;
use lab::{Learner, Prompts, Seed, Steps, Task};
use serde_json::json;

use crate::error::{Error, Result};
use crate::train::{self, Device};
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
#[command(
    after_help = "Examples:\n  iclab bench train --experiment r1 --device cpu --json\n  iclab bench train --experiment experiments/miniature.toml"
)]
struct TrainArgs {
    /// r1, r7 (the LSTM), small (3 layers × 64, d=5, 11 points, batch 64), or an experiment file
    #[arg(long, default_value = "r1")]
    experiment: String,
    /// Where to train
    #[arg(long, value_enum, default_value = "auto")]
    device: Device,
    /// Steps that are timed, after two that are not
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: u32,
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

fn experiment(name: &str) -> Result<Experiment> {
    Ok(match name {
        "r1" => Experiment::parse(include_str!("../../../experiments/r1.toml"), Path::new("r1.toml"))?,
        "r7" => Experiment::parse(include_str!("../../../experiments/r7.toml"), Path::new("r7.toml"))?,
        "small" => Experiment::parse(SMALL, Path::new("small.toml"))?,
        path if path.ends_with(".toml") => Experiment::read(Path::new(path))?,
        other => {
            return Err(Error::Usage(format!(
                "experiment '{other}'; accepted: r1, r7, small, or the name of a .toml file"
            )));
        }
    })
}

fn steps_of_training(args: &TrainArgs) -> Result<()> {
    train::check_device(args.device)?;
    let mut experiment = experiment(&args.experiment)?;
    // The whole task from the first step on: the end of a curriculum is where the time goes.
    (experiment.training.dims, experiment.training.points) = (None, None);
    let mut trainer = Trainer::new(&experiment)?;
    let bar = crate::progress::bar(args.steps as usize + 2);
    let mut times = Vec::new();
    for step in 0..args.steps + 2 {
        let start = Instant::now();
        trainer.step()?;
        if step >= 2 {
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    times.sort_by(f64::total_cmp);
    let record = json!({
        "benchmark": "train", "version": env!("CARGO_PKG_VERSION"), "machine": reproduce::machine(),
        "threads": rayon::current_num_threads(), "experiment": experiment.name, "device": "cpu",
        "parameters": trainer.layout.len(), "batch": experiment.training.batch, "points": experiment.task.points,
        "steps": times.len(), "best_ms": times[0], "median_ms": times[times.len() / 2], "peak_mib": peak_mib(),
    });
    if let Some(path) = &args.out {
        output::write_file(path, format!("{record:#}\n").as_bytes())?;
    }
    if args.json {
        println!("{record:#}");
    } else {
        let (best, median) = (times[0], times[times.len() / 2]);
        println!(
            "{}: {median:.1} ms a step (best {best:.1}), {} parameters",
            experiment.name,
            trainer.layout.len()
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
