//! The command line of iclab: which algorithm does a sequence model run when it learns in context?
//!
//! One verb per file. Exit codes: 0 done, 1 a check fails (with --strict, a claim), 2 an error,
//! 130 interrupted, and what was done is saved.

// Doc comments here are help texts first: shapes such as [b,n,d] stay as they are.
#![allow(rustdoc::broken_intra_doc_links)]

#[macro_use]
mod say;

mod bench;
mod claims;
mod compare;
mod construct;
mod device;
mod doctor;
mod error;
mod export;
mod fingerprint;
#[cfg(test)]
mod fuzz;
mod help;
mod import;
mod list;
mod models;
mod names;
mod output;
mod patch;
mod plan;
mod pool;
mod predict;
mod probe;
mod probe_state;
mod progress;
mod reproduce;
mod runs;
mod sample;
mod shell;
mod show;
mod signals;
mod supervisor;
mod sweep;
mod task;
mod terminal;
mod train;

use std::ffi::OsString;

use clap::{FromArgMatches, Parser, Subcommand};
use engine::text::plain;

use error::Result;

/// A laboratory for one question: which algorithm does a sequence model run when it learns in context?
///
/// Prompts go in, learners predict along their steps, pairs of trajectories are compared, claims and figures come out.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:
  iclab reproduce                            check the paper's statements, write report/index.html
  iclab models                               the trained networks that are shipped
  iclab compare newton gd --out newton-gd    how do two algorithms relate?
  iclab fingerprint run:r1 --out filters     which algorithm is a network?
  iclab construct newton --out w.safetensors
                                             weights that are Newton's iteration
  iclab list solvers                         what there is
  iclab train miniature                      train a network, about a minute on two cores
  iclab show miniature                       what is known of it, and what to type next
  iclab sweep experiments/sweeps/miniature.toml
                                             many runs, here or on a SLURM cluster
  iclab probe runs/NAME                      a read-out for every layer of it
  iclab patch r1 --out labels                where does it keep what it has read?
  iclab sample --prompts 320 --out p.npz     prompts for a model of your own …
  iclab compare file:mine.npz newton --prompts p.npz --out mine
                                             … and its predictions against Newton
  iclab doctor                               what this machine has; checks its GPU

Exit codes: 0 done, 1 a check fails (with --strict, a claim), 2 an error,
130 interrupted: what was done is saved, and the same command goes on."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Reproduce(reproduce::ReproduceArgs),
    Claims(claims::ClaimsArgs),
    Models(models::ModelsArgs),
    Compare(compare::CompareArgs),
    Fingerprint(fingerprint::FingerprintArgs),
    Construct(construct::ConstructArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Train(train::TrainArgs),
    Runs(runs::RunsArgs),
    Sweep(sweep::SweepArgs),
    Probe(probe::ProbeArgs),
    Patch(patch::PatchArgs),
    Sample(sample::SampleArgs),
    Predict(predict::PredictArgs),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Doctor(doctor::DoctorArgs),
    Bench(bench::BenchArgs),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

/// Runs the command line `arguments`, the first being the program's name; returns its exit code.
pub fn run(arguments: impl Iterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.collect();
    supervisor::remember(&arguments);
    let found = help::command().try_get_matches_from(help::arguments(arguments.into_iter()));
    let result = match found.and_then(|found| Cli::from_arg_matches(&found)) {
        Ok(cli) => run_command(cli.command),
        Err(error) => {
            say::keep(error.print());
            if error.use_stderr() {
                return 2;
            }
            Ok(true)
        }
    };
    match result.and_then(|held| say::finish().map(|()| held)) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error::Error::Interrupted(left)) => {
            eprintln!("unfinished: {left}");
            signals::INTERRUPTED
        }
        // The process that was watched has said why.
        Err(error::Error::Ended(code)) => code,
        Err(error) => {
            eprintln!("error: {}", plain(&error.to_string()));
            if error.is_of_device() && supervisor::is_watched() { supervisor::DEVICE_FAILED } else { 2 }
        }
    }
}

/// Answers the shell that asks for completions, if it is the shell that asks; the process then ends.
pub fn complete() {
    shell::complete();
}

/// Runs a command; true when it is done, and everything that was checked holds.
fn run_command(command: Command) -> Result<bool> {
    match command {
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Claims(args) => claims::run(&args),
        Command::Models(args) => models::run(&args),
        Command::Compare(args) => compare::run(&args).map(|()| true),
        Command::Fingerprint(args) => fingerprint::run(&args).map(|()| true),
        Command::Construct(args) => construct::run(&args).map(|()| true),
        Command::List(args) => list::run(&args).map(|()| true),
        Command::Show(args) => show::run(&args).map(|()| true),
        Command::Runs(args) => runs::run(&args).map(|()| true),
        Command::Train(args) => train::run(&args).map(|()| true),
        Command::Sweep(args) => sweep::run(&args).map(|()| true),
        Command::Probe(args) => probe::run(&args).map(|()| true),
        Command::Patch(args) => patch::run(&args).map(|()| true),
        Command::Sample(args) => sample::run(&args).map(|()| true),
        Command::Predict(args) => predict::run(&args).map(|()| true),
        Command::Import(args) => import::run(&args),
        Command::Export(args) => export::run(&args).map(|()| true),
        Command::Doctor(args) => doctor::run(&args),
        Command::Bench(args) => bench::run(&args).map(|()| true),
        Command::Completions(args) => shell::completions(&args).map(|()| true),
        Command::Man(args) => shell::man(&args).map(|()| true),
    }
}
