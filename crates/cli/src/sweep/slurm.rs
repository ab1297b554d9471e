//! `iclab sweep --on slurm`: an array job for all points that are left, or several where they are too many for one.

use lab::networks::sweeps::slurm::{self, Submission};
use lab::networks::sweeps::{SweepFolder, counts, survey};

use lab::program::Program;

use super::RunArgs;
use crate::error::{Error, Result};

/// Submits what is left of a sweep.
pub fn run(args: &RunArgs, folder: &SweepFolder) -> Result<()> {
    args.device.devices()?; // arguments that do not go together are refused here, not on another machine
    slurm::check()?;
    folder.create()?;
    let (seen, notes) = survey(folder);
    if let Some(note) = notes.first() {
        return Err(Error::Usage(format!(
            "{note}, so nobody can tell what is queued already; nothing was submitted"
        )));
    }
    let busy = |i: &usize| seen[*i].task.is_some() || seen[*i].is_running();
    let wanted = |i: &usize| !seen[*i].is_finished() && (args.retry || !seen[*i].is_failed());
    let left: Vec<usize> = (0..seen.len()).filter(|i| wanted(i) && !busy(i)).collect();
    println!("{}: {}", folder.dir.display(), counts(&seen));
    if left.is_empty() {
        let failed = seen.iter().any(|point| point.is_failed());
        println!("nothing to submit{}", if failed { " (--retry submits failed points)" } else { "" });
        return Ok(());
    }
    let program = Program::running();
    let program = program.map_err(|e| Error::Usage(format!("cannot find this program: {e}")))?;
    let arguments = args.device.arguments();
    let submission =
        Submission { points: &left, throttle: args.jobs, program: &program, arguments: &arguments };
    let jobs = slurm::submit(folder, &submission)?;
    let points = if left.len() == 1 { "1 point".into() } else { format!("{} points", left.len()) };
    let kind = if jobs.len() == 1 { "job" } else { "jobs" };
    println!("{points} submitted as {kind} {}", jobs.join(", "));
    println!("iclab sweep status {} tells how far they are", folder.plan.display());
    Ok(())
}
