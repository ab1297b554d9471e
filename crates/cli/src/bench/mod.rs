//! `iclab bench`: how fast, as numbers one can keep.

mod forward;
mod scaling;
mod solvers;
mod train;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use lab::networks::experiment::Experiment;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::output;

pub use train::time_steps;

/// Measure speed on this machine
#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Newton, GD, CG and BFGS at several dimensions, whole trajectories in one pass; the paper's tables among them
    Solvers(solvers::SolversArgs),
    /// A whole training step: sampling, forward, backward, clipping and Adam, at the end of the curriculum
    Train(train::TrainArgs),
    /// Evaluation on the CPU: prompts through a network, every layer read at every position
    Forward(forward::ForwardArgs),
    /// How the cost grows with layers, width, points, batch, prompts and dimension, beside what theory says
    Scaling(scaling::ScalingArgs),
}

/// Where a record goes.
#[derive(Args)]
struct RecordArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write the JSON to a file
    #[arg(long)]
    out: Option<PathBuf>,
}

impl RecordArgs {
    /// Writes and prints a record, or prints what `text` says of it.
    fn keep(&self, record: &Value, text: impl FnOnce() -> String) -> Result<()> {
        if let Some(path) = &self.out {
            output::write_file(path, format!("{record:#}\n").as_bytes())?;
        }
        println!("{}", if self.json { format!("{record:#}") } else { text() });
        Ok(())
    }
}

/// What every record begins with, and `more`.
fn record(benchmark: &str, more: Value) -> Value {
    let mut record = json!({
        "benchmark": benchmark, "version": env!("CARGO_PKG_VERSION"), "machine": output::machine(),
        "threads": rayon::current_num_threads(),
    });
    if let (Value::Object(record), Value::Object(more)) = (&mut record, more) {
        record.extend(more);
    }
    record
}

/// Work is done at least so often, for at least so long.
struct Rounds {
    least: u32,
    time: Duration,
}

impl Rounds {
    fn exactly(least: u32) -> Rounds {
        Rounds { least, time: Duration::ZERO }
    }

    /// Does rounds of work; returns the seconds of each, shortest first.
    fn time(&self, mut work: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
        let (begun, mut seconds) = (Instant::now(), Vec::new());
        while seconds.len() < self.least as usize || begun.elapsed() < self.time {
            let start = Instant::now();
            work()?;
            seconds.push(start.elapsed().as_secs_f64());
        }
        seconds.sort_by(f64::total_cmp);
        Ok(seconds)
    }
}

/// The middle one of numbers in order.
fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

/// Runs the command.
pub fn run(args: &BenchArgs) -> Result<()> {
    match &args.what {
        What::Solvers(args) => solvers::run(args),
        What::Train(args) => train::run(args),
        What::Forward(args) => forward::run(args),
        What::Scaling(args) => scaling::run(args),
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
        "r1" => Experiment::parse(include_str!("../../../../experiments/r1.toml"), Path::new("r1.toml"))?,
        "r5" => Experiment::parse(include_str!("../../../../experiments/r5.toml"), Path::new("r5.toml"))?,
        "r7" | "lstm" => {
            Experiment::parse(include_str!("../../../../experiments/r7.toml"), Path::new("r7.toml"))?
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

/// The most memory this process has used, in MiB, where the system tells.
fn peak_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib / 1024.0)
}
