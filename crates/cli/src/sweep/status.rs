//! `iclab sweep status`: how far every point is.

use clap::Args;
use lab::findings::Table;
use lab::networks::pace::duration_words;
use lab::networks::sweeps::{PointStatus, abandoned, counts, slurm, story, survey};
use serde_json::json;

use super::PlanArgs;
use crate::error::Result;
use crate::output::{print_aligned, print_json};

/// Show how far every point of a sweep is
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab sweep status experiments/sweeps/miniature.toml\n  \
                        iclab sweep status experiments/sweeps/miniature.toml --json")]
pub struct StatusArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &StatusArgs) -> Result<()> {
    let folder = args.plan.open()?;
    let (seen, notes) = survey(&folder);
    notes.iter().for_each(|note| eprintln!("note: {note}; states are those of the run directories"));
    let points = &folder.sweep.points;
    if args.json {
        let rows = points.iter().zip(&seen).map(|(point, PointStatus { standing, task, ended })| {
            json!({
                "point": folder.sweep.label(point),
                "run": point.dir(&folder.runs),
                "state": standing.status.word(),
                "step": standing.step,
                "steps": point.experiment.training.steps,
                "loss": standing.loss,
                "seconds_left": standing.seconds_left,
                "task": task.as_ref().map(|task| json!({"id": task.id, "state": task.state})),
                "ended": ended.as_ref().map(|ended| json!({
                    "id": ended.id,
                    "state": ended.state,
                    "exit_code": ended.exit.0,
                    "signal": ended.exit.1,
                    "seconds": ended.seconds,
                    "max_rss": ended.memory,
                })),
            })
        });
        return print_json(&rows.collect::<Vec<_>>());
    }
    let row = |(i, seen): (usize, &PointStatus)| {
        let standing = &seen.standing;
        vec![
            folder.label(i),
            seen.word(),
            format!("{}/{}", standing.step, points[i].experiment.training.steps),
            standing.loss.map_or("-".into(), |loss| format!("{loss:.4}")),
            standing.seconds_left.map_or("-".into(), duration_words),
        ]
    };
    let columns = ["point", "state", "step", "loss", "time left"];
    print_aligned(&Table {
        id: "status".into(),
        title: format!("{}: {}", folder.dir.display(), counts(&seen)),
        caption: String::new(),
        columns: columns.map(String::from).to_vec(),
        rows: seen.iter().enumerate().map(row).collect(),
    });
    let failed: Vec<usize> = (0..seen.len()).filter(|&i| seen[i].is_failed()).collect();
    if !failed.is_empty() {
        println!("failed, the last lines of their logs (iclab sweep --retry trains them again):");
        failed.iter().for_each(|&i| println!("  {}", story(&folder, i, &seen[i])));
    }
    let abandoned = abandoned(&seen);
    if let Some(job) = slurm::last_job(&folder.dir).filter(|_| !abandoned.is_empty() && notes.is_empty()) {
        println!(
            "{} not finished and in no queue since job {job} (iclab sweep {} --on slurm submits them again)",
            abandoned.len(),
            folder.plan.display()
        );
        let begun = abandoned.iter().filter(|&&i| {
            let accounted = seen[i].ended.as_ref().is_some_and(|ended| !ended.is_complete());
            accounted || slurm::newest_log(&folder.dir, i).is_some()
        });
        begun.for_each(|&i| println!("  {}", story(&folder, i, &seen[i])));
    }
    Ok(())
}
