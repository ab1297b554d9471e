//! `iclab sweep cancel`: asks everything that works on a sweep to save and stop.

use std::fs::{File, TryLockError};
use std::io::Read;

use clap::Args;
use lab::networks::runs::host;

use super::survey::{counts, survey};
use super::{Opened, PlanArgs, slurm};
use crate::error::{Error, Result};

/// Stop a sweep; its runs are saved, and `iclab sweep` goes on with them
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab sweep cancel experiments/sweeps/miniature.toml")]
pub struct CancelArgs {
    #[command(flatten)]
    plan: PlanArgs,
}

/// Runs the command.
pub fn run(args: &CancelArgs) -> Result<()> {
    let opened = args.plan.open()?;
    let mut stopped = Vec::new();
    stopped.extend(pool(&opened)?);
    let submitted = slurm::was_submitted(&opened.dir);
    match if submitted { slurm::cancel(&slurm::job_name(&opened))? } else { 0 } {
        0 => {}
        1 => stopped.push("1 task of the cluster is cancelled".into()),
        count => stopped.push(format!("{count} tasks of the cluster are cancelled")),
    }
    if stopped.is_empty() {
        stopped.push("nobody is training it".to_string());
    }
    println!("{}: {}", opened.dir.display(), stopped.join("; "));
    println!("{}", counts(&survey(&opened).0));
    Ok(())
}

/// Asks the local pool to stop, if there is one, and waits until it has saved.
fn pool(opened: &Opened) -> Result<Option<String>> {
    let path = opened.pool_file();
    let Ok(mut file) = File::open(&path) else { return Ok(None) };
    if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        return Ok(None);
    }
    let mut who = String::new();
    file.read_to_string(&mut who).map_err(Error::file("read", &path))?;
    let signed = who.trim().strip_prefix("process ").and_then(|rest| rest.split_once(" on "));
    let process = signed.and_then(|(number, machine)| Some((number.parse::<i32>().ok()?, machine)));
    let Some((process, machine)) = process else {
        return Err(Error::content(
            &path,
            "does not say which process trains the sweep; accepted: stop it by hand",
        ));
    };
    if machine != host() {
        return Err(Error::content(
            &path,
            format!(
                "the sweep is trained by process {process} on {machine}; accepted: this command on that machine"
            ),
        ));
    }
    ask_to_stop(process)?;
    // The lock is free when the process has saved everything and ended.
    file.lock_shared().map_err(Error::file("lock", &path))?;
    Ok(Some(format!("process {process} has saved its runs and stopped")))
}

#[cfg(unix)]
fn ask_to_stop(process: i32) -> Result<()> {
    use nix::sys::signal::{Signal, kill};
    kill(nix::unistd::Pid::from_raw(process), Signal::SIGTERM)
        .map_err(|e| Error::Usage(format!("cannot ask process {process} to stop: {e}")))
}

#[cfg(not(unix))]
fn ask_to_stop(process: i32) -> Result<()> {
    Err(Error::Usage(format!("process {process} trains the sweep; accepted: Ctrl-C there")))
}
