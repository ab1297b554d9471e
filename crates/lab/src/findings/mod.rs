//! What an analysis returns, as plain data: claims, figures, tables.

mod answer;
mod claims;
mod counts;
mod differences;
mod figure;
pub mod numbers;
mod table;
mod verdicts;

use serde::{Deserialize, Serialize};

pub use answer::answer;
pub use claims::{Claim, Kind};
pub use counts::Counts;
pub use differences::{ClaimDifference, Differences};
pub use figure::{
    At, Axis, Block, BlocksPanel, Figure, HeatmapPanel, LinesPanel, Panel, Reference, Scale, Series, Stroke,
};
pub use table::Table;
pub use verdicts::{Bound, Cause, Reading, Verdict, Words};

/// Where a report has the findings of an analysis, in reading order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Chapter {
    /// The paper's figures and its table.
    Figures,
    /// Misprints, both ways.
    Errata,
    /// The theorem and its lemmas, as weights.
    Theory,
    /// What the paper says between its figures.
    Statements,
    /// What the paper does not ask.
    #[default]
    Beyond,
}

impl Chapter {
    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Chapter::Figures => "The paper's figures and its table",
            Chapter::Errata => "Misprints, both ways",
            Chapter::Theory => "The theorem, as weights",
            Chapter::Statements => "Statements between the figures",
            Chapter::Beyond => "Beyond the paper",
        }
    }

    /// Whose statements its claims are, unless one says otherwise.
    pub fn kind(self) -> Kind {
        match self {
            Chapter::Errata => Kind::Erratum,
            Chapter::Beyond => Kind::Beyond,
            _ => Kind::Paper,
        }
    }
}

/// Where the paper has what an analysis asks about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// As the paper numbers it: `Figure 3`, `Table 1`, `Theorem 5.1`; `Text` or `Footnote` for what has no number.
    pub label: String,
    /// The section that discusses it: `4.2`, `A.3.1`.
    pub section: String,
}

/// What an analysis gives to the first screen of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headline {
    /// The report shows the lowest of those it has, and below it the lowest from [`Headline::SECOND`] on.
    pub rank: u32,
    /// The figure, by id.
    pub figure: String,
    /// The claims, by id.
    pub claims: Vec<String>,
}

impl Headline {
    /// The lowest rank of what may stand second, and never first.
    pub const SECOND: u32 = 100;
}

/// Everything one analysis found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    /// Id of its row in the table of analyses: `F26`.
    pub analysis: String,
    /// Where a report has it.
    #[serde(default)]
    pub chapter: Chapter,
    /// Where the paper has it; nowhere, beyond the paper.
    #[serde(default)]
    pub paper: Option<Place>,
    /// What it gives to the first screen, if anything.
    #[serde(default)]
    pub headline: Option<Headline>,
    /// What it asks: a question, or a name that says nothing of what was found.
    pub title: String,
    /// What it does and why, a paragraph.
    pub summary: String,
    /// What was found, in a sentence or two; empty where nobody has said so.
    #[serde(default)]
    pub answer: String,
    /// What a reader must know before believing it: prompts left out, an unfinished run.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Its claims, in reading order.
    pub claims: Vec<Claim>,
    /// Its figures, in reading order.
    pub figures: Vec<Figure>,
    /// Its tables, in reading order.
    pub tables: Vec<Table>,
    /// How long it took.
    pub seconds: f64,
}

impl Findings {
    /// Whether everything that is drawn has the shape that it says: findings may come from a file.
    pub fn is_sound(&self) -> bool {
        let figures = self.figures.iter().all(|figure| figure.panels.iter().all(Panel::is_sound));
        figures && self.tables.iter().all(|t| t.rows.iter().all(|row| row.len() == t.columns.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_earlier_versions_still_load() {
        let old = r#"{"analysis": "F3", "title": "Layers", "summary": "Maps.", "figures": [], "tables": [], "seconds": 1.5,
            "claims": [{"id": "F3.slope", "kind": "paper", "statement": "Steps per layer", "quoted": "3", "measured": 2.5,
                        "interval": null, "bound": {"AtLeast": 2.0}, "verdict": "holds", "figure": null}]}"#;
        let found: Findings = serde_json::from_str(old).unwrap();
        assert_eq!((found.paper, found.answer, found.notes.len()), (None, String::new(), 0));
        assert_eq!((&*found.claims[0].network, found.claims[0].kind), ("", Kind::Paper));
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.word()));
        }
    }
}
