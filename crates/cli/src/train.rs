//! `iclab train`: networks from experiments.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use lab::networks::experiment::Experiment;
use lab::networks::runs;
use serde_json::{Value, json};

use crate::device::DeviceArgs;
use crate::error::{Error, Result};
use crate::pool::{Job, Outcome, Pool, sentence};

/// Seeds that an experiment file can hold.
const LARGEST_SEED: u64 = i64::MAX as u64;

/// Train the networks of experiments
///
/// A run is a directory, named by the experiment and the hash of its plan; started again, an interrupted run goes on from
/// its last checkpoint, on the device that it was begun on, and ends with the same bits.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab train experiments/miniature.toml\n  \
                        iclab train experiments/r1-fast.toml --steps 2000 --seed 3\n  \
                        iclab train experiments/r1-fast.toml --seeds 4 --device cuda\n  \
                        iclab train experiments/r?-fast.toml --device cuda --jobs 3\n\n\
                        Several runs are trained at once on a CUDA device and one after the other on the CPU.\n\
                        Ctrl-C stops after saving checkpoints; the same command goes on.")]
pub struct TrainArgs {
    /// Experiment files
    #[arg(required = true, value_name = "EXPERIMENT")]
    experiments: Vec<PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Gradient steps, instead of the experiment's
    #[arg(long)]
    steps: Option<u64>,
    /// Seed, instead of the experiment's
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=LARGEST_SEED))]
    seed: Option<u64>,
    /// Runs of each experiment, with seeds from its own (or --seed) upwards
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Runs at once on a CUDA device; all of them when left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    jobs: Option<u32>,
    /// Directory of all runs
    #[arg(long, default_value = "runs")]
    runs: PathBuf,
    /// Print the result as JSON; of several runs, an array
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &TrainArgs) -> Result<()> {
    let devices = args.device.devices()?;
    let jobs = jobs(args)?;
    let mut outcomes: Vec<Option<Outcome>> =
        jobs.iter().map(|job| runs::finished(&job.dir).map(Outcome::Finished)).collect();
    if jobs.len() > 1 && !args.json {
        let known = jobs.iter().zip(&outcomes).filter_map(|(job, o)| Some((job, o.as_ref()?)));
        known.for_each(|(job, outcome)| println!("{}", sentence(job, outcome)));
    }
    let left: Vec<usize> = (0..jobs.len()).filter(|&i| outcomes[i].is_none()).collect();
    if !left.is_empty() {
        let pool = Pool {
            runs: &args.runs,
            devices: &devices,
            on_cuda: args.jobs.map(|jobs| jobs as usize),
            on_cpu: 1,
            several: jobs.len() > 1,
            printing: jobs.len() > 1 && !args.json,
        };
        let trained = pool.train(&left.iter().map(|&i| &jobs[i]).collect::<Vec<_>>())?;
        trained.into_iter().zip(&left).for_each(|(outcome, &i)| outcomes[i] = Some(outcome));
    }
    let outcomes: Vec<Outcome> = outcomes.into_iter().map(|o| o.unwrap_or(Outcome::NotBegun)).collect();
    report(args, &jobs, outcomes)
}

/// Every run that was asked for, none of them twice.
fn jobs(args: &TrainArgs) -> Result<Vec<Job>> {
    let mut jobs: Vec<Job> = Vec::new();
    let mut asked_by: BTreeMap<PathBuf, &Path> = BTreeMap::new();
    for path in &args.experiments {
        let mut experiment = Experiment::read(path)?;
        experiment.training.steps = args.steps.unwrap_or(experiment.training.steps);
        let first = args.seed.unwrap_or(experiment.training.seed);
        if first > LARGEST_SEED - (args.seeds - 1) {
            return Err(Error::Usage(format!("seeds {first} and on; accepted: up to {LARGEST_SEED}")));
        }
        for seed in first..first + args.seeds {
            experiment.training.seed = seed;
            let dir = runs::directory(&args.runs, &experiment);
            if let Some(other) = asked_by.insert(dir.clone(), path) {
                return Err(Error::Usage(format!(
                    "{} and {} ask for the same run {}; accepted: each run once",
                    other.display(),
                    path.display(),
                    dir.display()
                )));
            }
            let label = format!("{} seed {seed}", experiment.name);
            jobs.push(Job { experiment: experiment.clone(), dir, label });
        }
    }
    Ok(jobs)
}

/// Prints what is not printed yet; failed runs make an error that names them.
fn report(args: &TrainArgs, jobs: &[Job], mut outcomes: Vec<Outcome>) -> Result<()> {
    if let ([job], [_]) = (jobs, &outcomes[..]) {
        match outcomes.remove(0) {
            Outcome::Failed(error) => return Err(error),
            Outcome::Finished(result) if args.json => print_json(&json!(result))?,
            outcome => println!("{}", sentence(job, &outcome)),
        }
        return Ok(());
    }
    if args.json {
        print_json(&jobs.iter().zip(&outcomes).map(|(job, outcome)| record(job, outcome)).collect())?;
    }
    let failed: Vec<String> = jobs
        .iter()
        .zip(&outcomes)
        .filter_map(|(job, outcome)| match outcome {
            Outcome::Failed(error) => Some(format!("{}: {error}", job.dir.display())),
            _ => None,
        })
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    let others = if failed.len() < jobs.len() { "; the others are saved" } else { "" };
    let list = failed.join("\n  ");
    Err(Error::Usage(format!("{} of {} runs failed{others}:\n  {list}", failed.len(), jobs.len())))
}

fn print_json(value: &Value) -> Result<()> {
    println!("{}", serde_json::to_string_pretty(value).map_err(report::Error::from)?);
    Ok(())
}

/// An outcome among several, as JSON.
fn record(job: &Job, outcome: &Outcome) -> Value {
    let mut value = match outcome {
        Outcome::Finished(result) => json!(result),
        Outcome::Interrupted(step) => json!({"stopped_after": step}),
        Outcome::NotBegun => json!({"stopped_after": 0}),
        Outcome::Failed(error) => json!({"error": error.to_string()}),
    };
    value["run"] = json!(job.dir);
    value["seed"] = json!(job.experiment.training.seed);
    value
}
