//! Many runs by one process: on a CUDA device or on the cores, several at once, each with its bar and its outcome.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::cuda::CudaError;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use lab::networks::devices::Device;
use lab::networks::experiment::Experiment;
use lab::networks::runs::{self, Run, RunResult, Stopped};

use crate::device::{Chosen, Devices};
use crate::error::{Error, Result};
use crate::signals;

/// One run that was asked for.
pub struct Job {
    /// What to train.
    pub experiment: Experiment,
    /// Where.
    pub dir: PathBuf,
    /// What its bar is called.
    pub label: String,
}

/// What became of it.
pub enum Outcome {
    /// It is done.
    Finished(RunResult),
    /// It was asked to stop after this step, and saved.
    Interrupted(u64),
    /// The request to stop came first.
    NotBegun,
    /// It could not be trained, or not to its end.
    Failed(Error),
}

/// How runs share this machine.
pub struct Pool<'a> {
    /// Directory of all runs.
    pub runs: &'a Path,
    /// Where runs may be trained.
    pub devices: &'a Devices<'a>,
    /// Runs at once on a CUDA device; all of them when absent.
    pub on_cuda: Option<usize>,
    /// Runs at once on the cores, which they share evenly.
    pub on_cpu: usize,
    /// Whether bars say the run, because there are several.
    pub several: bool,
    /// Whether each run's result is printed when it is known.
    pub printing: bool,
}

impl Pool<'_> {
    /// Trains the jobs until they are done or the process is asked to stop; what became of each.
    pub fn train(&self, jobs: &[&Job]) -> Result<Vec<Outcome>> {
        let mut chosen = Vec::new();
        for job in jobs {
            chosen.push(self.devices.choose(runs::recorded_device(&job.dir).as_deref())?);
        }
        let (cuda, cpu): (Vec<usize>, Vec<usize>) =
            (0..jobs.len()).partition(|&k| matches!(chosen[k].device, Device::Cuda(..)));
        let on_cuda = self.on_cuda.unwrap_or(cuda.len()).min(cuda.len());
        let on_cpu = self.on_cpu.min(cpu.len());
        announce(&chosen, on_cuda, on_cpu);
        signals::listen()?;
        let stage = Stage {
            runs: self.runs,
            may_fall_back: self.devices.may_fall_back(),
            bars: MultiProgress::new(),
            prefix: if self.several { jobs.iter().map(|job| job.label.chars().count()).max() } else { None },
            printing: self.printing,
        };
        let outcomes: Vec<Mutex<Option<Outcome>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
        let work = |k: usize| {
            let outcome = stage.train(jobs[k], &chosen[k].device);
            *outcomes[k].lock().unwrap_or_else(|e| e.into_inner()) = Some(outcome);
        };
        let (next_cuda, next_cpu) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let take = |queue: &[usize], next: &AtomicUsize| {
            while let Some(&k) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
                work(k);
            }
        };
        let shares = shares(on_cpu)?;
        std::thread::scope(|scope| {
            for _ in 0..on_cuda {
                scope.spawn(|| take(&cuda, &next_cuda));
            }
            for share in &shares {
                scope.spawn(|| share.install(|| take(&cpu, &next_cpu)));
            }
            if shares.is_empty() {
                take(&cpu, &next_cpu);
            }
        });
        let outcome = |slot: Mutex<Option<Outcome>>| slot.into_inner().unwrap_or_else(|e| e.into_inner());
        Ok(outcomes.into_iter().map(|slot| outcome(slot).unwrap_or(Outcome::NotBegun)).collect())
    }
}

/// The cores, dealt out to as many runs: bits do not depend on how many a run gets. None for a single run, which has them all.
fn shares(runs: usize) -> Result<Vec<rayon::ThreadPool>> {
    let cores = rayon::current_num_threads();
    let share = |i: usize| {
        let threads = (cores / runs + usize::from(i < cores % runs)).max(1);
        rayon::ThreadPoolBuilder::new().num_threads(threads).build()
    };
    let built: std::result::Result<Vec<_>, _> = (0..if runs > 1 { runs } else { 0 }).map(share).collect();
    built.map_err(|e| {
        Error::Usage(format!("no threads for {runs} runs at once: {e}; accepted: fewer (--jobs)"))
    })
}

/// One line for each device in use.
fn announce(chosen: &[Chosen], on_cuda: usize, on_cpu: usize) {
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
            _ if cuda => eprintln!("{line}: {count} runs, {} at once", on_cuda.min(count)),
            _ if on_cpu > 1 => eprintln!("{line}: {count} runs, {} at once", on_cpu.min(count)),
            _ => eprintln!("{line}: {count} runs, one after the other"),
        }
    }
}

/// What all runs of a command share.
struct Stage<'a> {
    runs: &'a Path,
    may_fall_back: bool,
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
        if let Outcome::Failed(error) = &outcome
            && !matches!(error, Error::Lab(lab::Error::Busy(_)))
        {
            runs::note_failure(&job.dir, &error.to_string());
        }
        if self.printing && !matches!(outcome, Outcome::Failed(_)) {
            self.bars.suspend(|| println!("{}", sentence(job, &outcome)));
        }
        outcome
    }

    fn try_train(&self, job: &Job, device: &Device) -> Result<Outcome> {
        let stop = signals::asked;
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
            bar.set_prefix(format!("{:<width$} ", job.label));
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

/// An outcome in words.
pub fn sentence(job: &Job, outcome: &Outcome) -> String {
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

fn bar(steps: u64, done: u64) -> ProgressBar {
    let template = "{prefix}{bar:24.cyan/dim} {pos}/{len} {msg} {per_sec:.dim} {eta:.dim} left";
    let style = ProgressStyle::with_template(template).expect("a valid template");
    ProgressBar::new(steps).with_style(style).with_position(done)
}
