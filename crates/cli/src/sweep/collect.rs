//! `iclab sweep collect`: the finished runs of a sweep as one table, one file of arrays, figures and a page.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use lab::data::npz::{self, Values};
use lab::findings::claims::Findings;
use lab::networks::sweeps::{self, Bench, Measured, Sweep};
use serde::Serialize;
use toml::Value;

use super::survey::{counts, survey};
use super::{Opened, PlanArgs};
use crate::error::{Error, Result};
use crate::output::{Directory, print_aligned, write_file};
use crate::{plan, progress, reproduce};

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
    /// Directory to write; an older one there is replaced
    #[arg(long)]
    out: PathBuf,
    /// Prompts that layers and tests are measured on
    #[arg(long, default_value_t = 640, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    prompts: u32,
}

/// What a collection was made from.
#[derive(Serialize)]
struct Plan<'a> {
    command: &'static str,
    prompts: u32,
    collected: Vec<usize>,
    #[serde(flatten)]
    sweep: &'a Sweep,
}

/// Runs the command.
pub fn run(args: &CollectArgs) -> Result<()> {
    let start = Instant::now();
    let opened = args.plan.open()?;
    let directory = Directory::begin(&args.out)?;
    let measured = measure(args, &opened)?;
    let sweep = &opened.sweep;
    let outcome = sweeps::outcome(sweep, &measured);
    let title = format!("Sweep {}", sweep.name);
    let points = outcome.tables[0].clone();
    let findings = Findings {
        analysis: "sweep".into(),
        title: title.clone(),
        summary: sweep.about.clone(),
        claims: outcome.claims,
        figures: outcome.figures,
        tables: outcome.tables,
        seconds: start.elapsed().as_secs_f64(),
        ..Findings::default()
    };
    let plan = Plan {
        command: "sweep collect",
        prompts: args.prompts,
        collected: measured.iter().map(|run| run.point).collect(),
        sweep,
    };
    let about = report::About {
        title,
        purpose: format!(
            "{} {} of {} points are finished and shown here.",
            sweep.about,
            measured.len(),
            sweep.points.len()
        ),
        command: format!("iclab sweep collect PLAN --prompts {}", args.prompts),
        prompts: args.prompts as usize,
        seconds: findings.seconds,
        plan_hash: plan::hash(&plan),
        machine: reproduce::machine(),
        ..report::About::default()
    };
    report::write(std::slice::from_ref(&findings), &about, directory.path())?;
    write_file(&directory.path().join("points.csv"), report::table_csv(&points).as_bytes())?;
    arrays(sweep, &measured, &directory.path().join("points.npz"))?;
    plan::write(&plan, directory.path())?;
    directory.finish()?;
    findings.tables.iter().skip(1).for_each(print_aligned);
    println!("{}", args.out.join("index.html").display());
    Ok(())
}

/// Every finished point, measured; there must be one.
fn measure(args: &CollectArgs, opened: &Opened) -> Result<Vec<Measured>> {
    let (sweep, count) = (&opened.sweep, opened.sweep.points.len());
    let bar = progress::bar(count);
    let tell = |what: &str| bar.set_message(what.to_string());
    let mut bench = Bench::new(args.prompts as usize, &tell);
    let mut measured = Vec::new();
    for point in 0..count {
        measured.extend(bench.measure(sweep, point, &opened.runs)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if measured.is_empty() {
        let (seen, _) = survey(opened);
        return Err(Error::content(
            &opened.plan,
            format!(
                "no point is finished ({}); accepted: a sweep of which at least one run is",
                counts(&seen)
            ),
        ));
    }
    if measured.len() < count {
        eprintln!("note: {} of {count} points are finished, and only those are collected", measured.len());
    }
    Ok(measured)
}

/// The same numbers as arrays, a row per run; rows of different lengths end with NaN.
fn arrays(sweep: &Sweep, measured: &[Measured], path: &Path) -> Result<()> {
    let count = measured.len();
    let mut all: Vec<(String, Vec<usize>, Vec<f64>)> = Vec::new();
    for (i, field) in sweep.fields.iter().enumerate() {
        let number = |run: &Measured| match &sweep.points[run.point].values[i] {
            Value::Integer(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            _ => None,
        };
        // What is not a number is in points.csv, beside the same numbers of points.
        if let Some(values) = measured.iter().map(number).collect::<Option<Vec<f64>>>() {
            all.push((field.replace('.', "_"), vec![count], values));
        }
    }
    let mut scalar = |name: &str, value: &dyn Fn(&Measured) -> f64| {
        all.push((name.into(), vec![count], measured.iter().map(value).collect()));
    };
    scalar("mean_loss", &|run| run.result.mean_loss);
    scalar("error_over_d", &|run| run.result.last_error_over_d);
    scalar("steps_to_quality", &|run| run.reached.map_or(f64::NAN, |r| r.step as f64));
    scalar("seconds_to_quality", &|run| run.reached.map_or(f64::NAN, |r| r.seconds));
    scalar("newton_slope", &|run| run.layers.as_ref().map_or(f64::NAN, |l| l.newton_slope));
    scalar("gd_slope", &|run| run.layers.as_ref().map_or(f64::NAN, |l| l.gd_slope));
    scalar("sime_with_exact", &|run| run.layers.as_ref().map_or(f64::NAN, |l| l.like_exact));
    let mut rows = |name: &str, row: &dyn Fn(&Measured) -> Vec<f64>| {
        let rows: Vec<Vec<f64>> = measured.iter().map(row).collect();
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        let padded = rows.into_iter().flat_map(|mut row| {
            row.resize(width, f64::NAN);
            row
        });
        all.push((name.into(), vec![count, width], padded.collect()));
    };
    rows("errors", &|run| run.result.errors.clone());
    rows("tested", &|run| run.tested.clone());
    rows("newton_steps", &|run| run.layers.as_ref().map_or(vec![], |l| l.newton.clone()));
    rows("gd_steps", &|run| run.layers.as_ref().map_or(vec![], |l| l.gd.clone()));
    rows("curve_step", &|run| run.rows.iter().map(|row| row.step as f64).collect());
    rows("curve_loss", &|run| run.rows.iter().map(|row| row.loss).collect());
    let points: Vec<u64> = measured.iter().map(|run| run.point as u64).collect();
    let shape = [count];
    let mut written: Vec<(&str, &[usize], Values)> = vec![("point", &shape, Values::Whole(&points))];
    written.extend(all.iter().map(|(name, shape, values)| (name.as_str(), &shape[..], Values::Real(values))));
    Ok(npz::write(path, &written)?)
}
