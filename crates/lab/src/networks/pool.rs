//! Many runs by one process: on a CUDA device or on the cores, several at once, each with its outcome.
//!
//! Who calls decides the devices and watches; what watches may be a terminal, a log, or nothing at all.
//!
//! ```no_run
//! use lab::networks::devices::Device;
//! use lab::networks::pool::{self, Pool, Wanted, Watch};
//! # use std::path::Path;
//!
//! struct Silent;
//! impl Watch for Silent {}
//!
//! let runs = Path::new("runs");
//! let wanted = Wanted { set: vec![], steps: None, seed: None, seeds: 2 };
//! let jobs = pool::jobs(&["experiments/miniature.toml".into()], &wanted, runs)?;
//! let (may_fall_back, several, checkpoint_every) = (false, true, None);
//! let pool = Pool { runs, on_cuda: 0, on_cpu: 2, may_fall_back, several, checkpoint_every, watch: &Silent };
//! let placed: Vec<_> = jobs.iter().map(|job| (job, Device::Cpu)).collect();
//! for (job, outcome) in jobs.iter().zip(pool.train(&placed)?) {
//!     println!("{}", outcome.sentence(job));
//! }
//! # Ok::<(), lab::Error>(())
//! ```

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::cuda::CudaError;

use crate::error::{Error, Result};
use crate::findings::numbers::{counted, grouped};
use crate::networks::devices::Device;
use crate::networks::experiment::{Change, Experiment};
use crate::networks::runs::{self, CheckpointEvery, Metrics, Run, RunResult, Stopped};
use crate::networks::train::StepReport;

/// The largest seed that an experiment file can hold.
pub const LARGEST_SEED: u64 = i64::MAX as u64;

/// One run that was asked for.
#[derive(Clone, Debug)]
pub struct Job {
    /// What to train.
    pub experiment: Experiment,
    /// Where.
    pub dir: PathBuf,
    /// What it is called among others.
    pub label: String,
}

/// What became of a job.
#[derive(Debug)]
pub enum JobOutcome {
    /// It is done.
    Finished(RunResult),
    /// It was asked to stop after this step, and saved.
    Interrupted(u64),
    /// The request to stop came first.
    NotBegun,
    /// It could not be trained, or not to its end.
    Failed(Error),
}

/// Which runs of some experiment files: of each, as many seeds as are asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Fields that are changed in every experiment; the others below win.
    pub set: Vec<Change>,
    /// Gradient steps, instead of the experiment's.
    pub steps: Option<u64>,
    /// First seed, instead of the experiment's.
    pub seed: Option<u64>,
    /// Seeds from the first upwards, at least one.
    pub seeds: u64,
}

/// Every run that is wanted of these experiment files, none of them twice.
pub fn jobs(files: &[PathBuf], wanted: &Wanted, runs: &Path) -> Result<Vec<Job>> {
    let mut jobs: Vec<Job> = Vec::new();
    let mut asked_by: BTreeMap<PathBuf, &Path> = BTreeMap::new();
    for path in files {
        let mut experiment = Experiment::read_changed(path, &wanted.set)?;
        experiment.training.steps = wanted.steps.unwrap_or(experiment.training.steps);
        let first = wanted.seed.unwrap_or(experiment.training.seed);
        if first > LARGEST_SEED - (wanted.seeds - 1) {
            return Err(Error::BadData(format!("seeds {first} and on; accepted: up to {LARGEST_SEED}")));
        }
        for seed in first..first + wanted.seeds {
            experiment.training.seed = seed;
            let dir = runs::directory(runs, &experiment);
            if let Some(other) = asked_by.insert(dir.clone(), path) {
                return Err(Error::BadData(format!(
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

/// What hears of the runs of a pool; called from the threads that train.
pub trait Watch: Sync {
    /// Whether runs should save and stop.
    fn stop(&self) -> bool {
        false
    }

    /// A job's run is open, so many steps done.
    fn begun(&self, _job: usize, _done: u64) {}

    /// A job took a step; a row of metrics, if one was due.
    fn stepped(&self, _job: usize, _step: u64, _row: Option<&Metrics>) {}

    /// The CUDA device cannot train a job's network, and why; the CPU does.
    fn fell_back(&self, _job: usize, _why: &str) {}

    /// A job ended.
    fn ended(&self, _job: usize, _outcome: &JobOutcome) {}
}

/// How runs share this machine.
pub struct Pool<'a> {
    /// Directory of all runs.
    pub runs: &'a Path,
    /// Runs at once on a CUDA device.
    pub on_cuda: usize,
    /// Runs at once on the cores, which they share evenly.
    pub on_cpu: usize,
    /// Whether the CPU may train what a CUDA device cannot.
    pub may_fall_back: bool,
    /// Whether a request to stop leaves runs that are not begun yet; a lone run takes a step first.
    pub several: bool,
    /// When checkpoints are taken, instead of what experiments say.
    pub checkpoint_every: Option<CheckpointEvery>,
    /// What hears of them.
    pub watch: &'a dyn Watch,
}

impl Pool<'_> {
    /// Trains jobs, each on its device, until they are done or asked to stop; what became of each.
    pub fn train(&self, jobs: &[(&Job, Device)]) -> Result<Vec<JobOutcome>> {
        let (cuda, cpu): (Vec<usize>, Vec<usize>) =
            (0..jobs.len()).partition(|&k| matches!(jobs[k].1, Device::Cuda(..)));
        let outcomes: Vec<Mutex<Option<JobOutcome>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
        let work = |k: usize| {
            let outcome = self.train_one(k, jobs[k].0, &jobs[k].1);
            *outcomes[k].lock().unwrap_or_else(|e| e.into_inner()) = Some(outcome);
        };
        let (next_cuda, next_cpu) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let take = |queue: &[usize], next: &AtomicUsize| {
            while let Some(&k) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
                work(k);
            }
        };
        let shares = shares(self.on_cpu.min(cpu.len()))?;
        std::thread::scope(|scope| {
            for _ in 0..self.on_cuda.min(cuda.len()) {
                scope.spawn(|| take(&cuda, &next_cuda));
            }
            for share in &shares {
                scope.spawn(|| share.install(|| take(&cpu, &next_cpu)));
            }
            if shares.is_empty() {
                take(&cpu, &next_cpu);
            }
        });
        let outcome = |slot: Mutex<Option<JobOutcome>>| slot.into_inner().unwrap_or_else(|e| e.into_inner());
        Ok(outcomes.into_iter().map(|slot| outcome(slot).unwrap_or(JobOutcome::NotBegun)).collect())
    }

    fn train_one(&self, k: usize, job: &Job, device: &Device) -> JobOutcome {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.try_train(k, job, device)))
            .unwrap_or_else(|_| Err(Error::Training("the program failed; that is a mistake in iclab".into())))
            .unwrap_or_else(JobOutcome::Failed);
        if let JobOutcome::Failed(error) = &outcome
            && !matches!(error, Error::Busy(_))
        {
            runs::note_failure(&job.dir, &error.to_string());
        }
        self.watch.ended(k, &outcome);
        outcome
    }

    fn try_train(&self, k: usize, job: &Job, device: &Device) -> Result<JobOutcome> {
        if self.several && self.watch.stop() {
            return Ok(JobOutcome::NotBegun);
        }
        let mut run = match Run::open(self.runs, &job.experiment, device) {
            Err(Error::Cuda(CudaError::Unsupported(why))) if self.may_fall_back => {
                self.watch.fell_back(k, &why);
                Run::open(self.runs, &job.experiment, &Device::Cpu)?
            }
            opened => opened?,
        };
        self.watch.begun(k, run.done());
        let stepped = |step: u64, _: &StepReport, row: Option<&Metrics>| self.watch.stepped(k, step, row);
        let stopped = run.train(self.checkpoint_every, || self.watch.stop(), stepped)?;
        Ok(match stopped {
            Stopped::Finished(result) => JobOutcome::Finished(result),
            Stopped::Interrupted(step) => JobOutcome::Interrupted(step),
        })
    }
}

/// The cores, divided among as many runs: bits do not depend on how many a run gets. None for a single run, which has them all.
fn shares(runs: usize) -> Result<Vec<rayon::ThreadPool>> {
    let cores = rayon::current_num_threads();
    let share = |i: usize| {
        let threads = (cores / runs + usize::from(i < cores % runs)).max(1);
        rayon::ThreadPoolBuilder::new().num_threads(threads).build()
    };
    let built: std::result::Result<Vec<_>, _> = (0..if runs > 1 { runs } else { 0 }).map(share).collect();
    built.map_err(|e| {
        Error::BadData(format!("no threads for {runs} runs at once: {e}; accepted: fewer (--jobs)"))
    })
}

impl JobOutcome {
    /// In a sentence that begins with the job's directory.
    pub fn sentence(&self, job: &Job) -> String {
        let (dir, steps) = (job.dir.display(), job.experiment.training.steps);
        match self {
            JobOutcome::Finished(result) => {
                let least =
                    result.bayes_loss.map_or(String::new(), |l| format!(" (smallest possible {l:.4})"));
                let broken = result.broke_down.map_or(String::new(), |broken| format!("; {broken}"));
                format!(
                    "{dir}: {}; mean loss {:.4}{least}, error/d after all pairs {:.3e}, on {} fresh prompts{broken}",
                    counted(result.steps as usize, "step", "steps"),
                    result.mean_loss,
                    result.last_error_over_d,
                    grouped(result.prompts as u64)
                )
            }
            JobOutcome::Interrupted(step) => {
                let (step, steps) = (grouped(*step), grouped(steps));
                format!(
                    "{dir} is unfinished: stopped after step {step} of {steps}, saved; the same command goes on"
                )
            }
            JobOutcome::NotBegun => format!("{dir} is unfinished: not begun; the same command goes on"),
            JobOutcome::Failed(error) => format!("{dir}: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::resume_unwind;

    use super::*;

    /// Five runs of a few steps.
    fn five(runs: &Path) -> Vec<Job> {
        let set = [
            "task.dim=3",
            "task.points=4",
            "training.dims={start=2,end=3,hold=0,over=1}",
            "training.batch=4",
        ];
        let small = ["network.layers=1", "network.heads=1", "network.width=8", "training.keep=2"];
        let set = set.into_iter().chain(small).map(|change| change.parse().unwrap()).collect();
        let wanted = Wanted { set, steps: Some(6), seed: None, seeds: 5 };
        jobs(&["../../experiments/miniature.toml".into()], &wanted, runs).unwrap()
    }

    /// Trains them, so many at once, a checkpoint after every step.
    fn train(jobs: &[Job], runs: &Path, on_cpu: usize, watch: &dyn Watch) -> Vec<JobOutcome> {
        let checkpoint_every = Some(CheckpointEvery::Steps(1));
        let pool =
            Pool { runs, on_cuda: 0, on_cpu, may_fall_back: false, several: true, checkpoint_every, watch };
        pool.train(&jobs.iter().map(|job| (job, Device::Cpu)).collect::<Vec<_>>()).unwrap()
    }

    fn loss(outcome: &JobOutcome) -> f64 {
        match outcome {
            JobOutcome::Finished(result) => result.mean_loss,
            other => panic!("not finished: {other:?}"),
        }
    }

    struct Silent;
    impl Watch for Silent {}

    /// Panics after the third step of one job.
    struct Failing(usize);
    impl Watch for Failing {
        fn stepped(&self, job: usize, step: u64, _: Option<&Metrics>) {
            if (job, step) == (self.0, 3) {
                resume_unwind(Box::new("on purpose")); // without the message of a panic
            }
        }
    }

    /// Asks to stop after so many steps of all jobs together.
    struct Stopping(AtomicUsize);
    impl Watch for Stopping {
        fn stop(&self) -> bool {
            self.0.load(Ordering::Relaxed) == 0
        }

        fn stepped(&self, _: usize, _: u64, _: Option<&Metrics>) {
            let less = |left: usize| left.checked_sub(1);
            let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    #[test]
    fn runs_at_once_fail_stop_and_go_on_by_themselves_and_end_with_the_same_bits() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [alone, together] = [0, 1].map(|i| folders[i].path());
        let expected: Vec<f64> = train(&five(alone), alone, 1, &Silent).iter().map(loss).collect();

        let jobs = five(together);
        let outcomes = train(&jobs, together, 3, &Failing(1));
        for (k, outcome) in outcomes.iter().enumerate() {
            match k {
                1 => assert!(matches!(outcome, JobOutcome::Failed(Error::Training(_))), "{outcome:?}"),
                _ => assert_eq!(loss(outcome), expected[k]),
            }
        }
        assert_eq!(loss(&train(&jobs[1..2], together, 3, &Silent)[0]), expected[1], "from its checkpoint");

        for steps in [0, 1, 4, 9] {
            let folder = tempfile::tempdir().unwrap();
            let jobs = five(folder.path());
            let stopped = train(&jobs, folder.path(), 3, &Stopping(steps.into()));
            assert!(stopped.iter().any(|outcome| matches!(outcome, JobOutcome::NotBegun)), "{stopped:?}");
            let ended: Vec<f64> = train(&jobs, folder.path(), 2, &Silent).iter().map(loss).collect();
            assert_eq!(ended, expected, "stopped after {steps} steps");
        }
    }
}
