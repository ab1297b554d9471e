//! The numbers of a fingerprint, for programs: JSON, and arrays for NumPy.

use std::path::Path;

use serde_json::{Value, json};

use super::{Identified, Worth};
use crate::data::npz::{self, Values};
use crate::error::Result;
use crate::fingerprint::plan::Plan;
use crate::fingerprint::{AfterPairs, Linearity, Named, ReturnMap, Shape, Unexplained};
use crate::stats::Estimate;

impl Identified {
    /// The numbers in words that programs read; all of the filters are in the arrays.
    pub fn json(&self, plan: &Plan) -> Value {
        let Identified { fingerprint, naming, .. } = self;
        let lengths: Vec<Value> = fingerprint.lengths.iter().map(length).collect();
        let worth = self.worth().map(|Worth { between, range, overall }| {
            json!({
                "between": between, "iterations": estimate(&overall.iterations), "range": range,
                "order": overall.iterations.value.exp2(), "a": estimate(&overall.a), "b": estimate(&overall.b),
            })
        });
        let units: serde_json::Map<String, Value> = self.units.0.iter().map(unexplained).collect();
        json!({
            "learner": plan.learner,
            "steps": fingerprint.steps.as_slice(),
            "prompts": fingerprint.prompts,
            "unit": self.unit,
            "unexplained_by_unit": units,
            "answer": self.answer(),
            "names": naming.names(),
            "informative": naming.informative,
            "candidates": naming.candidates.iter().map(candidate).collect::<Vec<_>>(),
            "worth": worth,
            "after": lengths,
            "linearity": self.linearity.as_ref().map(linearity),
            "notes": self.notes,
        })
    }

    /// Writes `fingerprint.npz`: axes l (number of pairs), s (step), k (knot), c (candidate, as in the JSON). NaN where
    /// nothing can be said.
    pub fn write_arrays(&self, path: &Path) -> Result<()> {
        let (found, naming) = (&self.fingerprint, &self.naming);
        let (l, s, c) = (found.lengths.len(), found.steps.len(), naming.candidates.len());
        let k = found.lengths.first().map_or(0, |after| after.knots.count());
        let mut real: Vec<(String, Vec<usize>, Vec<f64>)> = Vec::new();
        let mut add = |name: &str, shape: &[usize], values: Vec<f64>| {
            real.push((name.into(), shape.to_vec(), values));
        };
        let per_length = |of: &dyn Fn(&AfterPairs) -> Vec<f64>| found.lengths.iter().flat_map(of).collect();
        add("knots", &[l, k], per_length(&|after| after.knots.values.clone()));
        for (end, of) in ENDS {
            let name = |name: &str| format!("{name}{end}");
            let all = |after: &AfterPairs| after.filters.iter().flatten().map(of).collect();
            add(&name("filters"), &[l, s, k], per_length(&all));
            add(&name("remaining"), &[l, s], per_length(&|a| a.remaining.iter().map(of).collect()));
            add(&name("unexplained"), &[l, s], per_length(&|a| a.unexplained.iter().map(of).collect()));
            let shape = |after: &AfterPairs, i: usize| -> Vec<f64> {
                let of = |shape: &Option<Shape>| {
                    shape.map_or(f64::NAN, |shape| of(&[shape.exponent, shape.cutoff][i]))
                };
                after.shapes.iter().map(of).collect()
            };
            add(&name("exponent"), &[l, s], per_length(&|after| shape(after, 0)));
            add(&name("cutoff"), &[l, s], per_length(&|after| shape(after, 1)));
            let map = |after: &AfterPairs, part: fn(&ReturnMap) -> Estimate| -> Vec<f64> {
                after.maps.iter().map(|map| map.map_or(f64::NAN, |map| of(&part(&map)))).collect()
            };
            for (part, value) in MAP {
                add(&name(part), &[l, s - 1], per_length(&|after| map(after, value)));
            }
        }
        let known = |after: &AfterPairs| !after.degrees.is_empty();
        if found.lengths.iter().all(known) {
            let degree = |degree: &Option<usize>| degree.map_or(f64::NAN, |degree| degree as f64);
            add("degrees", &[l, s], per_length(&|after| after.degrees.iter().map(degree).collect()));
        }
        let outside = |after: &AfterPairs| match after.outside.is_empty() {
            true => vec![f64::NAN; s],
            false => after.outside.clone(),
        };
        add("outside", &[l, s], per_length(&outside));
        add("left", &[c, s], naming.candidates.iter().flat_map(|named| named.left.clone()).collect());
        add("score", &[c], naming.candidates.iter().map(|named| named.score.value).collect());
        if let Some(Linearity { query_scaled, query_added, labels_scaled, labels_added, .. }) =
            &self.linearity
        {
            for (name, shares) in [
                ("query_scaled", query_scaled),
                ("query_added", query_added),
                ("labels_scaled", labels_scaled),
                ("labels_added", labels_added),
            ] {
                add(name, &[s], shares.iter().map(|share| share.value).collect());
            }
        }
        let pairs: Vec<u64> = found.lengths.iter().map(|after| after.pairs as u64).collect();
        let closest: Vec<u64> = naming.candidates.iter().flat_map(|named| named.steps.clone()).collect();
        let mut all: Vec<(&str, &[usize], Values)> = Vec::new();
        let shapes = ([s], [l], [c, s]);
        all.push(("steps", &shapes.0, Values::Whole(found.steps.as_slice())));
        all.push(("pairs", &shapes.1, Values::Whole(&pairs)));
        all.push(("closest_steps", &shapes.2, Values::Whole(&closest)));
        all.extend(real.iter().map(|(name, shape, values)| (&**name, &shape[..], Values::Real(values))));
        npz::write(path, &all)
    }
}

/// One number of an estimate, with what its name ends with.
type End = (&'static str, fn(&Estimate) -> f64);
/// One number of a return map, with its name.
type OfMap = (&'static str, fn(&ReturnMap) -> Estimate);

/// A value, and the ends of its interval under the same name.
const ENDS: [End; 3] = [("", |e| e.value), ("_low", |e| e.low), ("_high", |e| e.high)];

/// What a return map holds.
const MAP: [OfMap; 3] = [("a", |m| m.a), ("b", |m| m.b), ("order", |m| m.order)];

fn estimate(e: &Estimate) -> Value {
    json!({"value": e.value, "low": e.low, "high": e.high})
}

fn length(after: &AfterPairs) -> Value {
    let all = |estimates: &[Estimate]| estimates.iter().map(estimate).collect::<Vec<_>>();
    let exponents = after.shapes.iter().map(|shape| shape.map(|shape| estimate(&shape.exponent)));
    let maps = after.maps.iter().map(|map| {
        map.map(|map| json!({"a": estimate(&map.a), "b": estimate(&map.b), "order": estimate(&map.order)}))
    });
    json!({
        "pairs": after.pairs,
        "knots": after.knots.values,
        "filters": (0..after.filters.len()).map(|s| after.filter(s)).collect::<Vec<_>>(),
        "remaining": all(&after.remaining),
        "unexplained": all(&after.unexplained),
        "outside": after.outside,
        "exponents": exponents.collect::<Vec<_>>(),
        "maps": maps.collect::<Vec<_>>(),
        "degrees": after.degrees,
    })
}

fn unexplained(of: &Unexplained) -> (String, Value) {
    (of.unit.words().0.into(), json!({"mean": of.mean, "median": of.median}))
}

fn candidate(named: &Named) -> Value {
    json!({
        "name": named.name, "leaves": estimate(&named.score), "behind": estimate(&named.behind), "tied": named.tied,
        "steps": named.steps, "left": named.left,
    })
}

fn linearity(found: &Linearity) -> Value {
    let all = |shares: &[Estimate]| shares.iter().map(estimate).collect::<Vec<_>>();
    json!({
        "pairs": found.pairs,
        "query_scaled": all(&found.query_scaled),
        "query_added": all(&found.query_added),
        "labels_scaled": all(&found.labels_scaled),
        "labels_added": all(&found.labels_added),
    })
}
