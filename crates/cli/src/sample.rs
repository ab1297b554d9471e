//! `iclab sample`: prompts to a file.

use std::path::PathBuf;

use clap::Args;
use lab::Seed;
use lab::data::npz;
use lab::findings::numbers::counted;

use crate::error::Result;
use crate::progress;
use crate::task::TaskArgs;

/// Sample prompts to a file
///
/// Writes .npz with `xs` [b,n,d] and `ys` [b,n], float64, and `fingerprint` [b], which predictions for these prompts carry on.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  iclab sample --function linear --inputs gaussian --dim 20 --points 41 --prompts 320 --seed 7 --out p.npz\n  \
                        iclab sample --inputs skewed:kappa=100 --out ill.npz\n  \
                        iclab sample --function noisy-linear:sigma=0.1 --out noisy.npz"
)]
pub struct SampleArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// How many prompts
    #[arg(long, default_value_t = 320, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    prompts: u32,
    /// Index of the first prompt: `--first 320 --prompts 320` continues where 320 prompts ended
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// File to write
    #[arg(long)]
    out: PathBuf,
}

/// Runs the command.
pub fn run(args: &SampleArgs) -> Result<()> {
    let task = args.task.sampled().task()?;
    let spinner = progress::spinner(&format!("sampling {} prompts", args.prompts));
    let prompts = task.sample(Seed(args.task.seed), "eval", args.first, args.prompts as usize);
    spinner.finish_and_clear();
    npz::write_prompts(&args.out, &prompts)?;
    let (b, n, d) = prompts.xs.dim();
    let prompts = counted(b, "prompt", "prompts");
    let points = counted(n, "point", "points");
    let dimensions = counted(d, "dimension", "dimensions");
    println!("{}: {prompts} of {points} in {dimensions}", args.out.display());
    Ok(())
}
