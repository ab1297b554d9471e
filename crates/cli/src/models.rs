//! `iclab models`: the trained networks that are shipped, what is known of them, and whether their files are whole.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use lab::findings::numbers::grouped;
use lab::networks::models::{self, Card, Form, Models, Networks, Shelved, Source};
use serde_json::json;

use crate::device::EvaluationArgs;
use crate::error::Result;
use crate::output::{Directory, print_json, write_file};
use crate::progress;

/// List, verify, show and add trained networks
///
/// Analyses of trained networks take them from here, by name. Nothing is trained or replaced silently: a file that is missing or altered
/// is named, with what to do.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab models\n  iclab models verify\n  iclab models show r1\n  \
                        iclab models add r1 runs/r1-fast-0123456789abcdef\n\n\
                        Exit code: 0 all files are as their cards say, 1 one is not, 2 an error.")]
pub struct ModelsArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Folder of the networks [default: ICLAB_MODELS, else models/, else beside the program]
    #[arg(long, value_name = "DIR", global = true)]
    models: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Action {
    /// Check every file against its network's card
    Verify {
        /// Networks; all that are there when left out
        names: Vec<String>,
    },
    /// Print the card of a network
    Show {
        /// A network
        name: String,
    },
    /// Add a finished run as the network of a name: float16 weights, read-outs for all layers, a card
    ///
    /// Of checkpoints that the run kept along the way, each layer's predictions are taken over. A network of that name that is
    /// there already is replaced.
    Add {
        /// Name, as analyses ask for it
        name: String,
        /// Directory of the run
        run: PathBuf,
        /// Keep each layer's predictions on the first 1280 evaluation prompts instead of weights: a fraction of the bytes
        #[arg(long)]
        predictions: bool,
        /// Accept a run that is not over, at its last checkpoint; the card says how many of its steps were taken
        #[arg(long)]
        unfinished: bool,
        /// A sentence for the card
        #[arg(long, default_value = "")]
        remark: String,
        #[command(flatten)]
        device: EvaluationArgs,
    },
}

/// Runs `iclab models`; true when nothing is wrong with any file looked at.
pub fn run(args: &ModelsArgs) -> Result<bool> {
    match &args.action {
        None => list(args),
        Some(Action::Verify { names }) => verify(args, names),
        Some(Action::Show { name }) => show(args, name).map(|()| true),
        Some(Action::Add { name, run, predictions, unfinished, remark, device }) => {
            device.apply()?;
            let form = if *predictions { Form::Predictions } else { Form::Weights };
            let source = Source { run, form, unfinished: *unfinished, remark };
            add(&args.written_to(), name, source).map(|()| true)
        }
    }
}

impl ModelsArgs {
    fn folder(&self) -> PathBuf {
        self.models.clone().unwrap_or_else(models::folder)
    }

    /// The same, but never beside the program unless that is said.
    fn written_to(&self) -> PathBuf {
        let said = std::env::var_os(models::VARIABLE).filter(|said| !said.is_empty()).map(PathBuf::from);
        self.models.clone().or(said).unwrap_or_else(|| models::FOLDER.into())
    }
}

fn list(args: &ModelsArgs) -> Result<bool> {
    let all = models::shelf(&args.folder());
    if args.json {
        let row = |found: &Shelved| {
            let card = found.card.as_ref().ok().and_then(Option::as_ref);
            let (name, about) = (found.network.name, found.network.about);
            let recipe = card.map(|card| recipe(args, card));
            json!({"name": name, "about": about, "recipe": recipe, "card": card, "problem": found.problem()})
        };
        print_json(&all.iter().map(row).collect::<Vec<_>>())?;
    } else {
        for Shelved { network, card } in &all {
            match card {
                Ok(Some(card)) => println!(
                    "{:9} {:42} {:>9} parameters, {}, mean loss {:.4}, error/d {:.1e}",
                    card.name,
                    card.about,
                    card.parameters,
                    recipe(args, card),
                    card.mean_loss,
                    card.last_error_over_d
                ),
                Ok(None) => println!("{:9} {:42} not here", network.name, network.about),
                Err(problem) => println!("{:9} {:42} {problem}", network.name, network.about),
            }
        }
        if all.iter().all(|found| matches!(found.card, Ok(None))) {
            let places = args.models.as_ref().map_or_else(models::looked_in, |dir| dir.display().to_string());
            println!("\nNone is here. Looked in {places}; {}.", models::how_to_get());
        }
    }
    Ok(all.iter().all(|found| found.card.is_ok()))
}

/// How a network that is here was trained: by the paper's recipe, by so many of its steps, or otherwise.
fn recipe(args: &ModelsArgs, card: &Card) -> String {
    match Models::under(args.folder()).other_recipe(&card.name) {
        None => format!("the paper's recipe, {} steps", grouped(card.steps)),
        Some(recipe) => recipe.to_string(),
    }
}

fn verify(args: &ModelsArgs, names: &[String]) -> Result<bool> {
    let folder = args.folder();
    let asked = models::shelved(&folder, names)?;
    let problems: Vec<(&str, Option<String>)> =
        asked.iter().map(|found| (found.network.name, found.problem_or_absence(&folder))).collect();
    if args.json {
        let row = |(name, problem): &(&str, Option<String>)| json!({"name": name, "problem": problem});
        print_json(&problems.iter().map(row).collect::<Vec<_>>())?;
    } else {
        for (name, problem) in &problems {
            println!("{name:9} {}", problem.as_deref().unwrap_or("whole"));
        }
    }
    Ok(problems.iter().all(|(_, problem)| problem.is_none()))
}

fn show(args: &ModelsArgs, name: &str) -> Result<()> {
    let card = models::card(&args.folder(), name)?;
    if args.json {
        return print_json(&card);
    }
    print!("{}", card.text());
    Ok(())
}

fn add(root: &Path, name: &str, source: Source) -> Result<()> {
    models::named(name)?;
    let target = root.join(name);
    let directory = Directory::begin(&target)?;
    let spinner = progress::spinner("reading the run");
    let bar = spinner.clone();
    let tell = |what: &str| bar.set_message(what.to_string());
    let added = models::add(name, source, &directory.path(), &tell)?;
    spinner.finish_and_clear();
    write_file(&directory.path().join("loss.svg"), report::figure_svg(&added.figure).as_bytes())?;
    let card = added.seal(&directory.path())?;
    write_file(&directory.path().join("README.md"), card.text().as_bytes())?;
    directory.finish()?;
    let bytes: u64 = card.files.values().map(|mark| mark.bytes).sum();
    println!("{}: {:.1} MiB", target.display(), bytes as f64 / f64::from(1 << 20));
    Ok(())
}
