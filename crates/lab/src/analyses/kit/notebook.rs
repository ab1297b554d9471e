//! Where a row of the table writes what it found: claims, figures and tables whose ids begin with the row's own.

use super::names;
use crate::analyses::{Analysis, Headline, Outcome};
use crate::findings::{self, Bound, Cause, Claim, Figure, Kind, Panel, Reading, Table, Verdict, Words};
use crate::networks::models::Recipe;
use crate::stats::Estimate;

/// The notebook of one row: `claim("slope", …)` of row `F3` is claim `F3.slope`, `figure("maps", …)` is figure `f3-maps`.
pub struct Notebook {
    /// What claims begin with: `F3`, `TH1'`, `TH1''`.
    prefix: String,
    /// What figures and tables begin with: `f3`.
    stem: String,
    kind: Kind,
    /// The networks that the row asks, for its claims.
    needs: &'static [&'static str],
    /// The networks that each claim asks.
    asked: Vec<Vec<String>>,
    outcome: Outcome,
}

/// A measured value, with its 95 % interval where it has one.
#[derive(Clone, Copy)]
pub struct Measured {
    value: f64,
    interval: Option<(f64, f64)>,
}

impl From<f64> for Measured {
    fn from(value: f64) -> Measured {
        Measured { value, interval: None }
    }
}

impl From<usize> for Measured {
    fn from(count: usize) -> Measured {
        Measured::from(count as f64)
    }
}

impl From<Estimate> for Measured {
    fn from(estimate: Estimate) -> Measured {
        Measured { value: estimate.value, interval: Some((estimate.low, estimate.high)) }
    }
}

impl From<(f64, Option<(f64, f64)>)> for Measured {
    fn from((value, interval): (f64, Option<(f64, f64)>)) -> Measured {
        Measured { value, interval }
    }
}

impl Notebook {
    /// An empty notebook of a row.
    pub fn of(analysis: &Analysis) -> Notebook {
        Notebook {
            prefix: analysis.id.replace("-prime", "'"),
            stem: analysis.id.to_lowercase(),
            kind: analysis.chapter.kind(),
            needs: analysis.needs,
            asked: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    /// Writes a claim down; its verdict follows from the bound. What it says and what is known of it beside that is added:
    ///
    /// ```text
    /// note.claim("last", ols.last_similarity(), AtLeast(0.98))
    ///     .says("SimE of the last layer with OLS")
    ///     .quoted("converged to the OLS solution")
    ///     .authors(by_the_authors.last_similarity());
    /// ```
    ///
    /// It is a statement of the paper (or what its chapter says) unless [`Entry::kind`] says otherwise, asks the networks of
    /// the row unless [`Entry::asks`] does, and is shown by the first figure of the row unless [`Entry::figure`] does.
    pub fn claim(&mut self, name: &str, measured: impl Into<Measured>, bound: Bound) -> Entry<'_> {
        let Measured { value, interval } = measured.into();
        let claim = Claim::new(&format!("{}.{name}", self.prefix), self.kind, "", value, bound);
        let claim = match interval {
            Some((low, high)) => claim.interval(low, high),
            None => claim,
        };
        self.outcome.claims.push(claim);
        self.asked.push(self.needs.iter().map(ToString::to_string).collect());
        Entry {
            claim: self.outcome.claims.last_mut().expect("just written"),
            asked: self.asked.last_mut().expect("just written"),
            stem: &self.stem,
        }
    }

    /// Draws a figure; its panels stand from left to right.
    pub fn figure(
        &mut self,
        name: &str,
        title: impl Into<String>,
        caption: impl Into<String>,
        panels: impl IntoIterator<Item = impl Into<Panel>>,
    ) {
        self.outcome.figures.push(Figure::new(self.id(name), title, caption, panels));
    }

    /// Writes a table down.
    pub fn table(
        &mut self,
        name: &str,
        title: impl Into<String>,
        caption: impl Into<String>,
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) {
        self.outcome.tables.push(Table::new(self.id(name), title, caption, columns, rows));
    }

    /// Takes over figures and tables that were made elsewhere, with the ids that they have.
    pub fn paste(&mut self, figures: Vec<Figure>, tables: Vec<Table>) {
        self.outcome.figures.extend(figures);
        self.outcome.tables.extend(tables);
    }

    /// The id of a figure or a table of this row; the row's own for an empty name.
    fn id(&self, name: &str) -> String {
        if name.is_empty() { self.stem.clone() } else { format!("{}-{name}", self.stem) }
    }

    /// The ids of what a headline names.
    pub(in crate::analyses) fn headline(&self, headline: Headline) -> findings::Headline {
        let claims = headline.claims.iter().map(|name| format!("{}.{name}", self.prefix)).collect();
        findings::Headline { rank: headline.rank, figure: self.id(headline.figure), claims }
    }

    /// All that was written, each claim with the networks that it asks and, where it fails, whose failure that is.
    /// `other_recipe` says of a network how it was trained, where that is not the paper's way.
    pub(in crate::analyses) fn close(mut self, other_recipe: impl Fn(&str) -> Option<Recipe>) -> Outcome {
        for (claim, asked) in self.outcome.claims.iter_mut().zip(&self.asked) {
            let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
            let others: Vec<(&str, Recipe)> =
                asked.iter().filter_map(|name| Some((*name, other_recipe(name)?))).collect();
            claim.network = names::with_recipe(&asked, &others);
            let words = others.iter().map(|(name, recipe)| format!("{} by {recipe}", names::of(&[name])));
            let words = words.collect::<Vec<_>>().join(", ");
            claim.explain(Some(words.as_str()).filter(|words| !words.is_empty()));
        }
        self.outcome
    }
}

/// A claim that was just written down, to add to it.
pub struct Entry<'a> {
    claim: &'a mut Claim,
    asked: &'a mut Vec<String>,
    stem: &'a str,
}

impl Entry<'_> {
    /// The statement, in our words.
    pub fn says(self, statement: impl Into<String>) -> Self {
        self.claim.statement = statement.into();
        self
    }

    /// What the paper says, literally: `scripts/check-quotes` looks for it in the paper's source. Words left out are `…`.
    pub fn quoted(self, words: impl Into<String>) -> Self {
        (self.claim.quoted, self.claim.words) = (words.into(), Words::Paper);
        self
    }

    /// What is expected, in words that the paper does not have: a paraphrase, a reference number, theory.
    pub fn ours(self, words: impl Into<String>) -> Self {
        (self.claim.quoted, self.claim.words) = (words.into(), Words::Ours);
        self
    }

    /// The same by the authors' protocol ([`Reading::AUTHORS`]).
    pub fn authors(self, measured: impl Into<Measured>) -> Self {
        self.also(Reading::AUTHORS, measured)
    }

    /// The same measured another way, beside the way that decides.
    pub fn also(self, by: &str, measured: impl Into<Measured>) -> Self {
        let Measured { value, interval } = measured.into();
        let interval = interval.filter(|(low, high)| !low.is_nan() && !high.is_nan());
        let verdict = self.claim.bound.judge(value, interval);
        self.claim.readings.push(Reading { by: by.into(), measured: value, interval, verdict });
        self
    }

    /// The figure of this row that shows it.
    pub fn figure(self, name: &str) -> Self {
        self.claim.figure = Some(format!("{}-{name}", self.stem));
        self
    }

    /// The evidence, where it fails or is unsettled.
    pub fn why(self, words: impl Into<String>) -> Self {
        if matches!(self.claim.verdict, Verdict::Fails | Verdict::Unsettled) {
            self.claim.why = words.into();
        }
        self
    }

    /// Whose failure it is, where it fails and the evidence of the row says more than the recipe and the authors' protocol do.
    pub fn because(self, cause: Cause, evidence: impl Into<String>) -> Self {
        if self.claim.verdict == Verdict::Fails {
            (self.claim.cause, self.claim.why) = (Some(cause), evidence.into());
        }
        self
    }

    /// Its 95 % interval, where the measured value came without.
    pub fn interval(self, low: f64, high: f64) -> Self {
        self.claim.interval = (!low.is_nan() && !high.is_nan()).then_some((low, high));
        self.claim.verdict = self.claim.bound.judge(self.claim.measured, self.claim.interval);
        self
    }

    /// The networks that it asks, by their names, where they are not all of the row's; none for algorithms alone.
    pub fn asks(self, networks: &[&str]) -> Self {
        *self.asked = networks.iter().map(ToString::to_string).collect();
        self
    }

    /// Whose statement it is.
    pub fn kind(self, kind: Kind) -> Self {
        self.claim.kind = kind;
        self
    }
}
