//! `iclab sweep --on local`: a pool of runs in this process.

use lab::networks::pool::{Job, JobOutcome};
use lab::networks::sweeps::{PointStatus, SweepFolder, counts, story, survey};

use super::RunArgs;
use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::signals;

/// Runs at once on the cores when nobody says how many: one core each is the fastest for small networks, and memory is
/// the limit for large ones.
const MOST_ON_CPU: usize = 8;
/// Runs at once on a CUDA device when nobody says how many.
const ON_CUDA: usize = 4;

/// Trains what is left of a sweep.
pub fn run(args: &RunArgs, folder: &SweepFolder) -> Result<()> {
    let devices = args.device.devices()?;
    folder.create()?;
    let _sole = folder.sign()?;
    let (seen, notes) = survey(folder);
    notes.iter().for_each(|note| eprintln!("note: {note}; tasks of a cluster are not known"));
    let jobs: Vec<Job> = left(args, folder, &seen).into_iter().map(|point| folder.job(point)).collect();
    let mut outcomes = Vec::new();
    if !jobs.is_empty() {
        let cores = rayon::current_num_threads();
        let pool = Pool {
            runs: &folder.runs,
            devices: &devices,
            on_cuda: Some(args.jobs.map_or(ON_CUDA, |jobs| jobs as usize)),
            on_cpu: args.jobs.map_or(cores.min(MOST_ON_CPU), |jobs| jobs as usize),
            several: true,
            checkpoint_every: None,
            printing: true,
        };
        outcomes = pool.train(&jobs.iter().collect::<Vec<_>>())?;
        let failed = jobs.iter().zip(&outcomes).filter_map(|(job, outcome)| match outcome {
            JobOutcome::Failed(error) => Some(format!("{} ({}): {error}", job.label, job.dir.display())),
            _ => None,
        });
        refuse(failed.collect(), folder, "failed; the others are saved, and --retry trains these again")?;
    }
    let (seen, _) = survey(folder);
    println!("{}: {}", folder.dir.display(), counts(&seen));
    let failed = (0..seen.len()).filter(|&i| seen[i].is_failed()).map(|i| story(folder, i, &seen[i]));
    refuse(failed.collect(), folder, "failed before, and --retry trains them again")?;
    signals::refuse_unfinished(outcomes.iter())
}

/// An error that names every failed point, if there is one.
fn refuse(failed: Vec<String>, folder: &SweepFolder, why: &str) -> Result<()> {
    if failed.is_empty() {
        return Ok(());
    }
    let (count, of) = (failed.len(), folder.sweep.points.len());
    Err(Error::Usage(format!("{count} of {of} points {why}:\n  {}", failed.join("\n  "))))
}

/// The points that are to be trained now; says which are not, and why.
fn left(args: &RunArgs, folder: &SweepFolder, seen: &[PointStatus]) -> Vec<usize> {
    let mut left = Vec::new();
    for (i, point) in seen.iter().enumerate() {
        if point.is_finished() || point.is_failed() && !args.retry {
            continue;
        }
        if point.is_running() {
            eprintln!("note: {} is being trained by another process and left to it", folder.label(i));
        } else if let Some(task) = &point.task {
            eprintln!("note: {} is {} as task {} and left to it", folder.label(i), task.words(), task.id);
        } else {
            left.push(i);
        }
    }
    left
}
