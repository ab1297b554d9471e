//! How a claim is judged: the bound, the verdict, what a failure is laid to, and other readings of the same.

use serde::{Deserialize, Serialize};

/// What a measured value must satisfy for its statement to hold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Bound {
    /// measured ≤ bound
    AtMost(#[serde(with = "crate::exact")] f64),
    /// measured ≥ bound
    AtLeast(#[serde(with = "crate::exact")] f64),
    /// low ≤ measured ≤ high
    Within(f64, f64),
    /// A difference between two models that must be this large to be beyond doubt: it fails only where the other model is
    /// better by as much, and is unsettled between
    Beyond(f64),
    /// Nothing is required; the value is reported only.
    None,
}

impl Bound {
    /// Whether `value` satisfies the bound; a NaN satisfies none.
    pub fn admits(self, value: f64) -> bool {
        match self {
            Bound::AtMost(high) => value <= high,
            Bound::AtLeast(low) | Bound::Beyond(low) => value >= low,
            Bound::Within(low, high) => low <= value && value <= high,
            Bound::None => true,
        }
    }

    /// What follows from a value and its interval; the value alone decides where it has none, being exact or a count.
    pub fn judge(self, value: f64, interval: Option<(f64, f64)>) -> Verdict {
        let (low, high) = interval.unwrap_or((value, value));
        let misses = match self {
            Bound::None => return Verdict::Measured,
            _ if value.is_nan() => return Verdict::Unsettled,
            Bound::AtMost(most) => low > most,
            Bound::AtLeast(least) => high < least,
            Bound::Beyond(least) => high <= -least,
            Bound::Within(least, most) => high < least || low > most,
        };
        match (self.admits(low) && self.admits(high), misses) {
            (true, _) => Verdict::Holds,
            (_, true) => Verdict::Fails,
            _ => Verdict::Unsettled,
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
    /// The whole 95 % interval meets the bound.
    Holds,
    /// The whole interval misses it.
    Fails,
    /// The interval reaches across the bound, or nothing could be measured.
    Unsettled,
    /// Nothing is required: the value is reported, and counts for and against nobody.
    #[serde(alias = "undefined")]
    Measured,
}

impl Verdict {
    /// All of them, in reading order.
    pub const ALL: [Verdict; 4] = [Verdict::Holds, Verdict::Fails, Verdict::Unsettled, Verdict::Measured];

    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Fails => "fails",
            Verdict::Unsettled => "unsettled",
            Verdict::Measured => "measured",
        }
    }
}

/// What a failure is laid to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// (a) The network: it was trained otherwise than the paper's.
    Network,
    /// (b) The protocol: by the authors' own choices of prompts, grids and starts it does not fail.
    Protocol,
    /// (c) The paper: its network and its protocol give another answer than its words.
    Paper,
}

impl Cause {
    /// Without its letter.
    pub fn word(self) -> &'static str {
        match self {
            Cause::Network => "the network",
            Cause::Protocol => "the protocol",
            Cause::Paper => "the paper",
        }
    }

    /// As a reader meets it.
    pub fn words(self) -> &'static str {
        match self {
            Cause::Network => "(a) the network",
            Cause::Protocol => "(b) the protocol",
            Cause::Paper => "(c) the paper",
        }
    }
}

/// Where the words under *quoted* come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Words {
    /// The paper, literally; `scripts/check-quotes` finds them in its source.
    Paper,
    /// Ours: what the paper says in other words, a number of the reference table, or theory.
    #[default]
    Ours,
}

/// The same claim measured another way, beside the way that decides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Which way, in words: [`Reading::AUTHORS`], `layers by our rule`.
    pub by: String,
    /// What it gives; NaN is written as null.
    #[serde(with = "crate::exact")]
    pub measured: f64,
    /// Its 95 % interval, when it has one.
    #[serde(with = "crate::exact")]
    pub interval: Option<(f64, f64)>,
    /// The verdict that it would give.
    pub verdict: Verdict,
}

impl Reading {
    /// The choices of the authors' published code: 320 prompts, t = 0…40, their grids of steps, random starts.
    pub const AUTHORS: &str = "the authors' protocol";
    /// The middle layers as this project chooses them, where the paper names layers.
    pub const OUR_LAYERS: &str = "layers by our rule";
}
