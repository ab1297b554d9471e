//! `iclab predict`: a learner's predictions on prompts from a file.

use std::path::PathBuf;

use clap::Args;
use lab::Steps;
use lab::data::npz;
use lab::findings::numbers::counted;
use lab::learners::task::task_of;
use lab::learners::{self, Resolved};
use lab::networks::experiment::TaskSpec;

use crate::device::EvaluationArgs;
use crate::error::Result;
use crate::progress;

/// Run a learner on prompts and write its predictions
///
/// Writes .npz with `steps` [s], `values` [s,b,n] (float64), `diverged` [s], the number of prompts it has left for good at
/// each step, and `fingerprint` [b], which says for which prompts.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab predict newton --steps 0..=24 --prompts p.npz --out o.npz\n  \
                        iclab predict gd:eta=0.01 --steps pow2:0..=12 --prompts p.npz --out gd.npz\n  \
                        iclab predict bfgs:line_search=armijo --prompts p.npz --out bfgs.npz\n  \
                        iclab predict construct:w.safetensors --prompts p.npz --out constructed.npz")]
pub struct PredictArgs {
    /// Learner, with settings as NAME:setting=value (see `iclab list solvers`), construct:WEIGHTS.safetensors,
    /// run:NAME (a read-out per layer) or run:NAME@own (its own output), NAME a directory, a shipped network or an experiment
    learner: String,
    /// Steps to record: 5, 1,50,100, 0..=24, 50..=1300/50, pow2:0..=12; the learner's own when left out
    #[arg(long)]
    steps: Option<String>,
    /// File with `xs` [b,n,d] and `ys` [b,n]
    #[arg(long)]
    prompts: PathBuf,
    #[command(flatten)]
    device: EvaluationArgs,
    /// File to write
    #[arg(long)]
    out: PathBuf,
}

/// Runs the command.
pub fn run(args: &PredictArgs) -> Result<()> {
    args.device.apply()?;
    let prompts = npz::read_prompts(&args.prompts)?;
    let asked =
        TaskSpec { dim: prompts.dim(), points: prompts.points(), ..task_of(&args.learner)?.or_usual() };
    let Resolved { learner, notes } = learners::build_for(&args.learner, Some(&asked), &|_| ())?;
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    let steps = match &args.steps {
        Some(text) => Steps::parse(text)?,
        None => learner.default_steps(),
    };
    let spinner = progress::spinner(&format!("{} on {} prompts", learner.id(), prompts.count()));
    let found = learner.trajectory(&prompts, &steps)?;
    spinner.finish_and_clear();
    npz::write_predictions(&args.out, &found, &prompts)?;
    let left = found.outcomes.iter().map(|o| o.diverged).max().unwrap_or(0);
    let prompts = |count| counted(count, "prompt", "prompts");
    let note = if left > 0 { format!("; diverged on up to {}", prompts(left)) } else { String::new() };
    let (_, b, n) = found.values.dim();
    let (on, points) = (prompts(b), counted(n, "point", "points"));
    println!("{}: {} at steps {steps} on {on} of {points}{note}", args.out.display(), learner.id());
    Ok(())
}
