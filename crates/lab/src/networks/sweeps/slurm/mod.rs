//! SLURM, by its own commands alone: `sbatch`, `squeue`, `sacct`, `scancel`, `scontrol`. Machines need to share nothing but the
//! directory of runs; the program itself is copied there.

mod accounts;
mod arguments;
mod arrays;
mod names;
mod queue;
mod submit;

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};

pub use accounts::{Ended, ended, parse_accounts};
pub use names::{JobNames, newest_log};
pub use queue::{Queued, cancel, parse_preempted, parse_queue, queue_again, queued};
pub use submit::{Submission, check, submit};

/// Logs of tasks, under the sweep's directory.
const LOGS: &str = "logs";
/// Jobs that were submitted, under the sweep's directory: a line each.
const JOBS: &str = "jobs.txt";

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

/// Whether the sweep was ever about to be submitted: the folder for logs is made first.
pub fn was_submitted(dir: &Path) -> bool {
    dir.join(LOGS).is_dir()
}

/// The last job that was submitted.
pub fn last_job(dir: &Path) -> Option<String> {
    let line = crate::networks::runs::last_lines(&dir.join(JOBS), 1).pop()?;
    Some(line.split_whitespace().next()?.to_string())
}
