//! N11, the tests: five numbers of what a Transformer does inside, and what they say of a candidate.
//!
//! The tests, their margins and the candidates were written down on 2026-11-17 before the states of any trained network had been
//! read; where labels live in R1 was known from N10. Changed after a first look, for reasons that are not the networks': gains
//! are counted against the mean where that guesses better than the token's own x and y, what is faint is left out, and prompts
//! have at least 5d/4 pairs (heavy tails had let constructions hold residuals that they do not hold); candidates
//! are those that see only the past, as networks do; iterations per layer are shown but refute nothing.

use crate::analyses::kit::prelude::*;
use crate::patching::{Maps, Place};
use crate::states::{Quantity, Role, States};

/// A number that is measured inside a Transformer.
pub struct Test {
    /// Name in ids.
    pub name: &'static str,
    /// What it is, as a column.
    pub words: &'static str,
    /// What it is, in a sentence.
    pub says: &'static str,
    /// Two Transformers differ where it differs by more; none where it depends on step sizes, which a network may learn.
    pub margin: Option<f64>,
}

/// Shares and gains differ where they differ by more.
pub const MARGIN: f64 = 0.25;

/// All tests, in the order of [`Inside::values`].
pub const TESTS: [Test; 5] = [
    Test {
        name: "read-gradually",
        words: "labels read bit by bit",
        says: "How far answers follow other labels in the y tokens and, at the same layer, in the query: the smaller, at the \
               layer where it is largest",
        margin: Some(MARGIN),
    },
    Test {
        name: "residuals",
        words: "residuals in y tokens",
        says: "How much of the residual y − x·w_k the y tokens hold that does not follow from x and y: the gain at the best layer \
               and k, w_k by Newton from ηI with or without the pair itself",
        margin: Some(MARGIN),
    },
    Test {
        name: "pairs-transformed",
        words: "T_k x in y tokens",
        says: "How much of T_k x the y tokens hold that does not follow from x and y: the gain at the best layer and k",
        margin: Some(MARGIN),
    },
    Test {
        name: "query-transformed",
        words: "T_k x in x tokens",
        says: "How much of T_k x the x tokens, each a query, hold that does not follow from x: the gain at the best layer and k",
        margin: Some(MARGIN),
    },
    Test {
        name: "iterations-per-layer",
        words: "iterations per layer",
        says: "By how many iterations of Newton from ηI the answer x·w_k that is read best at an x token grows per layer",
        margin: None,
    },
];

/// What was measured inside a Transformer.
pub struct Inside {
    /// One for each of [`TESTS`]; NaN where there is nothing to measure.
    pub values: [Estimate; 5],
}

impl Inside {
    /// Nothing was measured.
    pub fn none() -> Inside {
        Inside { values: [Estimate::NONE; 5] }
    }

    /// From where labels live and what the states hold.
    pub fn of(labels: &Maps, states: &States) -> Inside {
        let at = |place: Place| labels.at(place).expect("roles were patched");
        let both = at(Place::Y).into_iter().zip(at(Place::Query));
        let smaller = both.map(|(y, query)| if y.value < query.value { y } else { query });
        let largest = |all: &mut dyn Iterator<Item = Estimate>| {
            all.max_by(|a, b| a.value.total_cmp(&b.value)).unwrap_or(Estimate::NONE)
        };
        let gain = |role: Role, quantities: &[Quantity]| {
            let best = quantities.iter().flat_map(|&q| (0..=states.layers).map(move |l| (l, q)));
            let mut best = best.filter_map(|(layer, q)| states.best(layer, role, q)).map(|d| d.gain);
            largest(&mut best)
        };
        Inside {
            values: [
                largest(&mut smaller.into_iter()),
                gain(Role::Y, &[Quantity::Residual, Quantity::Innovation]),
                gain(Role::Y, &[Quantity::Transformed]),
                gain(Role::X, &[Quantity::Transformed]),
                growth(states),
            ],
        }
    }
}

/// The slope of the iteration that is read best in the answer, without an interval, from the first layer that has one to the first that has the last.
fn growth(states: &States) -> Estimate {
    let steps = states.best_steps(Role::X, Quantity::Answer);
    let Some(last) = steps.iter().map(|(_, k)| *k).max() else { return Estimate::NONE };
    let end = steps.iter().position(|(_, k)| *k == last).map_or(0, |at| at + 1);
    let points: Vec<(f64, f64)> = steps[..end].iter().map(|&(l, k)| (l as f64, k as f64)).collect();
    if points.len() < 3 {
        return Estimate::NONE;
    }
    let (_, slope, _) = line(&points);
    Estimate { value: slope, low: slope, high: slope }
}

/// What one test says of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// The network's interval lies within the margin of the candidate's value.
    Agrees,
    /// It lies outside.
    Refutes,
    /// Neither.
    Open,
    /// It is not asked.
    Nothing,
}

impl Test {
    /// What it says of a candidate of which it should be `expected`.
    pub fn says_of(&self, found: Estimate, expected: f64) -> Says {
        let Some(margin) = self.margin else { return Says::Nothing };
        let within = |v: f64| (v - expected).abs() <= margin;
        if expected.is_nan() || found.value.is_nan() {
            Says::Open
        } else if within(found.low) && within(found.high) {
            Says::Agrees
        } else if !within(found.low)
            && !within(found.high)
            && (found.low - expected).signum() == (found.high - expected).signum()
        {
            Says::Refutes
        } else {
            Says::Open
        }
    }
}

/// The verdict on a candidate, in words, with the numbers of the tests that refute it or leave it open, from 1.
pub fn verdict(found: &Inside, expected: &Inside) -> String {
    let values = found.values.iter().zip(&expected.values);
    let said: Vec<Says> = TESTS.iter().zip(values).map(|(t, (f, e))| t.says_of(*f, e.value)).collect();
    let which = |says: Says| -> Vec<String> {
        (0..said.len()).filter(|&i| said[i] == says).map(|i| (i + 1).to_string()).collect()
    };
    match (which(Says::Refutes).join(", "), which(Says::Open).join(", ")) {
        (by, _) if !by.is_empty() => format!("refuted by {by}"),
        (_, open) if !open.is_empty() => format!("cannot be told (open: {open})"),
        _ => "fits".into(),
    }
}

/// A number for a table.
pub fn cell(value: f64) -> String {
    if value.is_nan() { "–".into() } else { format!("{value:.2}") }
}

/// The same with its interval, where it has one.
pub fn measured_cell(value: &Estimate) -> String {
    if value.low < value.high { value.cell(2) } else { cell(value.value) }
}
