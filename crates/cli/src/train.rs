//! `iclab train`: networks from experiments.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use clap::Args;
use engine::cuda::CudaError;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use lab::devices::Device;
use lab::experiment::Experiment;
use lab::runs::{self, Run, RunResult, Stopped};
use serde_json::{Value, json};

use crate::device::{Chosen, DeviceArgs, Devices};
use crate::error::{Error, Result};

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

/// One run that was asked for.
struct Job {
    experiment: Experiment,
    dir: PathBuf,
}

impl Job {
    fn label(&self) -> String {
        format!("{} seed {}", self.experiment.name, self.experiment.training.seed)
    }
}

/// What became of it.
enum Outcome {
    Finished(RunResult),
    Interrupted(u64),
    /// The request to stop came first.
    NotBegun,
    Failed(Error),
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
        let trained = train_all(args, &devices, &jobs, &left)?;
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
            jobs.push(Job { experiment: experiment.clone(), dir });
        }
    }
    Ok(jobs)
}

/// Trains the jobs with these numbers: on a CUDA device many at once, on the CPU one after the other.
fn train_all(args: &TrainArgs, devices: &Devices, jobs: &[Job], left: &[usize]) -> Result<Vec<Outcome>> {
    let mut chosen = Vec::new();
    for &i in left {
        chosen.push(devices.choose(runs::recorded_device(&jobs[i].dir).as_deref())?);
    }
    let (cuda, cpu): (Vec<usize>, Vec<usize>) =
        (0..left.len()).partition(|&k| matches!(chosen[k].device, Device::Cuda(..)));
    let at_once = args.jobs.map_or(cuda.len(), |jobs| (jobs as usize).min(cuda.len()));
    announce(&chosen, at_once);
    let stage = Stage {
        runs: &args.runs,
        may_fall_back: devices.may_fall_back(),
        asked: on_interrupt()?,
        bars: MultiProgress::new(),
        prefix: if jobs.len() > 1 { jobs.iter().map(|job| job.label().len()).max() } else { None },
        printing: jobs.len() > 1 && !args.json,
    };
    let outcomes: Vec<Mutex<Option<Outcome>>> = left.iter().map(|_| Mutex::new(None)).collect();
    let work = |k: usize| {
        let outcome = stage.train(&jobs[left[k]], &chosen[k].device);
        *outcomes[k].lock().unwrap_or_else(|e| e.into_inner()) = Some(outcome);
    };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(&k) = cuda.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(k);
                }
            });
        }
        cpu.iter().for_each(|&k| work(k));
    });
    let outcome = |slot: Mutex<Option<Outcome>>| slot.into_inner().unwrap_or_else(|e| e.into_inner());
    Ok(outcomes.into_iter().map(|slot| outcome(slot).unwrap_or(Outcome::NotBegun)).collect())
}

/// One line for each device in use.
fn announce(chosen: &[Chosen], at_once: usize) {
    let mut lines: Vec<(String, bool, usize)> = Vec::new();
    for chosen in chosen {
        let line = chosen.line();
        match lines.iter_mut().find(|(other, ..)| *other == line) {
            Some((.., count)) => *count += 1,
            None => lines.push((line, matches!(chosen.device, Device::Cuda(..)), 1)),
        }
    }
    for (line, cuda, count) in lines {
        match count {
            1 => eprintln!("{line}"),
            _ if cuda => eprintln!("{line}: {count} runs, {} at once", at_once.min(count)),
            _ => eprintln!("{line}: {count} runs, one after the other"),
        }
    }
}

/// What all runs of a command share.
struct Stage<'a> {
    runs: &'a Path,
    may_fall_back: bool,
    asked: Arc<AtomicUsize>,
    bars: MultiProgress,
    /// Width of the bars' prefixes, which say the run where there are several.
    prefix: Option<usize>,
    /// Whether each run's result is printed when it is known.
    printing: bool,
}

impl Stage<'_> {
    fn train(&self, job: &Job, device: &Device) -> Outcome {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.try_train(job, device)))
            .unwrap_or_else(|_| Err(Error::Usage("the program failed; that is a mistake in iclab".into())))
            .unwrap_or_else(Outcome::Failed);
        if self.printing && !matches!(outcome, Outcome::Failed(_)) {
            self.bars.suspend(|| println!("{}", sentence(job, &outcome)));
        }
        outcome
    }

    fn try_train(&self, job: &Job, device: &Device) -> Result<Outcome> {
        let stop = || self.asked.load(Ordering::Relaxed) > 0;
        if self.prefix.is_some() && stop() {
            return Ok(Outcome::NotBegun);
        }
        let mut run = match Run::open(self.runs, &job.experiment, device) {
            Err(lab::Error::Cuda(CudaError::Unsupported(why))) if self.may_fall_back => {
                let chosen =
                    Chosen { device: Device::Cpu, note: Some(format!("no CUDA for this network: {why}")) };
                self.bars.suspend(|| eprintln!("{}", chosen.line()));
                Run::open(self.runs, &job.experiment, &chosen.device)?
            }
            opened => opened?,
        };
        let bar = self.bars.add(bar(job.experiment.training.steps, run.done()));
        if let Some(width) = self.prefix {
            bar.set_prefix(format!("{:<width$} ", job.label()));
        }
        let stopped = run.train(stop, |step, _, row| {
            bar.set_position(step);
            if let Some(row) = row {
                let excess = row.excess.map_or(String::new(), |e| format!(", {e:.4} above the floor"));
                bar.set_message(format!("loss {:.4}{excess}", row.loss));
            }
        });
        bar.finish_and_clear();
        Ok(match stopped? {
            Stopped::Finished(result) => Outcome::Finished(result),
            Stopped::Interrupted(step) => Outcome::Interrupted(step),
        })
    }
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

/// An outcome in words.
fn sentence(job: &Job, outcome: &Outcome) -> String {
    let (dir, steps) = (job.dir.display(), job.experiment.training.steps);
    match outcome {
        Outcome::Finished(result) => {
            let floor = result.bayes_floor.map_or(String::new(), |f| format!(" (smallest possible {f:.4})"));
            format!(
                "{dir}: {} steps; mean loss {:.4}{floor}, error/d after all pairs {:.3e}, on {} fresh prompts",
                result.steps, result.mean_loss, result.last_error_over_d, result.prompts
            )
        }
        Outcome::Interrupted(step) => {
            format!("{dir}: stopped after step {step} of {steps}, saved; the same command goes on")
        }
        Outcome::NotBegun => format!("{dir}: not begun; the same command goes on"),
        Outcome::Failed(error) => format!("{dir}: {error}"),
    }
}

/// Counts requests to stop: the first lets the current steps finish and saves, the second ends at once.
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
    let template = "{prefix}{bar:24.cyan/dim} {pos}/{len} {msg} {per_sec:.dim} {eta:.dim} left";
    let style = ProgressStyle::with_template(template).expect("a valid template");
    ProgressBar::new(steps).with_style(style).with_position(done)
}
