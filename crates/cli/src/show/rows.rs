//! Rows of the tables that bear a name: algorithms, function classes, input distributions, analyses.

use lab::analyses::{ANALYSES, Analysis};
use lab::data::{functions::FUNCTIONS, inputs::INPUTS};
use lab::networks::models;
use lab::registry::Row;
use lab::solvers::SOLVERS;

use super::Shown;

/// The rows of a name; analyses are found in either case.
pub fn find(name: &str) -> Vec<Shown> {
    let solvers = SOLVERS.iter().filter(|row| row.name == name).map(|row| {
        let other = if row.name == "newton" { "gd" } else { "newton" };
        row_of(
            "algorithm",
            row,
            [
                format!("iclab compare {} {other} --out {}-{other}", row.name, row.name),
                format!("iclab predict {} --prompts p.npz --out {}.npz", row.name, row.name),
            ],
        )
    });
    let functions = FUNCTIONS.iter().filter(|row| row.name == name);
    let functions = functions.map(|row| row_of("function class", row, sampled("function", row.name)));
    let inputs = INPUTS.iter().filter(|row| row.name == name);
    let inputs = inputs.map(|row| row_of("input distribution", row, sampled("inputs", row.name)));
    let analyses = ANALYSES.iter().filter(|row| row.id.eq_ignore_ascii_case(name)).map(|row| analysis(row));
    solvers.chain(functions).chain(inputs).chain(analyses).collect()
}

fn sampled(option: &str, name: &str) -> [String; 2] {
    [
        format!("iclab sample --{option} {name} --out p.npz"),
        format!("iclab compare newton gd --{option} {name} --out {name}"),
    ]
}

fn row_of<T: ?Sized, P>(kind: &'static str, row: &Row<T, P>, next: [String; 2]) -> Shown {
    let mut facts = Vec::new();
    if !row.cite.is_empty() {
        facts.push(("from", row.cite.to_string()));
    }
    for setting in row.settings {
        facts.push(("setting", format!("{}={}  {}", setting.name, setting.default, setting.help)));
    }
    let about = format!("({})", row.summary);
    Shown { kind, name: row.name.into(), about, facts, next: next.into(), experiment: None }
}

fn analysis(row: &Analysis) -> Shown {
    let mut facts = vec![("asks", row.summary.to_string())];
    if let Some((label, section)) = row.paper {
        facts.push(("paper", format!("{label}, section {section}")));
    }
    let folder = models::folder();
    let here = |name: &&str| {
        let there = folder.join(name).is_dir();
        format!("{name} ({})", if there { "here" } else { "not here: see iclab models" })
    };
    if !row.needs.is_empty() {
        facts.push(("needs", row.needs.iter().map(here).collect::<Vec<_>>().join(", ")));
    }
    let next = vec![format!("iclab reproduce --only {} --out {}", row.id, row.id.to_lowercase())];
    Shown {
        kind: "analysis",
        name: row.id.into(),
        about: format!("({})", row.title),
        facts,
        next,
        experiment: None,
    }
}
