//! `iclab sweep cancel`: asks everything that works on a sweep to save and stop.

use clap::Args;
use lab::networks::sweeps::slurm::{self, JobNames};
use lab::networks::sweeps::{SweepFolder, counts, survey};

use super::PlanArgs;
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
    let folder = args.plan.open()?;
    let mut stopped = Vec::new();
    stopped.extend(pool(&folder)?);
    let submitted = slurm::was_submitted(&folder.dir);
    match if submitted { slurm::cancel(&JobNames::of(&folder))? } else { 0 } {
        0 => {}
        1 => stopped.push("1 task of the cluster is cancelled".into()),
        count => stopped.push(format!("{count} tasks of the cluster are cancelled")),
    }
    if stopped.is_empty() {
        stopped.push("nobody is training it".to_string());
    }
    println!("{}: {}", folder.dir.display(), stopped.join("; "));
    println!("{}", counts(&survey(&folder).0));
    Ok(())
}

/// Asks the local pool to stop, if there is one, and waits until it has saved.
fn pool(folder: &SweepFolder) -> Result<Option<String>> {
    let Some(process) = folder.pool_process()? else { return Ok(None) };
    ask_to_stop(process.id)?;
    process.wait();
    Ok(Some(format!("process {} has saved its runs and stopped", process.id)))
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
