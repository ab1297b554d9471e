//! Findings as pictures, tables and pages.
//!
//! Reads [`lab::findings::Findings`] and computes nothing new. In the order of the data flow:
//!
//! ```text
//! Figure ──────── draw: layout ─┬─ lines ── axis, families, legend ─┐
//!                               ├─ heatmap ── palette, panel ───────┼─ svg ─┬─ png
//!                               └─ blocks ──────────────────────────┘       │
//! Findings ────── page: summary, a page per part of the paper, ledger ──────┴─ *.html
//! Figure, Table ─ csv
//! Figure ──────── drawn: its files, made once however often a growing report is written
//! Findings ────── write: pages, figures/, tables/, ledger.json
//! ```

mod csv;
mod draw;
mod drawn;
mod found;
mod ledger;
mod page;
mod png;
mod text;
mod write;

#[cfg(test)]
mod tests;
#[cfg(test)]
extern crate self as report; // the gallery's fixture, shared with the tests, names this crate

use std::path::PathBuf;

use lab::analyses::NotRun;
use lab::analyses::reproduction::Trained;
use serde::{Deserialize, Serialize};

pub use csv::{figure_csv, table_csv};
pub use draw::figure_svg;
pub use drawn::Drawn;
pub use ledger::{Counts, bound_text, interval_text, ledger_text, lines};
pub use page::{Page, pages};
pub use png::figure_png;
pub use text::{escape, format_number, format_seconds};
pub use write::{write, write_drawn};

/// What went wrong while drawing or writing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A figure could not be turned into pixels.
    #[error("figure {figure}: {reason}")]
    Raster {
        /// Its id.
        figure: String,
        /// Why.
        reason: String,
    },
    /// An id cannot serve as a file name, or two share one.
    #[error("{what} id {id:?} {reason}; use lower-case letters, digits and dashes, each id once in a report")]
    Id {
        /// Figure or table.
        what: &'static str,
        /// The id.
        id: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The ledger could not be put into JSON.
    #[error("ledger.json: {0}")]
    Json(#[from] serde_json::Error),
}

/// What a reader should know about the run behind a report.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// Headline of the page.
    pub title: String,
    /// One paragraph: why this report exists.
    pub purpose: String,
    /// Version of iclab.
    pub version: String,
    /// The command that made the report, as typed.
    pub command: String,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Prompts behind a measured value.
    pub prompts: usize,
    /// Wall-clock time of the whole run.
    pub seconds: f64,
    /// Hash of the resolved plan.
    pub plan_hash: String,
    /// The machine in words; may be empty.
    pub machine: String,
    /// How far the run is, while it is going on.
    pub running: Option<Running>,
    /// By which recipes the networks that were asked were trained.
    pub recipes: Vec<Trained>,
    /// Options that make `iclab reproduce --only ID` measure the same again: ` --prompts 64 --seed 1`.
    #[serde(skip)]
    pub options: String,
    /// Analyses whose findings were kept from an earlier run.
    #[serde(skip)]
    pub kept: Vec<String>,
    /// What was left out, and why; a field of the ledger of its own.
    #[serde(skip)]
    pub not_run: Vec<NotRun>,
    /// What a reader must know before believing it: an unfinished network, prompts left out.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Analyses whose findings are in the report.
    pub done: usize,
    /// Analyses that were asked for.
    pub of: usize,
}

impl About {
    /// Whether the report is about the paper, not about a comparison, a probe or a sweep.
    pub fn is_reproduction(&self) -> bool {
        self.command.starts_with("iclab reproduce")
    }

    /// The command that measures one analysis again; outside `iclab reproduce` that is the command itself.
    pub fn rerun(&self, analysis: &str) -> String {
        if !self.is_reproduction() {
            return self.command.clone();
        }
        format!("iclab reproduce --only {analysis}{}", self.options)
    }
}

impl Default for About {
    fn default() -> Self {
        About {
            title: "Do Transformers learn second\u{2011}order methods in context?".into(),
            purpose: "A reproduction of Fu, Chen, Jia and Sharan (NeurIPS 2024). Each checkable statement of the \
                      paper is a claim with a bound; this page shows what was measured, how certain it is, and \
                      whether the claim holds. Where the paper misprints, the printed and the corrected form are \
                      both run."
                .into(),
            version: env!("CARGO_PKG_VERSION").into(),
            command: "iclab reproduce".into(),
            seed: 0,
            prompts: 0,
            seconds: 0.0,
            plan_hash: String::new(),
            machine: String::new(),
            running: None,
            recipes: Vec::new(),
            options: String::new(),
            kept: Vec::new(),
            not_run: Vec::new(),
            notes: Vec::new(),
        }
    }
}
