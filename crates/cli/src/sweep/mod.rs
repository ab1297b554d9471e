//! `iclab sweep`: many runs from one plan, on this machine or on a SLURM cluster.
//!
//! A sweep has a directory beside its runs, `runs/sweep-NAME-HASH/`, with the plan written out (`plan.toml`), the logs of
//! its jobs and what was collected. Everything else is in the run directories, so that no state can be lost or disagree.

mod cancel;
mod collect;
mod local;
mod slurm;
mod status;
mod task;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use lab::networks::sweeps::SweepFolder;

use crate::device::DeviceArgs;
use crate::error::Result;

/// Train every point of a plan
///
/// A plan is a base experiment and axes over its fields. Every point is an ordinary run, named by the hash of its
/// experiment: finished ones are skipped, interrupted ones go on from their checkpoints, failed ones wait for --retry.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  iclab sweep experiments/sweeps/miniature.toml\n  \
                  iclab sweep experiments/sweeps/r1-seeds.toml --device cuda --jobs 2\n  \
                  iclab sweep experiments/sweeps/widths.toml --on slurm\n  \
                  iclab sweep status experiments/sweeps/widths.toml\n  \
                  iclab sweep collect experiments/sweeps/widths.toml --out widths\n\n\
                  Ctrl-C stops after saving checkpoints; the same command goes on.\n\
                  Exit code: 0 trained, 2 an error or a failed point, 130 interrupted and saved."
)]
pub struct SweepArgs {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

/// What else can be done with a sweep.
#[derive(Subcommand)]
enum Command {
    Status(status::StatusArgs),
    Cancel(cancel::CancelArgs),
    Collect(collect::CollectArgs),
    #[command(hide = true)]
    Task(task::TaskArgs),
}

/// Where runs are trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum On {
    /// By this process
    Local,
    /// As array jobs of a SLURM cluster
    Slurm,
}

/// How to train the points of a plan.
#[derive(Args)]
struct RunArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Where runs are trained
    #[arg(long, value_enum, default_value = "local")]
    on: On,
    /// Runs at once [default: on the cores one each, up to 8; on a CUDA device 4; on a cluster its 'throttle']
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    jobs: Option<u32>,
    /// Train failed points again
    #[arg(long)]
    retry: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Which sweep.
#[derive(Args)]
struct PlanArgs {
    /// Plan of the sweep
    #[arg(required = true)]
    plan: Option<PathBuf>,
    /// Directory of all runs
    #[arg(long, default_value = "runs")]
    runs: PathBuf,
}

impl PlanArgs {
    fn open(&self) -> Result<SweepFolder> {
        let plan = self.plan.clone().unwrap_or_default();
        Ok(SweepFolder::open(&plan, &self.runs)?)
    }
}

/// Runs the command.
pub fn run(args: &SweepArgs) -> Result<()> {
    match &args.command {
        Some(Command::Status(args)) => status::run(args),
        Some(Command::Cancel(args)) => cancel::run(args),
        Some(Command::Collect(args)) => collect::run(args),
        Some(Command::Task(args)) => task::run(args),
        None => {
            let folder = args.run.plan.open()?;
            match args.run.on {
                On::Local => local::run(&args.run, &folder),
                On::Slurm => slurm::run(&args.run, &folder),
            }
        }
    }
}
