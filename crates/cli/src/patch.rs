//! `iclab patch`: where in a network what it has read lives.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use engine::cuda::CudaError;
use lab::patching::plan::{Plan, Wish};
use lab::patching::{Donor, Part};
use report::About;

use crate::device::RunArgs;
use crate::error::Result;
use crate::output::{Directory, print_aligned};
use crate::{plan, progress};

/// Replace activations of a network by those of another prompt, layer by layer
///
/// The network answers a query; then an activation is taken from a donor prompt, at all tokens of a role or at one token, and the
/// rest is computed from there. How far the answer follows the donor's says what those tokens hold at that layer.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  iclab patch r1 --out labels     where labels live: in the y tokens, then in the query\n  \
                        iclab patch r1 --donor inputs --out inputs\n  \
                        iclab patch r1 --part attention --prompts 32 --out heads\n  \
                        iclab patch miniature --by-token --out tokens     a map of layers and tokens\n  \
                        iclab patch r1 --by-token --prompts 256 --device cuda --out tokens"
)]
pub struct PatchArgs {
    /// Directory or name of a run, name of a shipped network, or checkpoint: a Transformer
    #[arg(required_unless_present = "plan")]
    network: Option<String>,
    /// How donor prompts differ
    #[arg(long, default_value = "labels", value_parser = plan::choices(&Donor::ALL))]
    donor: Donor,
    /// What is taken from the donor
    #[arg(long, default_value = "stream", value_parser = plan::choices(&Part::ALL))]
    part: Part,
    /// Patch every token by itself: a map of layers and tokens
    #[arg(long)]
    by_token: bool,
    /// Pairs before the query; 3d/2 when left out
    #[arg(long)]
    pairs: Option<usize>,
    /// How many prompts
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    prompts: u32,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    device: RunArgs,
    /// Take everything but --out and --device from the plan.toml of an earlier map
    #[arg(long, conflicts_with = "network")]
    plan: Option<PathBuf>,
    /// Directory to write; files of an older map there are replaced, your own are left alone
    #[arg(long)]
    out: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &PatchArgs) -> Result<()> {
    let start = Instant::now();
    let (plan, notes) = match &args.plan {
        Some(path) => (plan::read::<Plan>(path, "patch")?, Vec::new()),
        None => Plan::new(Wish {
            network: args.network.clone().unwrap_or_default(),
            donor: args.donor,
            part: args.part,
            by_token: args.by_token,
            pairs: args.pairs,
            prompts: args.prompts as usize,
            seed: args.seed,
        })?,
    };
    let (chosen, may_fall_back) = args.device.choose()?;
    let directory = Directory::begin(&args.out)?;
    let spinner = progress::spinner("reading the network");
    let tell = |what: &str| spinner.set_message(format!("{what} on {}", chosen.device.describe()));
    let mut found = match plan.run_on(&chosen.device, &tell) {
        Err(lab::Error::Cuda(CudaError::Unsupported(why))) if may_fall_back => {
            let mut found = plan.run(&|what| spinner.set_message(what.to_string()))?;
            found
                .notes
                .push(format!("patched on the CPU, as the CUDA device cannot run this network: {why}"));
            found
        }
        found => found?,
    };
    found.notes.splice(0..0, notes);
    spinner.suspend(|| found.notes.iter().for_each(|note| eprintln!("note: {note}")));
    let (mut findings, result) = (found.findings(), found.json(&plan));
    findings.seconds = start.elapsed().as_secs_f64();
    let about = About {
        command: "iclab patch --plan plan.toml --out DIR".into(),
        seed: plan.task.seed,
        prompts: plan.prompts,
        ..About::default()
    };
    plan::finish(directory, &plan, &findings, &result, about, |_| Ok(()))?;
    spinner.finish_and_clear();
    if args.json {
        println!("{result:#}");
        return Ok(());
    }
    println!("{}", found.answer());
    if !plan.by_token {
        print_aligned(&found.maps.table());
    }
    println!("{}", args.out.join("index.html").display());
    Ok(())
}
