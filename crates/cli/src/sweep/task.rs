//! One task of an array job: trains a point, and when the time is up saves it and queues it again.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use lab::networks::pool::{Job, JobOutcome};
use lab::networks::runs::{self, note_failure};
use lab::networks::sweeps::{PLAN, Sweep, slurm};

use crate::device::DeviceArgs;
use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::signals;

/// How long a task waits for a process that still holds its run: one that is being killed, perhaps on another machine, which
/// then counts as alive for a minute.
const PATIENCE: Duration = Duration::from_secs(90);

/// Train one point of a sweep, as a task of a job
#[derive(Args)]
pub struct TaskArgs {
    /// Directory of the sweep
    dir: PathBuf,
    /// Number of the point
    point: usize,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Runs the command.
pub fn run(args: &TaskArgs) -> Result<()> {
    signals::be_patient();
    signals::listen()?;
    let plan = args.dir.join(PLAN);
    let sweep = Sweep::stored(&plan)?;
    let count = sweep.points.len();
    let Some(point) = sweep.points.get(args.point) else {
        return Err(Error::content(
            &plan,
            format!("has no point {}; accepted: 0 to {}", args.point, count - 1),
        ));
    };
    let root = args.dir.parent().unwrap_or(&args.dir);
    let job = Job { experiment: point.experiment.clone(), dir: point.dir(root), label: sweep.label(point) };
    println!("{} ({})", job.label, job.dir.display());
    let before = runs::inspect(&job.dir, &job.experiment).step;
    let outcome = match runs::finished(&job.dir) {
        Some(result) => JobOutcome::Finished(result),
        None => train(args, &job).inspect_err(|error| {
            // Where even the device is missing, no run was opened that could tell.
            let _ = std::fs::create_dir_all(&job.dir);
            note_failure(&job.dir, &error.to_string());
        })?,
    };
    match outcome {
        JobOutcome::Failed(error) => Err(error.into()),
        JobOutcome::Interrupted(step) if step == before => Err(Error::Usage(format!(
            "{}: the time was up before a single step was done; accepted: more of it ('time' under [slurm])",
            job.dir.display()
        ))),
        JobOutcome::Interrupted(_) => {
            println!("{}", outcome.sentence(&job));
            Ok(slurm::queue_again(&|what| println!("{what}"))?)
        }
        _ => {
            println!("{}", outcome.sentence(&job));
            Ok(())
        }
    }
}

fn train(args: &TaskArgs, job: &Job) -> Result<JobOutcome> {
    let devices = args.device.devices()?;
    let root = job.dir.parent().unwrap_or(&job.dir);
    let pool = Pool {
        runs: root,
        devices: &devices,
        on_cuda: None,
        on_cpu: 1,
        several: false,
        checkpoint_every: None,
        printing: false,
    };
    let begun = Instant::now();
    loop {
        let outcome = pool.train(&[job])?.pop().unwrap_or(JobOutcome::NotBegun);
        let busy = matches!(&outcome, JobOutcome::Failed(lab::Error::Busy(_)));
        if !busy || begun.elapsed() > PATIENCE || signals::asked() {
            return Ok(outcome);
        }
        if let Some(result) = runs::finished(&job.dir) {
            return Ok(JobOutcome::Finished(result));
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}
