//! `iclab sweep collect`: the finished runs of a sweep as one table, one file of arrays, figures and a page.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use lab::findings::Findings;
use lab::networks::sweeps::{self, Measured, Measurer, Sweep, SweepFolder, counts, survey};
use serde::Serialize;

use super::PlanArgs;
use crate::error::{Error, Result};
use crate::output::{Directory, print_aligned, write_file};
use crate::{output, plan, progress};

/// Gather the finished runs of a sweep
///
/// Writes points.csv and points.npz (a row per run), means over seeds with intervals, a figure for every axis, best-matching
/// steps with error bars, the time to quality, and index.html with all of them. Read-outs are fitted where a run has none yet.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  iclab sweep collect experiments/sweeps/miniature.toml --out miniature\n  \
                        iclab sweep collect experiments/sweeps/widths.toml --out widths --prompts 1280"
)]
pub struct CollectArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Directory to write; files of an older one there are replaced, your own are left alone
    #[arg(long)]
    out: PathBuf,
    /// Prompts that layers and tests are measured on
    #[arg(long, default_value_t = 640, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    prompts: u32,
}

/// What a collection was made from.
#[derive(Serialize)]
struct CollectPlan<'a> {
    command: &'static str,
    prompts: u32,
    collected: Vec<usize>,
    #[serde(flatten)]
    sweep: &'a Sweep,
}

/// Runs the command.
pub fn run(args: &CollectArgs) -> Result<()> {
    let start = Instant::now();
    let folder = args.plan.open()?;
    let directory = Directory::begin(&args.out)?;
    let measured = measure(args, &folder)?;
    let sweep = &folder.sweep;
    let outcome = sweeps::outcome(sweep, &measured);
    let title = format!("Sweep {}", sweep.name);
    let points = outcome.tables[0].clone();
    let (finished, all) = (measured.len(), sweep.points.len());
    let summary = format!("{} {finished} of {all} points are finished and shown here.", sweep.about);
    let findings = Findings {
        analysis: "sweep".into(),
        title: title.clone(),
        summary: summary.clone(),
        answer: sweeps::answer(sweep, &measured),
        notes: unfinished(finished, all).into_iter().collect(),
        claims: outcome.claims,
        figures: outcome.figures,
        tables: outcome.tables,
        seconds: start.elapsed().as_secs_f64(),
        ..Findings::default()
    };
    let plan = CollectPlan {
        command: "sweep collect",
        prompts: args.prompts,
        collected: measured.iter().map(|run| run.point).collect(),
        sweep,
    };
    let about = report::About {
        title,
        purpose: summary,
        command: format!("iclab sweep collect PLAN --prompts {}", args.prompts),
        prompts: args.prompts as usize,
        seconds: findings.seconds,
        plan_hash: plan::hash(&plan),
        machine: output::machine(),
        ..report::About::default()
    };
    report::write(std::slice::from_ref(&findings), &about, &directory.path())?;
    write_file(&directory.path().join("points.csv"), report::table_csv(&points).as_bytes())?;
    sweeps::write_arrays(sweep, &measured, &directory.path().join("points.npz"))?;
    plan::write(&plan, &directory.path())?;
    directory.finish()?;
    findings.tables.iter().skip(1).for_each(print_aligned);
    println!("{}", args.out.join("index.html").display());
    Ok(())
}

/// Every finished point, measured; there must be one.
fn measure(args: &CollectArgs, folder: &SweepFolder) -> Result<Vec<Measured>> {
    let (sweep, count) = (&folder.sweep, folder.sweep.points.len());
    let bar = progress::bar(count);
    let tell = |what: &str| bar.set_message(what.to_string());
    let mut bench = Measurer::new(args.prompts as usize, &tell);
    let mut measured = Vec::new();
    for point in 0..count {
        measured.extend(bench.measure(sweep, point, &folder.runs)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if measured.is_empty() {
        let (seen, _) = survey(folder);
        return Err(Error::content(
            &folder.plan,
            format!(
                "no point is finished ({}); accepted: a sweep of which at least one run is",
                counts(&seen)
            ),
        ));
    }
    unfinished(measured.len(), count).into_iter().for_each(|note| eprintln!("note: {note}"));
    Ok(measured)
}

/// What a reader must know when points are missing.
fn unfinished(finished: usize, all: usize) -> Option<String> {
    (finished < all).then(|| format!("{finished} of {all} points are finished, and only those are collected"))
}
