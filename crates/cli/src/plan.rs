//! Resolved plans: what was run, every default written out, stored beside what came of it.

use std::path::Path;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lab::findings::Findings;
use lab::registry::one_of;
use report::About;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::output::{Directory, PLAN, machine, write_file};

/// Hash of a plan, 16 hex digits (FNV-1a over its TOML): names the same experiment on every machine.
pub fn hash(plan: &impl Serialize) -> String {
    format!("{:016x}", lab::data::seed::stable_id(&text(plan)))
}

fn text(plan: &impl Serialize) -> String {
    toml::to_string(plan).expect("plans are plain tables of text and numbers")
}

/// Writes `plan.toml` into a directory.
pub fn write(plan: &impl Serialize, dir: &Path) -> Result<()> {
    let head = format!(
        "# iclab {}: what was run, every default written out. Hash {}.\n",
        env!("CARGO_PKG_VERSION"),
        hash(plan)
    );
    write_file(&dir.join(PLAN), (head + &text(plan)).as_bytes())
}

/// Writes one analysis as a page, with the plan it came from and what its reader must know; `about` gives the command, the
/// prompts and the seed.
pub fn write_page(
    plan: &impl Serialize,
    findings: &Findings,
    notes: &[String],
    about: About,
    dir: &Path,
) -> Result<()> {
    let about = About {
        title: findings.title.clone(),
        purpose: findings.summary.clone(),
        notes: notes.to_vec(),
        version: env!("CARGO_PKG_VERSION").into(),
        seconds: findings.seconds,
        plan_hash: hash(plan),
        machine: machine(),
        ..about
    };
    report::write(std::slice::from_ref(findings), &about, dir)?;
    write(plan, dir)
}

/// Ends a verb that fills a folder: the page with its plan, `result.json`, and what `more` adds.
pub fn finish(
    directory: Directory,
    plan: &impl Serialize,
    findings: &Findings,
    result: &Value,
    about: About,
    more: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let dir = directory.path();
    write_page(plan, findings, &findings.notes, about, &dir)?;
    write_file(&dir.join("result.json"), format!("{result:#}\n").as_bytes())?;
    more(&dir)?;
    directory.finish()
}

/// Values by their names, each with what it is, for an argument.
pub fn choices<T: Copy + Send + Sync + 'static>(
    all: &'static [(T, &'static str, &'static str)],
) -> impl TypedValueParser<Value = T> {
    let names = all.iter().map(|(_, name, about)| PossibleValue::new(*name).help(*about));
    PossibleValuesParser::new(names).try_map(|text| one_of("value", &text, all))
}

/// Reads the plan of a command, refusing those of others and fields that do not exist.
pub fn read<P: DeserializeOwned>(path: &Path, command: &str) -> Result<P> {
    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    let named = toml::from_str::<Named>(&text).map_err(|e| lab::Error::toml(path, &text, &e))?;
    if named.command != command {
        let why = format!("field 'command' is '{}'; accepted: a plan of 'iclab {command}'", named.command);
        return Err(Error::content(path, why));
    }
    toml::from_str(&text).map_err(|e| lab::Error::toml(path, &text, &e).into())
}

/// Of any plan, whose it is.
#[derive(Deserialize)]
struct Named {
    command: String,
}
