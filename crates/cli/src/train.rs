//! `iclab train`: networks from experiments.

use std::path::PathBuf;

use clap::Args;
use lab::networks::experiment::Change;
use lab::networks::pool::{self, Job, JobOutcome, LARGEST_SEED, Wanted};
use lab::networks::runs::{self, CheckpointEvery};
use serde_json::{Value, json};

use crate::device::DeviceArgs;
use crate::error::{Error, Result};
use crate::output::print_json;
use crate::pool::Pool;
use crate::{signals, supervisor};

/// Train the networks of experiments
///
/// A run is a directory, named by the experiment and the hash of its plan; started again, an interrupted run goes on from
/// its last checkpoint, on the device that it was begun on, and ends with the same bits.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab train miniature\n  \
                        iclab train experiments/r1-fast.toml --steps 2000 --seed 3\n  \
                        iclab train experiments/miniature.toml --set training.rate=3e-4 --set training.optimiser=muon\n  \
                        iclab train experiments/r1-fast.toml --seeds 4 --device cuda\n  \
                        iclab train experiments/r?-fast.toml --device cuda --jobs 3\n  \
                        iclab train experiments/r1.toml --device cuda --restarts 3\n\n\
                        Several runs are trained at once on a CUDA device and one after the other on the CPU.\n\
                        Ctrl-C stops after saving checkpoints; the same command goes on.\n\
                        Exit code: 0 trained, 2 an error, 130 interrupted and saved.")]
pub struct TrainArgs {
    /// Experiment files, or names of experiments inside iclab (see `iclab list experiments`)
    #[arg(required = true, value_name = "EXPERIMENT")]
    experiments: Vec<PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Another value for a field of the experiments, by its path; may be given several times
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<Change>,
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
    /// Save a checkpoint after so much time or so many steps: 30s, 5min, 1000
    ///
    /// Left out, the experiment's checkpoint_every counts, or else half a minute.
    #[arg(long, value_name = "TIME|STEPS")]
    checkpoint_every: Option<CheckpointEvery>,
    /// Train in a process of its own, and start that again so often when a GPU, its driver or the system ends it
    ///
    /// Each time training goes on from the last checkpoints.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1000))]
    restarts: u32,
    /// Directory of all runs
    #[arg(long, default_value = "runs")]
    runs: PathBuf,
    /// Print the result as JSON; of several runs, an array
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &TrainArgs) -> Result<()> {
    if args.restarts > 0 && !supervisor::is_watched() {
        return match supervisor::run(args.restarts)? {
            0 => Ok(()),
            code => Err(Error::Ended(code)),
        };
    }
    let devices = args.device.devices()?;
    let wanted = Wanted { set: args.set.clone(), steps: args.steps, seed: args.seed, seeds: args.seeds };
    let jobs = pool::jobs(&args.experiments, &wanted, &args.runs)?;
    let mut outcomes: Vec<Option<JobOutcome>> =
        jobs.iter().map(|job| runs::finished(&job.dir).map(JobOutcome::Finished)).collect();
    if jobs.len() > 1 && !args.json {
        let known = jobs.iter().zip(&outcomes).filter_map(|(job, o)| Some((job, o.as_ref()?)));
        known.for_each(|(job, outcome)| println!("{}", outcome.sentence(job)));
    }
    for job in &jobs {
        let begin = job.experiment.training.init.as_deref().and_then(runs::unfinished);
        begin.iter().for_each(|run| eprintln!("note: {run}, and {} begins with its weights", job.label));
    }
    let left: Vec<usize> = (0..jobs.len()).filter(|&i| outcomes[i].is_none()).collect();
    if !left.is_empty() {
        let pool = Pool {
            runs: &args.runs,
            devices: &devices,
            on_cuda: args.jobs.map(|jobs| jobs as usize),
            on_cpu: 1,
            several: jobs.len() > 1,
            checkpoint_every: args.checkpoint_every,
            printing: jobs.len() > 1 && !args.json,
        };
        let trained = pool.train(&left.iter().map(|&i| &jobs[i]).collect::<Vec<_>>())?;
        trained.into_iter().zip(&left).for_each(|(outcome, &i)| outcomes[i] = Some(outcome));
    }
    let outcomes: Vec<JobOutcome> = outcomes.into_iter().map(|o| o.unwrap_or(JobOutcome::NotBegun)).collect();
    report(args, &jobs, outcomes)
}

/// Prints what is not printed yet; failed runs make an error that names them.
fn report(args: &TrainArgs, jobs: &[Job], mut outcomes: Vec<JobOutcome>) -> Result<()> {
    if let [job] = jobs {
        match outcomes.remove(0) {
            JobOutcome::Failed(error) => return Err(error.into()),
            JobOutcome::Finished(result) if args.json => print_json(&json!(result))?,
            JobOutcome::Finished(result) => println!("{}", JobOutcome::Finished(result).sentence(job)),
            unfinished => {
                if args.json {
                    print_json(&record(job, &unfinished))?;
                } else {
                    println!("{}", unfinished.sentence(job));
                }
                return signals::refuse_unfinished([&unfinished].into_iter());
            }
        }
        return Ok(());
    }
    if args.json {
        let records = jobs.iter().zip(&outcomes).map(|(job, outcome)| record(job, outcome));
        print_json(&records.collect::<Vec<_>>())?;
    }
    let failed: Vec<String> = jobs
        .iter()
        .zip(&outcomes)
        .filter_map(|(job, outcome)| match outcome {
            JobOutcome::Failed(error) => Some(format!("{}: {error}", job.dir.display())),
            _ => None,
        })
        .collect();
    if failed.is_empty() {
        return signals::refuse_unfinished(outcomes.iter());
    }
    let others = if failed.len() < jobs.len() { "; the others are saved" } else { "" };
    let list = failed.join("\n  ");
    let what = format!("{} of {} runs failed{others}:\n  {list}", failed.len(), jobs.len());
    let of_device =
        |outcome: &JobOutcome| matches!(outcome, JobOutcome::Failed(error) if error.is_of_device());
    Err(if outcomes.iter().any(of_device) { Error::DeviceFailed(what) } else { Error::Usage(what) })
}

/// An outcome among several, as JSON.
fn record(job: &Job, outcome: &JobOutcome) -> Value {
    let steps = job.experiment.training.steps;
    let unfinished = |step: u64| json!({"stopped_after": step, "steps": steps, "unfinished": true});
    let mut value = match outcome {
        JobOutcome::Finished(result) => json!(result),
        JobOutcome::Interrupted(step) => unfinished(*step),
        JobOutcome::NotBegun => unfinished(0),
        JobOutcome::Failed(error) => json!({"error": error.to_string()}),
    };
    value["run"] = json!(job.dir);
    value["seed"] = json!(job.experiment.training.seed);
    value
}
