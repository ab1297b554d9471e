//! SLURM, by its own commands alone: `sbatch`, `squeue`, `sacct`, `scancel`, `scontrol`. Machines need to share nothing but the
//! directory of runs; the program itself is copied there.

mod arguments;
mod queue;
mod submit;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::folder::SweepFolder;
use crate::data::seed::stable_id;
use crate::error::{Error, Result};

pub use queue::{Queued, cancel, ended, parse_accounts, parse_preempted, parse_queue, queue_again, queued};
pub use submit::{Submission, check, submit};

/// Logs of tasks, under the sweep's directory: `JOB_POINT.txt`.
const LOGS: &str = "logs";
/// Jobs that were submitted, under the sweep's directory: a line each.
const JOBS: &str = "jobs.txt";

/// The name of a sweep's jobs, by which they are found again even if this program died between submitting and writing that down.
pub fn job_name(folder: &SweepFolder) -> String {
    let place = std::path::absolute(&folder.dir).unwrap_or_else(|_| folder.dir.clone());
    format!("iclab-{}-{:016x}", folder.sweep.name, stable_id(&place.to_string_lossy()))
}

/// What a command of SLURM said, or `None` where there is no such command.
fn ask(program: &str, arguments: &[&str]) -> Result<Option<String>> {
    let output = match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::BadData(format!("{program} cannot be run: {e}"))),
    };
    if output.status.success() {
        return Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()));
    }
    // The last line is the reason; those before it are what led there.
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    let reason = reason.map_or_else(|| format!("nothing ({})", output.status), str::to_string);
    Err(Error::BadData(format!("{program} says: {reason}")))
}

/// The newest log of a point's tasks, if it ever had one.
pub fn newest_log(dir: &Path, point: usize) -> Option<PathBuf> {
    let ending = format!("_{point}.txt");
    let entries = std::fs::read_dir(dir.join(LOGS)).ok()?.flatten();
    let own = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(&ending));
    own.max_by_key(|entry| entry.metadata().and_then(|m| m.modified()).ok()).map(|entry| entry.path())
}

/// Whether the sweep was ever about to be submitted: the folder for logs is made first.
pub fn was_submitted(dir: &Path) -> bool {
    dir.join(LOGS).is_dir()
}

/// The last job that was submitted.
pub fn last_job(dir: &Path) -> Option<String> {
    let line = crate::networks::runs::last_lines(&dir.join(JOBS), 1).pop()?;
    Some(line.split_whitespace().next()?.to_string())
}
