//! Resolved plans: what was run, every default written out, stored beside what came of it.

use std::path::Path;

use lab::findings::Findings;
use report::About;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::output::{PLAN, machine, write_file};

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
