//! One task of an array job: trains a point, and when the time is up saves it and queues it again.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use lab::networks::runs::{self, note_failure};
use lab::networks::sweeps::Sweep;

use super::ask;
use crate::device::DeviceArgs;
use crate::error::{Error, Result};
use crate::output;
use crate::pool::{Job, Outcome, Pool, sentence};
use crate::signals;

/// How long a task waits for a process that still holds its run: one that is being killed, perhaps on another machine.
const PATIENCE: Duration = Duration::from_secs(60);

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
    let plan = args.dir.join(output::PLAN);
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
    let before = runs::look(&job.dir, &job.experiment).step;
    let outcome = match runs::finished(&job.dir) {
        Some(result) => Outcome::Finished(result),
        None => train(args, &job).inspect_err(|error| {
            // Where even the device is missing, no run was opened that could tell.
            let _ = std::fs::create_dir_all(&job.dir);
            note_failure(&job.dir, &error.to_string());
        })?,
    };
    match outcome {
        Outcome::Failed(error) => Err(error),
        Outcome::Interrupted(step) if step == before => Err(Error::Usage(format!(
            "{}: the time was up before a single step was done; accepted: more of it ('time' under [slurm])",
            job.dir.display()
        ))),
        Outcome::Interrupted(_) => {
            println!("{}", sentence(&job, &outcome));
            queue_again()
        }
        _ => {
            println!("{}", sentence(&job, &outcome));
            Ok(())
        }
    }
}

fn train(args: &TaskArgs, job: &Job) -> Result<Outcome> {
    let devices = args.device.devices()?;
    let root = job.dir.parent().unwrap_or(&job.dir);
    let pool =
        Pool { runs: root, devices: &devices, on_cuda: None, on_cpu: 1, several: false, printing: false };
    let begun = Instant::now();
    loop {
        let outcome = pool.train(&[job])?.pop().unwrap_or(Outcome::NotBegun);
        let busy = matches!(&outcome, Outcome::Failed(Error::Lab(lab::Error::Busy(_))));
        if !busy || begun.elapsed() > PATIENCE || signals::asked() {
            return Ok(outcome);
        }
        if let Some(result) = runs::finished(&job.dir) {
            return Ok(Outcome::Finished(result));
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Queues this task again, unless the cluster ended it: a task that was cancelled must stay so, and one that was requeued or
/// pre-empted is usually queued by the cluster itself. In both cases it does not count as running any more.
fn queue_again() -> Result<()> {
    let variable = |name: &str| std::env::var(name).ok();
    let Some((job, task)) = variable("SLURM_ARRAY_JOB_ID").zip(variable("SLURM_ARRAY_TASK_ID")) else {
        return Ok(());
    };
    let id = format!("{job}_{task}");
    let state = ask("squeue", &["--noheader", &format!("--jobs={id}"), "--format=%T"])?.unwrap_or_default();
    if state.trim() != "RUNNING" && !was_preempted(&id)? {
        println!("the cluster ended this task ({}) and decides what comes next", state.trim().to_lowercase());
        return Ok(());
    }
    println!("queued again as {id}");
    ask("scontrol", &["requeue", &id])?;
    Ok(())
}

/// Whether the cluster took a task's place for another job without queueing it again: partitions may be set up so.
fn was_preempted(id: &str) -> Result<bool> {
    let text = ask("scontrol", &["show", "job", "--oneliner", id])?.unwrap_or_default();
    let field = |name: &str| text.split_whitespace().find_map(|word| word.strip_prefix(name));
    // A task that is queued again has been counted as restarted.
    let restarts = std::env::var("SLURM_RESTART_COUNT").unwrap_or_else(|_| "0".into());
    let queued = field("Restarts=").is_some_and(|count| count != restarts);
    Ok(!queued && field("PreemptTime=").is_some_and(|time| time != "None"))
}
