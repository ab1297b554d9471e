//! `iclab list`: what there is, from the registries.

use std::borrow::Cow;
use std::path::Path;

use clap::{Args, ValueEnum};
use lab::registry::{Row, Setting};
use serde_json::json;

use crate::error::Result;

/// What to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Algorithms
    Solvers,
    /// Function classes
    Functions,
    /// Input distributions
    Inputs,
    /// Networks as learners, with their settings
    Networks,
    /// Analyses by what they ask
    Analyses,
    /// Experiments inside iclab, for `iclab train NAME`
    Experiments,
    /// Words of a report: terms, codes, networks
    Glossary,
}

/// List what there is
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab list\n  iclab list solvers\n  iclab list functions --json")]
pub struct ListArgs {
    /// Which registry; all of them when left out
    what: Option<What>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a network is as a learner.
const NETWORK: &str =
    "a trained network, a run or a checkpoint, with a read-out per layer; settings follow after commas";

struct Entry {
    name: Cow<'static, str>,
    summary: Cow<'static, str>,
    cite: Cow<'static, str>,
    settings: &'static [Setting],
}

/// Runs the command.
pub fn run(args: &ListArgs) -> Result<()> {
    let wanted: Vec<What> = match args.what {
        Some(what) => vec![what],
        None => What::value_variants().to_vec(),
    };
    let mut all = serde_json::Map::new();
    for (i, what) in wanted.iter().enumerate() {
        let entries = entries(*what);
        let name = format!("{what:?}").to_lowercase();
        if args.json {
            let rows = entries.iter().map(|e| {
                let settings = e.settings.iter().map(|s| json!({"name": s.name, "default": s.default, "help": s.help}));
                json!({"name": e.name, "summary": e.summary, "cite": e.cite, "settings": settings.collect::<Vec<_>>()})
            });
            all.insert(name, rows.collect());
            continue;
        }
        if i > 0 {
            println!();
        }
        println!("{name}");
        for entry in entries {
            let cite = if entry.cite.is_empty() { String::new() } else { format!(" [{}]", entry.cite) };
            println!("  {:<22} {}{cite}", entry.name, entry.summary);
            for setting in entry.settings {
                println!("  {:22}   {}={}  {}", "", setting.name, setting.default, setting.help);
            }
        }
    }
    if args.json {
        println!("{:#}", serde_json::Value::Object(all));
    }
    Ok(())
}

fn entries(what: What) -> Vec<Entry> {
    use lab::analyses::{ANALYSES, Analysis, glossary};
    use lab::data::{functions::FUNCTIONS, inputs::INPUTS};
    use lab::networks::experiment::{Experiment, shipped};
    use lab::solvers::SOLVERS;
    fn of<T: ?Sized, P>(rows: &[Row<T, P>]) -> Vec<Entry> {
        let entry = |row: &Row<T, P>| {
            let Row { name, summary, cite, settings, .. } = row;
            Entry { name: (*name).into(), summary: (*summary).into(), cite: (*cite).into(), settings }
        };
        rows.iter().map(entry).collect()
    }
    let plain = |name, summary| Entry { name, summary, cite: "".into(), settings: &[] };
    let asked = |row: &&Analysis| {
        let cite = row.paper.map_or(String::new(), |(label, section)| format!("{label}, section {section}"));
        Entry { cite: cite.into(), ..plain(row.id.into(), row.title.into()) }
    };
    let experiment = |name: &'static str| {
        let about = Experiment::read(Path::new(name)).map(|experiment| experiment.about);
        plain(name.into(), about.unwrap_or_default().into())
    };
    match what {
        What::Solvers => of(SOLVERS),
        What::Functions => of(FUNCTIONS),
        What::Inputs => of(INPUTS),
        What::Networks => {
            vec![Entry { settings: lab::probe::SETTINGS, ..plain("run:NAME".into(), NETWORK.into()) }]
        }
        What::Analyses => ANALYSES.iter().map(asked).collect(),
        What::Experiments => shipped::names().map(experiment).collect(),
        What::Glossary => glossary().into_iter().map(|t| plain(t.word.into(), t.means.into())).collect(),
    }
}
