//! `iclab sweep --on local`: a pool of runs in this process.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};

use lab::networks::runs::host;

use super::survey::{Seen, counts, story, survey};
use super::{Opened, RunArgs};
use crate::error::{Error, Result};
use crate::pool::{Job, Outcome, Pool};

/// Runs at once on the cores when nobody says how many: one core each is the fastest for small networks, and memory is
/// the limit for large ones.
const MOST_ON_CPU: usize = 8;
/// Runs at once on a CUDA device when nobody says how many.
const ON_CUDA: usize = 4;

/// Trains what is left of a sweep.
pub fn run(args: &RunArgs, opened: &Opened) -> Result<()> {
    let devices = args.device.devices()?;
    opened.create()?;
    let _sole = sign(opened)?;
    let (seen, notes) = survey(opened);
    notes.iter().for_each(|note| eprintln!("note: {note}; tasks of a cluster are not known"));
    let left = left(args, opened, &seen);
    if !left.is_empty() {
        let jobs: Vec<Job> = left
            .iter()
            .map(|&i| Job {
                experiment: opened.sweep.points[i].experiment.clone(),
                dir: opened.point_dir(i),
                label: opened.label(i),
            })
            .collect();
        let cores = rayon::current_num_threads();
        let pool = Pool {
            runs: &opened.runs,
            devices: &devices,
            on_cuda: Some(args.jobs.map_or(ON_CUDA, |jobs| jobs as usize)),
            on_cpu: args.jobs.map_or(cores.min(MOST_ON_CPU), |jobs| jobs as usize),
            several: true,
            printing: true,
        };
        let outcomes = pool.train(&jobs.iter().collect::<Vec<_>>())?;
        let failed: Vec<String> = jobs
            .iter()
            .zip(outcomes)
            .filter_map(|(job, outcome)| match outcome {
                Outcome::Failed(error) => Some(format!("{} ({}): {error}", job.label, job.dir.display())),
                _ => None,
            })
            .collect();
        if !failed.is_empty() {
            return Err(Error::Usage(format!(
                "{} of {} points failed; the others are saved, and --retry trains these again:\n  {}",
                failed.len(),
                opened.sweep.points.len(),
                failed.join("\n  ")
            )));
        }
    }
    let (seen, _) = survey(opened);
    println!("{}: {}", opened.dir.display(), counts(&seen));
    let failed: Vec<String> =
        (0..seen.len()).filter(|&i| seen[i].is_failed()).map(|i| story(opened, i)).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let count = failed.len();
    Err(Error::Usage(format!(
        "{count} of {} points failed before, and --retry trains them again:\n  {}",
        seen.len(),
        failed.join("\n  ")
    )))
}

/// The points that are to be trained now; says which are not, and why.
fn left(args: &RunArgs, opened: &Opened, seen: &[Seen]) -> Vec<usize> {
    let mut left = Vec::new();
    for (i, seen) in seen.iter().enumerate() {
        if seen.is_finished() || seen.is_failed() && !args.retry {
            continue;
        }
        if seen.is_running() {
            eprintln!("note: {} is being trained by another process and left to it", opened.label(i));
            continue;
        }
        if let Some(task) = &seen.task {
            eprintln!("note: {} is {} as task {} and left to it", opened.label(i), task.words(), task.id);
            continue;
        }
        left.push(i);
    }
    left
}

/// Marks the sweep as being trained here, for `iclab sweep cancel` and against a second pool.
fn sign(opened: &Opened) -> Result<File> {
    let path = opened.pool_file();
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(Error::file("create", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut who = String::new();
            let _ = file.read_to_string(&mut who);
            return Err(Error::content(
                &opened.dir,
                format!("is being trained already ({}); accepted: one local pool at a time", who.trim()),
            ));
        }
        Err(TryLockError::Error(source)) => return Err(Error::file("lock", &path)(source)),
    }
    let signature = format!("process {} on {}\n", std::process::id(), host());
    file.set_len(0)
        .and_then(|()| file.write_all(signature.as_bytes()))
        .map_err(Error::file("write", &path))?;
    Ok(file)
}
