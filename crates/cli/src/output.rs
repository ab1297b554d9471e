//! Outputs appear whole or not at all: written under a temporary name, then renamed. Of a folder, only files that iclab wrote
//! are replaced.
//!
//! directory: a folder being filled, by one process at a time; owned: the list of its files that are ours.

mod directory;
pub(crate) mod owned;

use std::fs;
use std::path::Path;

use engine::model::checkpoint::write_whole;
use lab::findings::Table;
use lab::findings::numbers::counted;
use lab::networks::devices::Device;
use lab::networks::evaluation;

use crate::error::{Error, Result};

pub use directory::{Directory, tidy};

/// What was run, in the folder of what came of it.
pub const PLAN: &str = "plan.toml";

/// Writes a file atomically.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    if path.is_dir() {
        return Err(Error::content(path, "is a directory; accepted: the name of a file"));
    }
    Ok(write_whole(path, bytes).map_err(lab::Error::from)?)
}

/// A table with columns as wide as they need to be.
pub fn print_aligned(table: &Table) {
    println!("{}", table.title);
    let rows = || std::iter::once(&table.columns).chain(&table.rows);
    let width = |column: usize| rows().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    for row in rows() {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
        println!("  {}", cells.collect::<Vec<_>>().join("  "));
    }
}

/// A value as indented JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    println!("{}", serde_json::to_string_pretty(value).map_err(report::Error::from)?);
    Ok(())
}

/// Processor and cores, in words.
pub fn machine() -> String {
    let name = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|l| l.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_string())
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {}", name.unwrap_or_else(|| std::env::consts::ARCH.into()), counted(cores, "core", "cores"))
}

/// The same with the device that networks are evaluated on, where that is another.
pub fn machine_of_networks() -> String {
    match evaluation::device() {
        Device::Cpu => machine(),
        device => format!("{}; networks on {}", machine(), device.describe()),
    }
}
