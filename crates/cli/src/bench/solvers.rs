//! `iclab bench solvers`: the paper's tables of Newton and GD.

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
    /// Times each part is run; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    #[command(flatten)]
    record: RecordArgs,
}

pub fn run(args: &SolversArgs) -> Result<()> {
    let prompts = Task::new("linear", "gaussian", 20, 41)?.sample(Seed(0), "eval", 0, 320);
    let parts = [
        ("Newton, steps 1…23", "newton", "1..=23"),
        ("GD, steps 1, 50, …, 1300", "gd", "1,50..=1300/50"),
        ("GD, steps 2⁰…2¹²", "gd", "pow2:0..=12"),
    ];
    let bar = crate::progress::bar(parts.len() + 1);
    let (mut rows, mut seconds) = (Vec::new(), Vec::new());
    for (label, name, steps) in parts {
        bar.set_message(label);
        let (learner, steps) = (lab::solvers::build(name)?, Steps::parse(steps)?);
        let part = median(&Rounds::exactly(args.repeat).time(|| {
            learner.trajectory(&prompts, &steps)?;
            Ok(())
        })?);
        rows.push(json!({"part": label, "learner": name, "steps": steps.to_string(), "seconds": part}));
        seconds.push((label, part));
        bar.inc(1);
    }
    let total: f64 = seconds.iter().map(|(_, seconds)| seconds).sum();
    bar.set_message("the same, each step count from zero");
    let from_zero = recomputed(&prompts)?;
    bar.finish_and_clear();
    // In Python, each step count recomputed from zero, on two cores: 0.36 s per Newton iteration and 0.5 s per GD step.
    let units = |text: &str| Steps::parse(text).map(|s| s.as_slice().iter().sum::<u64>() as f64);
    let python = 0.36 * units("1..=23")? + 0.5 * (units("1,50..=1300/50")? + units("pow2:0..=12")?);
    let record = record(
        "solvers",
        json!({
            "prompts": 320, "positions": 41, "repeat": args.repeat, "parts": rows, "total_seconds": total,
            "each_step_count_from_zero_seconds": from_zero, "ratio_to_from_zero": from_zero / total,
            "python_seconds_quoted": python, "ratio_to_python_quoted": python / total,
        }),
    );
    args.record.keep(&record, || {
        let mut lines: Vec<String> =
            seconds.iter().map(|(label, seconds)| format!("{label:<40} {seconds:>9.3} s")).collect();
        lines.push(format!("{:<40} {total:>9.3} s", "all three tables"));
        let compared = |label: &str, seconds: f64| {
            format!("{label:<40} {seconds:>9.0} s  ({:.0} times as long)", seconds / total)
        };
        lines.push(compared("each step count from zero, same code", from_zero));
        lines.push(compared("authors' way in Python, as quoted", python));
        lines.join("\n")
    })
}

/// Seconds that the same tables take when every step count starts again from zero and GD is iterated; measured on a
/// few prompts and scaled up.
fn recomputed(prompts: &Prompts) -> Result<f64> {
    let few = 2;
    let sample = Prompts::new(
        prompts.xs.slice(ndarray::s![..few, .., ..]).to_owned(),
        prompts.ys.slice(ndarray::s![..few, ..]).to_owned(),
    )?;
    let each = |learner: &dyn Learner, steps: Steps| -> Result<()> {
        for &step in steps.as_slice() {
            learner.trajectory(&sample, &Steps::single(step))?;
        }
        Ok(())
    };
    let start = Instant::now();
    each(&*lab::solvers::build("newton")?, Steps::parse("1..=23")?)?;
    let gd = lab::solvers::build("gd:form=iterated")?;
    each(&*gd, Steps::parse("1,50..=1300/50")?)?;
    each(&*gd, Steps::parse("pow2:0..=12")?)?;
    Ok(start.elapsed().as_secs_f64() * prompts.count() as f64 / few as f64)
}
