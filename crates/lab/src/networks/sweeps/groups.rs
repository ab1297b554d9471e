//! Points that differ by their seed alone, and the axes along which groups lie.

use toml::Value;

use super::measure::Measured;
use super::plan::{SEED, Sweep, plain};
use crate::stats::{Estimate, over_runs, over_runs_log};

/// Runs that differ by their seed alone.
pub struct Group<'a> {
    /// What they share: `network.width=8`.
    pub label: String,
    /// The runs.
    pub runs: Vec<&'a Measured>,
}

impl Group<'_> {
    /// Mean over the runs, with its interval.
    pub fn mean(&self, value: impl Fn(&Measured) -> f64) -> Estimate {
        over_runs(&self.runs.iter().map(|run| value(run)).collect::<Vec<_>>())
    }

    /// Geometric mean over the runs, with its interval.
    pub fn log_mean(&self, value: impl Fn(&Measured) -> f64) -> Estimate {
        over_runs_log(&self.runs.iter().map(|run| value(run)).collect::<Vec<_>>())
    }
}

/// The groups of measured runs, in the order of the points.
pub fn groups<'a>(sweep: &Sweep, measured: &'a [Measured]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group> = Vec::new();
    for run in measured {
        let label = sweep.group(&sweep.points[run.point]);
        match groups.iter_mut().find(|group| group.label == label) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group { label, runs: vec![run] }),
        }
    }
    groups
}

/// Where the values of one field lie on the axis of a figure.
pub struct AxisPositions {
    /// Number of each of the field's values, in the order of the points.
    pub at: Vec<f64>,
    /// What the numbers mean, where they are only positions in a list.
    pub key: Option<String>,
    /// Whether they grow by factors.
    pub by_factors: bool,
}

/// Numbers for the values of a field: themselves, the number after their last `=` (`skewed:kappa=10`), or positions.
pub fn positions(sweep: &Sweep, field: usize) -> AxisPositions {
    let values: Vec<&Value> = sweep.points.iter().map(|point| &point.values[field]).collect();
    let number = |value: &&Value| match value {
        Value::Integer(i) => Some(*i as f64),
        Value::Float(f) => Some(*f),
        Value::String(text) => text.rsplit_once('=')?.1.parse().ok(),
        _ => None,
    };
    let stem = |value: &&Value| {
        value.as_str().and_then(|text| text.rsplit_once('=')).map(|(stem, _)| stem.to_string())
    };
    let numbers: Option<Vec<f64>> = values.iter().map(number).collect();
    let alike = values.windows(2).all(|pair| stem(&pair[0]) == stem(&pair[1]));
    if let Some(at) = numbers.filter(|_| alike) {
        let mut distinct = at.clone();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        let widest = distinct.windows(2).map(|w| w[1] - w[0]).fold(0.0, f64::max);
        let narrowest = distinct.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
        let by_factors = distinct.len() > 2 && distinct[0] > 0.0 && widest > 1.9 * narrowest;
        return AxisPositions { at, key: None, by_factors };
    }
    let mut names: Vec<String> = Vec::new();
    let at = values.iter().map(|value| {
        let name = plain(value);
        let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        (place + 1) as f64
    });
    let at = at.collect();
    let key: Vec<String> = names.iter().enumerate().map(|(i, name)| format!("{} is {name}", i + 1)).collect();
    AxisPositions { at, key: Some(key.join(", ")), by_factors: false }
}

/// A point in words, one field and the seed left out: what a curve over that field is called.
pub fn others(sweep: &Sweep, point: usize, field: usize) -> String {
    let values = &sweep.points[point].values;
    let parts = sweep.fields.iter().zip(values).enumerate();
    let parts = parts.filter(|(i, (name, _))| *i != field && *name != SEED);
    let parts: Vec<String> = parts.map(|(_, (name, value))| format!("{name}={}", plain(value))).collect();
    if parts.is_empty() { "mean over seeds".into() } else { parts.join(", ") }
}
