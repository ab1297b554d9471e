//! `iclab train`: networks from experiments.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use lab::experiment::Experiment;
use lab::runs::{self, Run, RunResult, Stopped};

use crate::error::{Error, Result};

/// Where to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// The best there is
    Auto,
    /// This machine's cores
    Cpu,
    /// A CUDA device
    Cuda,
}

/// Train the network of an experiment
///
/// A run is a directory, named by the experiment and the hash of its plan; started again, an interrupted run goes on from
/// its last checkpoint and ends with the same bits.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab train experiments/miniature.toml\n  \
                        iclab train experiments/r1-fast.toml --steps 2000 --seed 3\n\n\
                        Ctrl-C stops after saving a checkpoint; the same command goes on.")]
pub struct TrainArgs {
    /// Experiment file
    experiment: PathBuf,
    /// Where to train
    #[arg(long, value_enum, default_value = "auto")]
    device: Device,
    /// Gradient steps, instead of the experiment's
    #[arg(long)]
    steps: Option<u64>,
    /// Seed, instead of the experiment's
    #[arg(long)]
    seed: Option<u64>,
    /// Directory of all runs
    #[arg(long, default_value = "runs")]
    runs: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &TrainArgs) -> Result<()> {
    if args.device == Device::Cuda {
        return Err(Error::Usage(
            "this version trains on the CPU only; accepted: --device auto, --device cpu".into(),
        ));
    }
    let mut experiment = Experiment::read(&args.experiment)?;
    experiment.training.steps = args.steps.unwrap_or(experiment.training.steps);
    experiment.training.seed = args.seed.unwrap_or(experiment.training.seed);
    let dir = runs::directory(&args.runs, &experiment);
    if let Some(result) = runs::finished(&dir) {
        return print(args, &dir, &result);
    }
    let mut run = Run::open(&args.runs, &experiment)?;
    let asked = on_interrupt()?;
    let steps = experiment.training.steps;
    let bar = bar(steps, run.done());
    let stopped = run.train(
        || asked.load(Ordering::Relaxed) > 0,
        |step, _, row| {
            bar.set_position(step);
            if let Some(row) = row {
                let excess = row.excess.map_or(String::new(), |e| format!(", {e:.4} above the floor"));
                bar.set_message(format!("loss {:.4}{excess}", row.loss));
            }
        },
    );
    bar.finish_and_clear();
    match stopped? {
        Stopped::Finished(result) => print(args, &dir, &result),
        Stopped::Interrupted(step) => {
            println!(
                "{}: stopped after step {step} of {steps}, saved; the same command goes on",
                dir.display()
            );
            Ok(())
        }
    }
}

/// Refuses a device that this version does not have.
pub fn check_device(device: Device) -> Result<()> {
    if device == Device::Cuda {
        return Err(Error::Usage(
            "this version trains on the CPU only; accepted: --device auto, --device cpu".into(),
        ));
    }
    Ok(())
}

fn print(args: &TrainArgs, dir: &std::path::Path, result: &RunResult) -> Result<()> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(result).map_err(report::Error::from)?);
        return Ok(());
    }
    let floor = result.bayes_floor.map_or(String::new(), |f| format!(" (smallest possible {f:.4})"));
    println!(
        "{}: {} steps; mean loss {:.4}{floor}, error/d after all pairs {:.3e}, on {} fresh prompts",
        dir.display(),
        result.steps,
        result.mean_loss,
        result.last_error_over_d,
        result.prompts
    );
    Ok(())
}

/// Counts requests to stop: the first lets the current step finish and saves, the second ends at once.
fn on_interrupt() -> Result<Arc<AtomicUsize>> {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    ctrlc::set_handler(move || {
        if counter.fetch_add(1, Ordering::Relaxed) > 0 {
            std::process::exit(130);
        }
    })
    .map_err(|e| Error::Usage(format!("cannot listen for Ctrl-C: {e}")))?;
    Ok(asked)
}

fn bar(steps: u64, done: u64) -> ProgressBar {
    let template = "{bar:24.cyan/dim} {pos}/{len} {msg} {per_sec:.dim} {eta:.dim} left";
    let style = ProgressStyle::with_template(template).expect("a valid template");
    ProgressBar::new(steps).with_style(style).with_position(done)
}
