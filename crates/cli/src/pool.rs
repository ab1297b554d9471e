//! The pool of `lab` on a terminal: devices as asked for, a bar for each run, results as they come.

mod shown;

use std::path::Path;

use lab::networks::devices::Device;
use lab::networks::pool::{self, Job, JobOutcome};
use lab::networks::runs::{self, CheckpointEvery};

use crate::device::{Chosen, Devices};
use crate::error::Result;
use crate::signals;
use shown::Shown;

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
        let shown = Shown::new(jobs, &chosen, self.several, self.printing);
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
