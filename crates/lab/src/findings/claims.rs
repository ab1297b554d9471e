//! Claims: a statement, what was measured, the bound it must meet, and the verdict that follows.

use serde::{Deserialize, Serialize};

use crate::stats::Estimate;

/// What a measured value must satisfy for its statement to hold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Bound {
    /// measured ≤ bound
    AtMost(#[serde(with = "crate::exact")] f64),
    /// measured ≥ bound
    AtLeast(#[serde(with = "crate::exact")] f64),
    /// low ≤ measured ≤ high
    Within(f64, f64),
    /// The paper gives nothing to compare with; the value is reported only.
    None,
}

impl Bound {
    /// Whether `value` satisfies the bound; a NaN satisfies none.
    pub fn admits(self, value: f64) -> bool {
        match self {
            Bound::AtMost(high) => value <= high,
            Bound::AtLeast(low) => value >= low,
            Bound::Within(low, high) => low <= value && value <= high,
            Bound::None => true,
        }
    }

    /// `reference` within a relative tolerance, for numbers quoted with few digits.
    pub fn near(reference: f64, relative: f64) -> Bound {
        let slack = reference.abs() * relative;
        Bound::Within(reference - slack, reference + slack)
    }

    /// `reference` within a factor, for numbers that vary over orders of magnitude.
    pub fn factor(reference: f64, factor: f64) -> Bound {
        Bound::Within(reference / factor, reference * factor)
    }
}

/// What follows from a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The bound is met.
    Holds,
    /// The bound is not met.
    Fails,
    /// The paper does not fix what would decide it.
    Undefined,
}

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
/// assert_eq!(claim.quoted("one in two steps").interval(0.48, 0.56).verdict, Verdict::Holds);
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
    /// The number or words of the paper (or of the reference table), when there are any.
    pub quoted: String,
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
    /// Figure that shows it, by id.
    pub figure: Option<String>,
    /// Why it fails, where it does; a sentence or two.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Claim {
    /// A claim whose verdict is decided here, by its bound, and nowhere else.
    pub fn new(id: &str, kind: Kind, statement: impl Into<String>, measured: f64, bound: Bound) -> Claim {
        let verdict = match bound {
            Bound::None => Verdict::Undefined,
            bound if bound.admits(measured) => Verdict::Holds,
            _ => Verdict::Fails,
        };
        Claim {
            id: id.to_string(),
            kind,
            network: String::new(),
            statement: statement.into(),
            quoted: String::new(),
            measured,
            interval: None,
            bound,
            verdict,
            figure: None,
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

    /// The same claim with its 95 % interval.
    pub fn interval(mut self, low: f64, high: f64) -> Self {
        self.interval = (!low.is_nan() && !high.is_nan()).then_some((low, high));
        self
    }

    /// The same claim with what the paper (or the reference table) says.
    pub fn quoted(mut self, words: impl Into<String>) -> Self {
        self.quoted = words.into();
        self
    }

    /// The same claim with what explains a failure; nothing where it does not fail.
    pub fn why(mut self, words: impl Into<String>) -> Self {
        if self.verdict == Verdict::Fails {
            self.why = words.into();
        }
        self
    }

    /// Adds to a failure whether its prompts could have turned it.
    pub fn explain(&mut self) {
        if self.verdict != Verdict::Fails {
            return;
        }
        let words = match self.interval {
            Some((low, high)) if self.bound.admits(low) || self.bound.admits(high) => {
                "The 95 % interval reaches what is required: other prompts could turn the verdict."
            }
            Some(_) => {
                "The 95 % interval lies outside what is required: other prompts would not turn the verdict."
            }
            None if self.measured.is_nan() => "Nothing could be measured.",
            None if self.why.is_empty() => "The figure shows what lies behind the number.",
            None => "",
        };
        self.why = format!("{} {words}", self.why).trim().to_string();
    }

    /// The same claim, shown by a figure.
    pub fn figure(mut self, id: &str) -> Self {
        self.figure = Some(id.to_string());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_follows_the_measured_value() {
        let claim = |value| Claim::new("X", Kind::Paper, "x", value, Bound::AtMost(1.0)).verdict;
        assert_eq!(claim(0.5), Verdict::Holds);
        assert_eq!(claim(1.5), Verdict::Fails);
        assert_eq!(claim(f64::NAN), Verdict::Fails);
        assert_eq!(Claim::new("X", Kind::Paper, "x", 1.0, Bound::None).verdict, Verdict::Undefined);
        assert!(Bound::near(0.2, 0.1).admits(0.21) && !Bound::near(0.2, 0.1).admits(0.23));
        assert!(Bound::factor(1e-4, 3.0).admits(2e-4) && !Bound::factor(1e-4, 3.0).admits(4e-4));
    }
}
