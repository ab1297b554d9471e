//! Analyses: a table whose rows each ask one question of the paper and answer with claims, figures and tables.
//!
//! ```text
//! rows/paper/       F1 … F27, T1   the paper's figures and its table
//! rows/statements/  Q1 … Q12       what the paper says between its figures
//! rows/theory/      TH1 … TH7      the theorem and its lemmas, as weights
//! rows/errata/      E1 … E7        misprints, both ways
//! rows/beyond/      N1 … M1, REF   what the paper does not ask
//! kit/              the lab, the settings, the notebook: what rows have in common
//! ```
//!
//! A file is named after the rows that it defines: `f03_f16_f22_f24_error_maps.rs` has F3, F16, F22 and F24, and with them
//! every claim `F3.…`. To add a row: a file with `ROWS`, and a line in its chapter's `mod.rs` (see `CONTRIBUTING.md`).

mod glossary;
pub mod kit;
pub mod reproduction;
mod rows;

use std::sync::LazyLock;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, hint};
use crate::findings::{self, Chapter, Claim, Figure, Findings, Place, Table};
use crate::networks::models;

pub use glossary::{Term, glossary};
pub use kit::lab::Lab;
pub use kit::names::{OTHER_RECIPE, OTHER_START};
pub use kit::notebook::Notebook;
pub use rows::beyond::{n2_emergence as emergence, n3_ablations as ablations};

/// One row of the table of analyses.
#[derive(Clone, Copy)]
pub struct Analysis {
    /// Row of the acceptance table: `F26`, `E1`.
    pub id: &'static str,
    /// Where the report has it.
    pub chapter: Chapter,
    /// Where the paper has it, by its label and the section that discusses it: `("Figure 3", "4.2")`.
    pub paper: Option<(&'static str, &'static str)>,
    /// Its place within the chapter: ten times the number in its id leaves room for what comes between.
    pub order: u32,
    /// What it asks, a question: claims and their verdicts answer it.
    pub title: &'static str,
    /// What it does and why, a paragraph.
    pub summary: &'static str,
    /// Networks it needs, by name (see [`crate::networks::models`]).
    pub needs: &'static [&'static str],
    /// How long it takes, for the order of computing.
    pub cost: Cost,
    /// Seconds on two cores with 1280 prompts, what others computed before it not counted; only proportions matter.
    pub seconds: f64,
    /// What it can give to the first screen of the report.
    pub headline: Option<Headline>,
    /// Measures, and writes down what it found.
    pub run: fn(&Lab, &mut Notebook) -> Result<()>,
}

/// What a row can give to the first screen of the report, by names within the row: `best` is figure `f3-best` of row F3.
#[derive(Clone, Copy)]
pub struct Headline {
    /// The report shows the lowest of those it has.
    pub rank: u32,
    /// The figure.
    pub figure: &'static str,
    /// The claims.
    pub claims: &'static [&'static str],
}

/// How long an analysis takes, roughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// Seconds.
    Seconds,
    /// It asks a network for induced weights, or for every layer once more.
    Minutes,
}

impl Analysis {
    /// A row of the chapter of figures, to be filled in.
    pub const FIGURE: Analysis = Analysis::within(Chapter::Figures);
    /// A row of the chapter of statements.
    pub const STATEMENT: Analysis = Analysis::within(Chapter::Statements);
    /// A row of the chapter of theory.
    pub const THEORY: Analysis = Analysis::within(Chapter::Theory);
    /// A row of the chapter of errata.
    pub const ERRATUM: Analysis = Analysis::within(Chapter::Errata);
    /// A row beyond the paper.
    pub const BEYOND: Analysis = Analysis::within(Chapter::Beyond);

    /// Whether it may ask a network: one that it needs or, where it is there, one of their kin (`r1-…` of `r1`).
    pub fn may_ask(&self, network: &str) -> bool {
        self.needs.iter().any(|need| models::is_kin(network, need))
    }

    const fn within(chapter: Chapter) -> Analysis {
        Analysis {
            id: "",
            chapter,
            paper: None,
            order: 0,
            title: "",
            summary: "",
            needs: &[],
            cost: Cost::Seconds,
            seconds: 0.4,
            headline: None,
            run: |_, _| Ok(()),
        }
    }
}

/// What an analysis returns.
#[derive(Default)]
pub struct Outcome {
    /// In reading order.
    pub claims: Vec<Claim>,
    /// In reading order.
    pub figures: Vec<Figure>,
    /// In reading order.
    pub tables: Vec<Table>,
}

/// Every analysis, in the order of the report.
pub static ANALYSES: LazyLock<Vec<&'static Analysis>> = LazyLock::new(|| {
    let mut all: Vec<&Analysis> = rows::CHAPTERS.iter().copied().flatten().copied().flatten().collect();
    all.sort_by_key(|analysis| (analysis.chapter, analysis.order));
    all
});

/// Finds analyses by id, case aside; all of them when none is named.
pub fn select(ids: &[String]) -> Result<Vec<&'static Analysis>> {
    for id in ids {
        if !ANALYSES.iter().any(|a| a.id.eq_ignore_ascii_case(id)) {
            let hint = hint(id, ANALYSES.iter().map(|a| a.id));
            return Err(Error::UnknownName { kind: "analysis", name: id.clone(), hint });
        }
    }
    let wanted = |a: &&&Analysis| ids.is_empty() || ids.iter().any(|id| a.id.eq_ignore_ascii_case(id));
    Ok(ANALYSES.iter().filter(wanted).copied().collect())
}

/// The order of computing: what needs no network first, what takes minutes last, so that there is soon something to read.
pub fn cheap_first(mut selected: Vec<&Analysis>) -> Vec<&Analysis> {
    selected.sort_by_key(|a| (a.cost, !a.needs.is_empty()));
    selected
}

/// An analysis that was not run, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRun {
    /// Row of the acceptance table.
    pub analysis: String,
    /// Its headline.
    pub title: String,
    /// What it lacks, and how to get it.
    pub why: String,
}

impl NotRun {
    /// An analysis for want of networks.
    pub fn without(analysis: &Analysis, missing: &[&str]) -> NotRun {
        let one = missing.first().copied().unwrap_or_default();
        let recipe = models::named(one).map(models::PaperNetwork::recipe).unwrap_or_default();
        let folders: Vec<String> = missing.iter().map(|name| format!("models/{name}")).collect();
        NotRun {
            analysis: analysis.id.to_string(),
            title: analysis.title.to_string(),
            why: format!("needs {} (train it: {recipe}, then --model {one}=runs/…)", folders.join(" and ")),
        }
    }
}

/// Runs one analysis and times it.
pub fn run(analysis: &Analysis, lab: &Lab) -> Result<Findings> {
    let start = Instant::now();
    let mut note = Notebook::of(analysis);
    (analysis.run)(lab, &mut note)?;
    let headline = analysis.headline.map(|headline| note.headline(headline));
    let mut outcome = note.close(|name| lab.other_recipe(name));
    let first = outcome.figures.first().map(|figure| figure.id.clone());
    for claim in &mut outcome.claims {
        claim.figure = claim.figure.take().or_else(|| first.clone());
    }
    Ok(Findings {
        analysis: analysis.id.to_string(),
        chapter: analysis.chapter,
        paper: analysis.paper.map(|(label, section)| Place { label: label.into(), section: section.into() }),
        headline,
        title: analysis.title.to_string(),
        summary: analysis.summary.to_string(),
        answer: findings::answer(&outcome.claims),
        notes: vec![],
        claims: outcome.claims,
        figures: outcome.figures,
        tables: outcome.tables,
        seconds: start.elapsed().as_secs_f64(),
    })
}
