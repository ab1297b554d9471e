//! `iclab show`: what bears a name, where it lies, and what to type next.

mod networks;
mod rows;

use std::path::PathBuf;

use clap::Args;
use lab::networks::RUNS;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::output::print_json;
use crate::{names, terminal};

/// Show what is known of a model, run, experiment, algorithm or analysis, and what to type next
///
/// Says what it is, its task and recipe, whether it is finished, where it lies and what to type next. Where several things
/// bear the name, all are shown.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  iclab show r1\n  iclab show miniature\n  iclab show newton\n  iclab show F3\n  iclab show mine.safetensors\n  \
                        iclab show miniature --toml > mine.toml      an experiment to begin with"
)]
pub struct ShowArgs {
    /// A name, the directory of a run, or a checkpoint
    name: String,
    /// Directory of all runs
    #[arg(long, default_value = RUNS)]
    runs: PathBuf,
    /// Print the experiment alone, as a file that iclab train takes
    #[arg(long, conflicts_with = "json")]
    toml: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One thing that bears the name.
#[derive(Serialize)]
pub struct Shown {
    /// `run`, `solver`, …
    kind: &'static str,
    name: String,
    /// What it is.
    about: String,
    /// What is known of it, by a word each.
    facts: Vec<(&'static str, String)>,
    /// Commands that make sense now.
    next: Vec<String>,
    /// The experiment it is or was trained by.
    #[serde(skip_serializing_if = "Option::is_none")]
    experiment: Option<String>,
}

/// Runs the command.
pub fn run(args: &ShowArgs) -> Result<()> {
    let mut found = networks::find(&args.name, &args.runs)?;
    found.extend(rows::find(&args.name));
    if found.is_empty() {
        return Err(unknown(&args.name));
    }
    if args.toml {
        let Some(text) = found.iter().find_map(|shown| shown.experiment.as_deref()) else {
            let why = format!("{} is a {}, which no experiment describes", args.name, found[0].kind);
            return Err(Error::Usage(format!(
                "{why}; accepted with --toml: an experiment, a run or a model"
            )));
        };
        print!("{text}");
        return Ok(());
    }
    if args.json {
        return print_json(&found);
    }
    let texts: Vec<String> = found.iter().map(|shown| shown.text(terminal::width())).collect();
    print!("{}", texts.join("\n"));
    Ok(())
}

fn unknown(name: &str) -> Error {
    let known = names::everything();
    let hint = lab::hint(name, known.iter().map(|(known, _)| known.as_str()));
    let hint = if hint.starts_with("did you mean") { format!("{hint} ") } else { String::new() };
    Error::Usage(format!(
        "nothing bears the name '{name}'; {hint}accepted: a model (iclab models), a run (iclab runs), a checkpoint, or \
         an algorithm, function class, input distribution, analysis or experiment (iclab list)"
    ))
}

/// Columns of the words before facts.
const WORD: usize = 10;

impl Shown {
    fn text(&self, width: usize) -> String {
        let mut text =
            report::lines(&format!("{}: {} {}", self.name, self.kind, self.about), width).join("\n");
        text.push('\n');
        for (word, fact) in &self.facts {
            for (i, line) in report::lines(fact, width - WORD - 2).into_iter().enumerate() {
                text += &format!("  {:<WORD$}{line}\n", if i == 0 { word } else { "" });
            }
        }
        // Commands are to be copied: they are not broken.
        for (i, command) in self.next.iter().enumerate() {
            text += &format!("  {:<WORD$}{command}\n", if i == 0 { "next" } else { "" });
        }
        if let (true, Some(experiment)) = (self.kind == "experiment", &self.experiment) {
            text += &format!("\n{experiment}");
        }
        text
    }
}
