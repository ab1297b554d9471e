//! `iclab probe --state`: what the layers of a network hold of what an algorithm would.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use lab::states::ReadOutKind;
use lab::states::plan::{COMMAND, Plan, Wish};
use report::About;

use crate::error::Result;
use crate::output::{Directory, print_aligned};
use crate::probe::ProbeArgs;
use crate::{plan, progress};

/// Prompts to fit to when nobody says how many.
const PROMPTS: u32 = 1024;

/// What is asked of the states.
#[derive(Args)]
#[command(next_help_heading = "Options of --state")]
pub struct StateArgs {
    /// The algorithm whose quantities are looked for [default: newton:start=identity, or a construction's own]
    #[arg(long, value_name = "SOLVER", requires = "state")]
    algorithm: Option<String>,
    /// After how many of its iterations [default: 0..=12, or those of a construction]
    #[arg(long, requires = "state")]
    steps: Option<String>,
    /// What is fitted
    #[arg(long, default_value = "affine", value_parser = plan::choices(&ReadOutKind::ALL), requires = "state")]
    read_out: ReadOutKind,
    /// Inputs that read-outs are judged on but not fitted to [default: skewed:kappa=10]
    #[arg(long, value_name = "INPUTS", requires = "state")]
    other_inputs: Option<String>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0, requires = "state")]
    seed: u64,
    /// Take everything but --out from the plan.toml of an earlier probe of states
    #[arg(long, conflicts_with = "run", requires = "state")]
    plan: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &ProbeArgs) -> Result<()> {
    let start = Instant::now();
    let (asked, out) = (&args.states, args.out.clone().unwrap_or_default());
    let (plan, notes) = match &asked.plan {
        Some(path) => (plan::read::<Plan>(path, COMMAND)?, Vec::new()),
        None => Plan::new(Wish {
            network: args.run.clone().unwrap_or_default(),
            algorithm: asked.algorithm.clone(),
            steps: asked.steps.clone(),
            kind: asked.read_out,
            prompts: args.prompts.unwrap_or(PROMPTS) as usize,
            other_inputs: asked.other_inputs.clone(),
            seed: asked.seed,
        })?,
    };
    let directory = Directory::begin(&out)?;
    let spinner = progress::spinner("reading the network");
    let mut found = plan.run(&|what| spinner.set_message(what.to_string()))?;
    found.notes.splice(0..0, notes);
    spinner.suspend(|| found.notes.iter().for_each(|note| eprintln!("note: {note}")));
    let (mut findings, result) = (found.findings(&plan), found.json(&plan));
    findings.seconds = start.elapsed().as_secs_f64();
    let about = About {
        command: "iclab probe --state --plan plan.toml --out DIR".into(),
        seed: plan.task.seed,
        prompts: plan.prompts[0],
        ..About::default()
    };
    plan::finish(directory, &plan, &findings, &result, about, |_| Ok(()))?;
    spinner.finish_and_clear();
    if args.json {
        println!("{result:#}");
        return Ok(());
    }
    println!("{}", found.answer());
    print_aligned(&found.states.controls());
    println!("{}", out.join("index.html").display());
    Ok(())
}
