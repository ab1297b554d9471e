//! The pool of `lab` on a terminal: devices as asked for, a bar for each run, results as they come.

use std::path::Path;
use std::sync::Mutex;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use lab::networks::devices::Device;
use lab::networks::pool::{self, Job, JobOutcome, Watch};
use lab::networks::runs::{self, CheckpointEvery, Metrics};

use crate::device::{Chosen, Devices};
use crate::error::Result;
use crate::signals;

/// How runs share this machine, and what is shown of them.
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
    /// When checkpoints are taken, instead of what experiments say.
    pub checkpoint_every: Option<CheckpointEvery>,
    /// Whether each run's result is printed when it is known.
    pub printing: bool,
}

impl Pool<'_> {
    /// Trains the jobs until they are done or the process is asked to stop; what became of each.
    pub fn train(&self, jobs: &[&Job]) -> Result<Vec<JobOutcome>> {
        let mut chosen = Vec::new();
        for job in jobs {
            chosen.push(self.devices.choose(runs::recorded_device(&job.dir).as_deref())?);
        }
        let on_cuda = self.on_cuda.unwrap_or(jobs.len());
        announce(&chosen, on_cuda, self.on_cpu);
        signals::listen()?;
        let width = jobs.iter().map(|job| job.label.chars().count()).max().filter(|_| self.several);
        let shown = Shown {
            jobs,
            all: MultiProgress::new(),
            bars: jobs.iter().map(|_| Mutex::new(None)).collect(),
            width,
            printing: self.printing,
        };
        let pool = pool::Pool {
            runs: self.runs,
            on_cuda,
            on_cpu: self.on_cpu,
            may_fall_back: self.devices.may_fall_back(),
            several: self.several,
            checkpoint_every: self.checkpoint_every,
            watch: &shown,
        };
        let placed: Vec<(&Job, Device)> =
            jobs.iter().zip(chosen).map(|(job, chosen)| (*job, chosen.device)).collect();
        Ok(pool.train(&placed)?)
    }
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

/// A bar for every run that is being trained.
struct Shown<'a> {
    jobs: &'a [&'a Job],
    all: MultiProgress,
    bars: Vec<Mutex<Option<ProgressBar>>>,
    /// Width of the bars' prefixes, which say the run where there are several.
    width: Option<usize>,
    printing: bool,
}

impl Shown<'_> {
    fn bar(&self, job: usize) -> Option<ProgressBar> {
        self.bars[job].lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
}

impl Watch for Shown<'_> {
    fn stop(&self) -> bool {
        signals::asked()
    }

    fn begun(&self, job: usize, done: u64) {
        let template = "{prefix}{bar:24.cyan/dim} {pos}/{len} {msg} {per_sec:.dim} {eta:.dim} left";
        let style = ProgressStyle::with_template(template).expect("a valid template");
        let steps = self.jobs[job].experiment.training.steps;
        let bar = self.all.add(ProgressBar::new(steps).with_style(style).with_position(done));
        if let Some(width) = self.width {
            bar.set_prefix(format!("{:<width$} ", self.jobs[job].label));
        }
        *self.bars[job].lock().unwrap_or_else(|e| e.into_inner()) = Some(bar);
    }

    fn stepped(&self, job: usize, step: u64, row: Option<&Metrics>) {
        let Some(bar) = self.bar(job) else { return };
        bar.set_position(step);
        if let Some(row) = row {
            let excess = row.excess.map_or(String::new(), |e| format!(", {e:.4} above the Bayes loss"));
            bar.set_message(format!("loss {:.4}{excess}", row.loss));
        }
    }

    fn fell_back(&self, _: usize, why: &str) {
        let note = Some(format!("no CUDA for this network: {why}"));
        let chosen = Chosen { device: Device::Cpu, note };
        self.all.suspend(|| eprintln!("{}", chosen.line()));
    }

    fn ended(&self, job: usize, outcome: &JobOutcome) {
        if let Some(bar) = self.bar(job) {
            bar.finish_and_clear();
        }
        if self.printing && !matches!(outcome, JobOutcome::Failed(_)) {
            self.all.suspend(|| println!("{}", outcome.sentence(self.jobs[job])));
        }
    }
}
