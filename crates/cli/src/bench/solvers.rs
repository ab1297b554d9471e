//! `iclab bench solvers`: whole trajectories of the classical solvers.

use std::time::Instant;

use clap::Args;
use lab::{Learner, Prompts, Seed, Steps, Task};
use serde_json::json;

use super::{RecordArgs, Rounds, median, record};
use crate::error::Result;

#[derive(Args)]
#[command(
    after_help = "Example:\n  iclab bench solvers --json --out benches/runs/2026-01-31-laptop/solvers.json"
)]
pub struct SolversArgs {
    /// Dimensions of the inputs; the paper has 20
    #[arg(long, value_delimiter = ',', default_value = "20,50,100,200",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    dims: Vec<u32>,
    /// Times each part is run; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    #[command(flatten)]
    record: RecordArgs,
}

/// What is timed: its name, the learner, its steps. The first three are the paper's tables.
const PARTS: [(&str, &str, &str); 5] = [
    ("newton", "newton", "1..=23"),
    ("gd", "gd", "1,50..=1300/50"),
    ("gd-powers", "gd", "pow2:0..=12"),
    ("cg", "cg", "1..=25"),
    ("bfgs", "bfgs", "1..=25"),
];

/// Prompts and positions at a dimension: the paper's up to 20, then twice as many positions as dimensions, and fewer prompts,
/// so that a plain batched program, which keeps every S of every prefix, finds room.
fn size(dim: usize) -> (usize, usize) {
    match dim {
        0..=20 => (320, 41),
        21..=50 => (64, 2 * dim + 1),
        51..=100 => (16, 2 * dim + 1),
        _ => (4, 2 * dim + 1),
    }
}

pub fn run(args: &SolversArgs) -> Result<()> {
    let bar = crate::progress::bar(PARTS.len() * args.dims.len() + 1);
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    let mut tables = None; // the paper's, all three
    for dim in args.dims.iter().map(|&dim| dim as usize) {
        let (count, points) = size(dim);
        let prompts = Task::new("linear", "gaussian", dim, points)?.sample(Seed(0), "eval", 0, count);
        for (name, learner, steps) in PARTS {
            bar.set_message(format!("{name} at d = {dim}"));
            let (learner, steps) = (lab::solvers::build(learner)?, Steps::parse(steps)?);
            let seconds = median(&Rounds::exactly(args.repeat).time(|| {
                learner.trajectory(&prompts, &steps)?;
                Ok(())
            })?);
            if dim == 20 && PARTS[..3].iter().any(|part| part.0 == name) {
                *tables.get_or_insert(0.0) += seconds;
            }
            rows.push(json!({
                "solver": name, "dim": dim, "prompts": count, "positions": points, "steps": steps.to_string(),
                "seconds": seconds,
            }));
            lines.push(format!(
                "d = {dim:<4} {name:<10} {count:>4} × {points:<3} {:>3} steps to {:<5} {:>10.1} ms",
                steps.len(),
                steps.as_slice().last().copied().unwrap_or(0),
                seconds * 1e3
            ));
            bar.inc(1);
        }
    }
    let mut found = json!({"repeat": args.repeat, "parts": rows});
    if let Some(tables) = tables {
        bar.set_message("the paper's tables, each step count from zero");
        let from_zero = recomputed()?;
        found["paper_tables_seconds"] = json!(tables);
        found["each_step_count_from_zero_seconds"] = json!(from_zero);
        lines.push(format!(
            "the paper's three tables: {tables:.3} s; each step count from zero by the same code: {from_zero:.0} s"
        ));
    }
    bar.finish_and_clear();
    args.record.keep(&record("solvers", found), || lines.join("\n"))
}

/// Seconds that the paper's tables take when every step count starts again from zero and GD is iterated; measured on a few
/// prompts and scaled up.
fn recomputed() -> Result<f64> {
    let (few, (count, points)) = (2, size(20));
    let sample = Task::new("linear", "gaussian", 20, points)?.sample(Seed(0), "eval", 0, few);
    let each = |learner: &dyn Learner, prompts: &Prompts, steps: Steps| -> Result<()> {
        for &step in steps.as_slice() {
            learner.trajectory(prompts, &Steps::single(step))?;
        }
        Ok(())
    };
    let start = Instant::now();
    for (_, learner, steps) in &PARTS[..3] {
        let learner = if *learner == "gd" { "gd:form=iterated" } else { learner };
        each(&*lab::solvers::build(learner)?, &sample, Steps::parse(steps)?)?;
    }
    Ok(start.elapsed().as_secs_f64() * count as f64 / few as f64)
}
