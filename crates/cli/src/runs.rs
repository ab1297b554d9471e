//! `iclab runs`: the trainings under runs/, and how far they are.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use lab::findings::numbers::{counted, grouped};
use lab::networks::RUNS;
use lab::networks::runs::{self, ListedRun, RunStatus};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::output::print_json;

/// List the runs that were trained here
///
/// The newest first: name, experiment, steps taken, loss, when it was last written, and whether it is finished, running,
/// interrupted or failed.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  iclab runs\n  iclab runs --runs /data/runs --json\n  iclab show miniature"
)]
pub struct RunsArgs {
    /// Directory of all runs
    #[arg(long, default_value = RUNS)]
    runs: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &RunsArgs) -> Result<()> {
    let named = args.runs.as_os_str() != RUNS;
    if named && !args.runs.is_dir() {
        return Err(Error::content(&args.runs, "is not a directory; accepted: a folder of runs (--runs)"));
    }
    let found = runs::list(&args.runs);
    if args.json {
        return print_json(&found.iter().map(record).collect::<Vec<_>>());
    }
    if found.is_empty() {
        println!("no runs under {}; iclab train miniature makes one", args.runs.display());
        return Ok(());
    }
    let row = |run: &ListedRun| {
        let (step, steps) = (run.progress.step, run.experiment.training.steps);
        vec![
            run.name.clone(),
            run.experiment.name.clone(),
            format!("{} of {}", grouped(step), grouped(steps)),
            run.progress.loss.map_or("–".into(), |loss| format!("{loss:.4}")),
            when(run.written),
            run.progress.status.word().into(),
        ]
    };
    let heads = ["name", "experiment", "steps", "loss", "written", "state"].map(String::from).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(found.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    for row in &rows {
        let cells = row.iter().enumerate().map(|(i, cell)| format!("{cell:<0$}", width(i)));
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    Ok(())
}

fn record(run: &ListedRun) -> Value {
    let failure = match &run.progress.status {
        RunStatus::Failed(why) => Some(why),
        _ => None,
    };
    json!({
        "name": run.name,
        "directory": run.dir,
        "experiment": run.experiment.name,
        "seed": run.experiment.training.seed,
        "step": run.progress.step,
        "steps": run.experiment.training.steps,
        "loss": run.progress.loss,
        "written": run.written.map(runs::utc),
        "state": run.progress.status.word(),
        "failure": failure,
    })
}

/// The state of a run in words.
pub fn state(run: &ListedRun) -> String {
    let (step, steps) = (grouped(run.progress.step), grouped(run.experiment.training.steps));
    match &run.progress.status {
        RunStatus::Finished(result) => {
            format!("finished, {}", counted(result.steps as usize, "step", "steps"))
        }
        RunStatus::Failed(why) => format!("failed at step {step} of {steps}: {why}"),
        other => format!("unfinished ({}), step {step} of {steps}", other.word()),
    }
}

/// A moment as `2026-11-15 15:20 UTC`.
pub fn when(time: Option<SystemTime>) -> String {
    let text = time.map(runs::utc).unwrap_or_default();
    match text.split_once('T') {
        Some((day, time)) => format!("{day} {} UTC", &time[..5]),
        None => "–".into(),
    }
}
