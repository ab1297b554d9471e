//! Claims: a statement, what was measured, the bound it must meet, and the verdict that follows.

use serde::{Deserialize, Serialize};

use super::verdicts::{Bound, Cause, Reading, Verdict, Words};
use crate::stats::Estimate;

/// Whose statement a claim checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A statement of the paper.
    Paper,
    /// A statement that the paper prints wrongly: the claim says how it fails or what is right.
    Erratum,
    /// A reference number of this project, kept to notice change.
    Reference,
    /// A question that the paper does not ask.
    Beyond,
}

impl Kind {
    /// All of them, in reading order.
    pub const ALL: [Kind; 4] = [Kind::Paper, Kind::Erratum, Kind::Reference, Kind::Beyond];

    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Paper => "paper",
            Kind::Erratum => "erratum",
            Kind::Reference => "reference",
            Kind::Beyond => "beyond",
        }
    }

    /// As a heading over claims of this kind.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Paper => "The paper's statements",
            Kind::Erratum => "Errata",
            Kind::Reference => "Reference values",
            Kind::Beyond => "Beyond the paper",
        }
    }
}

/// One row of the ledger.
///
/// ```
/// use lab::prelude::*;
///
/// let claim = Claim::new("F26.slope", Kind::Paper, "doublings per step", 0.52, Bound::Within(0.45, 0.55));
/// assert_eq!(claim.quoted("one in two steps").interval(0.48, 0.54).verdict, Verdict::Holds);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// Row of the acceptance table and a short name: `F26.newton-gd`.
    pub id: String,
    /// Whose statement.
    pub kind: Kind,
    /// The network that was asked: `R1`, `R1, seeds 0–4`; empty where none was.
    #[serde(default)]
    pub network: String,
    /// The statement in our words.
    pub statement: String,
    /// The number or words of the paper, or of ours, when there are any.
    pub quoted: String,
    /// Whose words those are.
    #[serde(default)]
    pub words: Words,
    /// The measured value; NaN is written as null.
    #[serde(with = "crate::exact")]
    pub measured: f64,
    /// 95 % interval of the measured value, when it has one.
    #[serde(with = "crate::exact")]
    pub interval: Option<(f64, f64)>,
    /// What the value must satisfy.
    pub bound: Bound,
    /// Whether it does.
    pub verdict: Verdict,
    /// The same measured another way, where that may matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<Reading>,
    /// Figure that shows it, by id.
    pub figure: Option<String>,
    /// What a failure is laid to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The evidence for that, or why it is unsettled; a sentence or two.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Claim {
    /// A claim whose verdict is decided here, by its bound, and nowhere else.
    pub fn new(id: &str, kind: Kind, statement: impl Into<String>, measured: f64, bound: Bound) -> Claim {
        Claim {
            id: id.to_string(),
            kind,
            network: String::new(),
            statement: statement.into(),
            quoted: String::new(),
            words: Words::Ours,
            measured,
            interval: None,
            bound,
            verdict: bound.judge(measured, None),
            readings: Vec::new(),
            figure: None,
            cause: None,
            why: String::new(),
        }
    }

    /// A claim about an estimate, with the estimate's interval.
    pub fn of(id: &str, kind: Kind, statement: impl Into<String>, estimate: Estimate, bound: Bound) -> Claim {
        Claim::new(id, kind, statement, estimate.value, bound).interval(estimate.low, estimate.high)
    }

    /// The same claim, of a network.
    pub fn network(mut self, name: impl Into<String>) -> Self {
        self.network = name.into();
        self
    }

    /// The same claim with its 95 % interval, which decides.
    pub fn interval(mut self, low: f64, high: f64) -> Self {
        self.interval = (!low.is_nan() && !high.is_nan()).then_some((low, high));
        self.verdict = self.bound.judge(self.measured, self.interval);
        self
    }

    /// The same claim with words that the paper has literally.
    pub fn quoted(mut self, words: impl Into<String>) -> Self {
        (self.quoted, self.words) = (words.into(), Words::Paper);
        self
    }

    /// The same claim with words of our own: what the paper says otherwise, a reference number, theory.
    pub fn ours(mut self, words: impl Into<String>) -> Self {
        (self.quoted, self.words) = (words.into(), Words::Ours);
        self
    }

    /// The same claim, measured another way as well.
    pub fn reading(mut self, by: &str, measured: f64, interval: Option<(f64, f64)>) -> Self {
        let verdict = self.bound.judge(measured, interval);
        self.readings.push(Reading { by: by.into(), measured, interval, verdict });
        self
    }

    /// Whether another reading gives another verdict.
    pub fn depends(&self) -> bool {
        self.readings.iter().any(|reading| reading.verdict != self.verdict)
    }

    /// Lays a failure to the network, the protocol or the paper, with the evidence, and says of what is unsettled why.
    /// `other_recipe` says which network was trained how, where that is not the paper's way: `R4 by Muon in 8,000 steps`.
    pub fn explain(&mut self, other_recipe: Option<&str>) {
        let words = match (self.verdict, self.interval) {
            (Verdict::Holds | Verdict::Measured, _) => {
                self.why.clear();
                return;
            }
            (Verdict::Unsettled, _) if self.measured.is_nan() => "Nothing could be measured.".to_string(),
            (Verdict::Unsettled, _) if matches!(self.bound, Bound::Beyond(_)) => {
                "Neither model is better beyond doubt.".to_string()
            }
            (Verdict::Unsettled, _) => "The 95 % interval reaches across what is required.".to_string(),
            (Verdict::Fails, _) if self.kind == Kind::Paper => self.lay(other_recipe),
            (Verdict::Fails, Some(_)) => "The 95 % interval lies outside what is required.".to_string(),
            (Verdict::Fails, None) => "The figure shows what lies behind the number.".to_string(),
        };
        self.why = format!("{} {words}", self.why).trim().to_string();
    }

    /// Whose failure it is, unless that was said already.
    fn lay(&mut self, other_recipe: Option<&str>) -> String {
        let authors = self.readings.iter().find(|reading| reading.by == Reading::AUTHORS);
        let (cause, words) = match (self.cause, other_recipe, authors) {
            (Some(cause), ..) => (cause, String::new()),
            (_, Some(recipe), _) => {
                let words = format!("Not trained as the paper's: {recipe}.");
                (Cause::Network, words)
            }
            (.., Some(reading)) if reading.verdict == Verdict::Holds => {
                let words = format!("By {} it is {} and holds.", reading.by, short(reading.measured));
                (Cause::Protocol, words)
            }
            (.., Some(reading)) => {
                let words = format!(
                    "The network, one seed, was trained by the paper's recipe, and by {} it is {}, which does not hold either.",
                    reading.by,
                    short(reading.measured)
                );
                (Cause::Paper, words)
            }
            (_, None, None) if self.network.is_empty() => {
                (Cause::Paper, "No network and no choice of ours is involved.".into())
            }
            (_, None, None) => {
                (Cause::Paper, "The network, one seed, was trained by the paper's recipe.".into())
            }
        };
        self.cause = Some(cause);
        words
    }

    /// The same claim, shown by a figure.
    pub fn figure(mut self, id: &str) -> Self {
        self.figure = Some(id.to_string());
        self
    }
}

/// A number in a sentence.
fn short(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || (0.001..1e5).contains(&size) => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_follows_the_interval() {
        let claim = |value| Claim::new("X", Kind::Paper, "x", value, Bound::AtMost(1.0));
        assert_eq!(claim(0.5).verdict, Verdict::Holds);
        assert_eq!(claim(1.5).verdict, Verdict::Fails);
        assert_eq!(claim(f64::NAN).verdict, Verdict::Unsettled);
        assert_eq!(claim(0.5).interval(0.4, 0.9).verdict, Verdict::Holds);
        assert_eq!(claim(0.5).interval(0.4, 1.1).verdict, Verdict::Unsettled);
        assert_eq!(claim(1.5).interval(0.9, 2.0).verdict, Verdict::Unsettled);
        assert_eq!(claim(1.5).interval(1.1, 2.0).verdict, Verdict::Fails);
        assert_eq!(Claim::new("X", Kind::Paper, "x", 1.0, Bound::None).verdict, Verdict::Measured);
        let within = |low, high| Bound::Within(2.0, 3.0).judge(2.5, Some((low, high)));
        assert_eq!(
            [within(2.1, 2.9), within(1.9, 2.9), within(1.0, 4.0), within(3.1, 4.0), within(1.0, 1.9)],
            [Verdict::Holds, Verdict::Unsettled, Verdict::Unsettled, Verdict::Fails, Verdict::Fails]
        );
        assert_eq!(Bound::AtLeast(1.0).judge(0.5, Some((0.2, 0.9))), Verdict::Fails);
        let beyond = |low, high| Bound::Beyond(6.0).judge(low, Some((low, high)));
        assert_eq!(
            [beyond(6.5, 9.0), beyond(-1.0, 3.0), beyond(-9.0, -7.0), beyond(-9.0, 7.0)],
            [Verdict::Holds, Verdict::Unsettled, Verdict::Fails, Verdict::Unsettled]
        );
        assert!(Bound::near(0.2, 0.1).admits(0.21) && !Bound::near(0.2, 0.1).admits(0.23));
        assert!(Bound::factor(1e-4, 3.0).admits(2e-4) && !Bound::factor(1e-4, 3.0).admits(4e-4));
    }

    #[test]
    fn a_failure_is_laid_to_the_network_the_protocol_or_the_paper() {
        let laid = |claim: Claim, other: Option<&str>| {
            let mut claim = claim.network("R1");
            claim.explain(other);
            (claim.cause, claim.why)
        };
        let fails = || Claim::new("X", Kind::Paper, "x", 2.0, Bound::AtMost(1.0));
        let (cause, why) = laid(fails(), Some("Muon"));
        assert_eq!(cause, Some(Cause::Network));
        assert!(why.contains("Muon"), "{why}");
        assert_eq!(laid(fails().reading(Reading::AUTHORS, 0.5, None), None).0, Some(Cause::Protocol));
        assert_eq!(laid(fails().reading(Reading::AUTHORS, 1.5, None), None).0, Some(Cause::Paper));
        assert_eq!(laid(fails(), None).0, Some(Cause::Paper));
        let holds = Claim::new("X", Kind::Paper, "x", 0.5, Bound::AtMost(1.0));
        assert_eq!(laid(holds, Some("Muon")), (None, String::new()));
        let beyond = Claim::new("X", Kind::Beyond, "x", 2.0, Bound::AtMost(1.0)).interval(1.5, 2.5);
        let (cause, why) = laid(beyond, None);
        assert!(cause.is_none() && why.contains("outside"), "{why}");
    }
}
