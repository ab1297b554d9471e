//! What can be typed in the place of an argument: algorithms, analyses, experiments, and the models and runs that are here.

use std::ffi::OsStr;
use std::path::Path;

use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use lab::analyses::ANALYSES;
use lab::data::{functions::FUNCTIONS, inputs::INPUTS};
use lab::networks::experiment::shipped;
use lab::networks::models::{self, NETWORKS};
use lab::networks::runs::PLAN;
use lab::networks::{RUNS, run_names};
use lab::solvers::SOLVERS;

/// Names, each with what it means.
type Names = Vec<(String, String)>;
/// A command, one of its arguments, the names it takes, and whether files may stand there too.
type Place = (&'static str, &'static str, fn() -> Names, bool);

const PLACES: &[Place] = &[
    ("compare", "a", learners, true),
    ("compare", "b", learners, true),
    ("fingerprint", "learner", learners, true),
    ("fingerprint", "against", learners, true),
    ("predict", "learner", learners, true),
    ("probe", "run", networks, true),
    ("export", "from", networks, true),
    ("train", "experiments", experiments, true),
    ("show", "name", everything, true),
    ("reproduce", "only", analyses, false),
    ("compare", "function", functions, false),
    ("compare", "inputs", inputs, false),
    ("fingerprint", "function", functions, false),
    ("fingerprint", "inputs", inputs, false),
    ("sample", "function", functions, false),
    ("sample", "inputs", inputs, false),
];
/// Words before a colon that are followed by a file.
const FILES: [&str; 3] = ["file", "construct", "run"];

/// The command with what is there in the places of its arguments.
pub fn add_to(mut root: Command) -> Command {
    for (command, argument, names, files) in PLACES {
        let completer = ArgValueCompleter::new(Completer { names: *names, files: *files });
        root = root.mut_subcommand(command, |of| of.mut_arg(argument, |arg| arg.add(completer)));
    }
    root
}

/// Completes names, then files.
struct Completer {
    names: fn() -> Names,
    files: bool,
}

impl ValueCompleter for Completer {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let Some(text) = current.to_str() else { return Vec::new() };
        let named = (self.names)().into_iter().filter(|(name, _)| name.starts_with(text));
        let mut found: Vec<CompletionCandidate> =
            named.map(|(name, about)| CompletionCandidate::new(name).help(Some(about.into()))).collect();
        if self.files {
            let split = text.split_once(':').filter(|(word, _)| FILES.contains(word));
            let (prefix, path) =
                split.map_or((String::new(), text), |(word, path)| (format!("{word}:"), path));
            let files = PathCompleter::any().complete(OsStr::new(path)).into_iter();
            found.extend(files.map(|file| file.add_prefix(&prefix)));
        }
        found
    }
}

/// Names of everything that `iclab show` can show.
pub fn everything() -> Names {
    let mut all = solvers();
    all.extend(analyses());
    all.extend(networks());
    all.extend(experiments());
    all.extend(functions());
    all.extend(inputs());
    all.sort();
    all.dedup_by(|one, other| one.0 == other.0);
    all
}

fn solvers() -> Names {
    SOLVERS.iter().map(|row| (row.name.into(), row.summary.into())).collect()
}

fn functions() -> Names {
    FUNCTIONS.iter().map(|row| (row.name.into(), row.summary.into())).collect()
}

fn inputs() -> Names {
    INPUTS.iter().map(|row| (row.name.into(), row.summary.into())).collect()
}

fn analyses() -> Names {
    ANALYSES.iter().map(|row| (row.id.into(), row.title.into())).collect()
}

fn experiments() -> Names {
    shipped::names().map(|name| (name.into(), "experiment".into())).collect()
}

/// The models and runs that are here.
fn networks() -> Names {
    let folder = models::folder();
    let here = NETWORKS.iter().filter(|network| folder.join(network.name).join(PLAN).is_file());
    let mut found: Names = here.map(|network| (network.name.into(), network.about.into())).collect();
    found.extend(run_names(Path::new(RUNS)).into_iter().map(|name| (name, "run".into())));
    found
}

fn learners() -> Names {
    let word = |(name, about)| (format!("run:{name}"), about);
    let mut found = solvers();
    found.extend(networks().into_iter().map(word));
    found.extend([
        ("file:".into(), "predictions, .npz".into()),
        ("construct:".into(), "constructed weights".into()),
    ]);
    found
}
