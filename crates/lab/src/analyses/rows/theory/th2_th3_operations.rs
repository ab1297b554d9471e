//! TH2 and TH3: the operations of which the proof is made, each in one layer, with the error it really has.

use std::sync::Arc;

use ndarray::{Array1, Array2};

use crate::analyses::kit::prelude::*;
use crate::constructions::operations::{
    aff, div, inner_product, mov, mov_softmax, mul, mul_gelu, reciprocal_grid, sum, sum_softmax,
    sum_with_two_heads,
};
use crate::constructions::transformer::{Activation, Columns, Layer, Transformer};
use crate::constructions::{Positions, Slots};
use crate::data::seed::Seed;
use crate::linalg::dot;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "TH2",
        paper: Some(("Lemma B.3", "B.1")),
        order: 20,
        title: "Can one layer sum all columns?",
        summary: "Every column receives the sum of all columns: by one ReLU head with the constant score 1, by the \
                  two heads of the paper's lemma (equal values are right here, since ReLU(1) + ReLU(−1) = 1), and by \
                  softmax over equal scores.",
        run: sums,
        ..Analysis::THEORY
    },
    Analysis {
        id: "TH3",
        paper: Some(("Proposition B.4", "B.1")),
        order: 30,
        title: "Can one layer each do mov, aff, mul and div?",
        summary: "mov selects a column by a gate on positions: exact with ReLU up to ε/gap, where two circles of \
                  positions leave a gap of 5/N in place of 5/N²; with softmax the error falls like exp(−2·scale). \
                  aff is exact for ReLU and for GELU, since σ(z) − σ(−z) = z for both. mul is exact by ReLU \
                  attention for bounded factors; by GELU it has an error that falls like scale² until round-off \
                  takes over. div is out of reach of ReLU, which is piecewise polynomial; softmax does it, since the \
                  mean of the exponential distribution is 1/|c|, with the columns as nodes of the integral.",
        run: operations,
        ..Analysis::THEORY
    },
];

/// An error as it is drawn: 0 has no place on a logarithmic axis.
fn drawn(error: f64) -> f64 {
    error.max(1e-17)
}

fn sums(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let ways = [
        ("relu", "one ReLU head", "One ReLU head"),
        ("two-heads", "two ReLU heads", "Two ReLU heads as printed"),
        ("softmax", "softmax", "Softmax"),
    ];
    // errors[columns][way]
    let errors = COLUMNS.map(|columns| {
        let (states, _) = ordinary(lab.seed, columns, false);
        let wires = [("u", "to", 1.0)];
        let right: Vec<f64> =
            (0..SIZE).map(|i| (0..columns).map(|p| states.value("u", p, i)).sum()).collect();
        let layers = [sum, sum_with_two_heads, sum_softmax].map(|way| way(states.slots(), columns, &wires));
        layers.map(|layer| states.error(&states.pass(layer), "to", |_, i| right[i]))
    });
    let mut series = Vec::new();
    for (i, (name, label, words)) in ways.into_iter().enumerate() {
        note.claim(name, worst(errors.iter().map(|e| e[i])), AtMost(1e-12))
            .says(format!("{words}: largest relative error, N up to 401"))
            .quoted("one attention layer can compute");
        let points = COLUMNS.iter().zip(&errors).map(|(&n, e)| (n as f64, drawn(e[i]))).collect();
        series.push(Series::new(label, points).markers());
    }
    let title = "Error of the sum of all columns";
    let caption = "Largest relative error of one layer; an error of 0 is drawn at 10⁻¹⁷.";
    let panel = LinesPanel::new(Axis::log2("columns N"), Axis::log10("relative error"), series);
    note.figure("sum", title, caption, [panel]);
    let rows = COLUMNS.iter().zip(errors).map(|(columns, errors)| {
        std::iter::once(columns.to_string()).chain(errors.map(|e| format!("{e:.1e}"))).collect()
    });
    let heads = ["N"].into_iter().chain(ways.map(|(_, label, _)| label));
    note.table("sum", title, "Largest relative error of one layer, by the number of columns N.", heads, rows);
    Ok(())
}

fn operations(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let seed = lab.seed;
    let by_columns = |error: &dyn Fn(usize) -> f64| -> Vec<(f64, f64)> {
        COLUMNS.iter().map(|&n| (n as f64, drawn(error(n)))).collect()
    };
    let one_circle = by_columns(&|n| mov_error(seed, n, false));
    let two_circles = by_columns(&|n| mov_error(seed, n, true));
    let mul_relu = by_columns(&|n| mul_error(seed, n));
    let inner_relu = by_columns(&|n| inner_error(seed, n));
    let softmax: Vec<(f64, f64)> =
        (1..=20).map(f64::from).map(|scale| (scale, drawn(mov_softmax_error(seed, scale)))).collect();
    let scales = (0..=28).map(|i| 10f64.powf(-f64::from(i) / 4.0));
    let gelu: Vec<(f64, f64)> = scales.map(|scale| (scale, mul_gelu_error(seed, scale))).collect();
    let division: Vec<(f64, f64)> = COLUMNS[2..].iter().map(|&n| (n as f64, div_error(seed, n))).collect();
    let largest = |points: &[(f64, f64)]| worst(points.iter().map(|p| p.1));
    let best_gelu = gelu.iter().fold(f64::INFINITY, |m: f64, p| m.min(p.1));
    let decay: Vec<(f64, f64)> = softmax[2..12].iter().map(|p| (p.0, p.1.ln())).collect();
    let order: Vec<(f64, f64)> = gelu[4..12].iter().map(|p| (p.0.ln(), p.1.ln())).collect();
    let mut claim = |name: &str, value: f64, bound: Bound, says: &str| {
        note.claim(name, value, bound).says(says).quoted("can be implemented by a single transformer layer");
    };
    let up_to = "largest relative error, N up to 401";
    claim("mov", largest(&two_circles), AtMost(1e-12), &format!("mov, ReLU on two circles: {up_to}"));
    let fall = "mov, softmax: change of log error per unit of scale";
    claim("mov-softmax", line(&decay).1, Within(-2.2, -1.8), fall);
    claim("aff", aff_error(seed), AtMost(1e-14), "aff, ReLU and GELU: largest relative error");
    let both = largest(&mul_relu).max(largest(&inner_relu));
    claim("mul", both, AtMost(1e-10), &format!("mul, ReLU attention: {up_to}"));
    claim("mul-gelu", line(&order).1, Within(1.9, 2.1), "mul, GELU: order of the error in the scale");
    claim("mul-gelu-best", best_gelu, AtMost(1e-6), "mul, GELU: smallest relative error over all scales");
    let div = "div, softmax over 401 columns and GELU: largest relative error for |c| from 0.5 to 8";
    claim("div", div_error(seed, 401), AtMost(1e-5), div);

    let marked = |label: &str, points: Vec<(f64, f64)>| Series::new(label, points).markers();
    let exact = vec![
        marked("mov, one circle", one_circle),
        marked("mov, two circles", two_circles),
        marked("mul, number · vector", mul_relu),
        marked("mul, inner product", inner_relu),
    ];
    let panel = |title: &str, x: Axis, series: Vec<Series>| {
        LinesPanel::new(x, Axis::log10("largest relative error"), series).titled(title)
    };
    let columns = || Axis::log2("columns N");
    let panels = [
        panel("exact by ReLU", columns(), exact),
        panel("mov by softmax", Axis::linear("scale of the score"), vec![marked("mov", softmax)]),
        panel("mul by GELU", Axis::log10("scale of the factors"), vec![marked("mul", gelu)]),
        panel("div by softmax and GELU", columns(), vec![marked("div", division)])
            .mark_y("best mul by GELU", best_gelu),
    ];
    let caption = "One layer each, on random columns, against the operation itself. (a) Exact constructions: what is left \
                   is round-off over the gap of the gate. (b) mov by softmax against the scale of its score, 81 columns. \
                   (c) mul by GELU against the scale of its factors: the error of the square falls like scale², round-off \
                   grows like 1/scale. (d) div by softmax, with the columns as nodes, for |c| from 0.5 to 8; the product \
                   is by GELU and limits it from below.";
    note.figure("operations", "The error of each operation", caption, panels);
    Ok(())
}

/// Size of the vectors that are moved and multiplied.
const SIZE: usize = 5;
/// Numbers of columns.
const COLUMNS: [usize; 7] = [5, 11, 21, 41, 81, 201, 401];

/// Hidden states with random entries in the slots asked for, and a Transformer around one layer.
struct OneLayer {
    transformer: Transformer,
    h: Array2<f64>,
}

impl OneLayer {
    fn new(seed: Seed, slots: Slots, columns: usize, random: &[&str], table: Array2<f64>) -> OneLayer {
        let mut h = table.clone();
        let mut draws = seed.at("constructions/operations", columns as u64);
        for slot in random {
            for p in 0..columns {
                slots.range(slot).for_each(|w| h[[p, w]] = draws.normal());
            }
        }
        let width = slots.width();
        let transformer = Transformer {
            read_in: Array2::zeros((width, 2)),
            positions: table,
            layers: vec![],
            read_out: Array1::zeros(width),
            slots,
        };
        OneLayer { transformer, h }
    }

    fn slots(&self) -> &Slots {
        &self.transformer.slots
    }

    /// Hidden states after the layer.
    fn pass(&self, layer: Layer) -> Array2<f64> {
        let mut columns = Columns { seen: self.h.nrows(), h: self.h.clone() };
        self.transformer.pass(&Arc::new(layer), &mut columns, 0);
        columns.h
    }

    /// Largest deviation of a slot from what it should hold, `right(column, entry)`, relative to the largest right value.
    fn error(&self, after: &Array2<f64>, slot: &str, right: impl Fn(usize, usize) -> f64) -> f64 {
        let slot = self.slots().range(slot);
        let places = (0..after.nrows()).flat_map(|p| slot.clone().enumerate().map(move |(i, w)| (p, i, w)));
        let pairs: Vec<(f64, f64)> = places.map(|(p, i, w)| (after[[p, w]], right(p, i))).collect();
        worst(pairs.iter().map(|(found, right)| (found - right).abs()))
            / worst(pairs.iter().map(|(_, right)| right.abs()))
    }

    fn value(&self, slot: &str, p: usize, i: usize) -> f64 {
        self.h[[p, self.slots().range(slot).start + i]]
    }
}

/// Slots of vectors and numbers, with positions on two circles (the first alone serves for one).
fn ordinary(seed: Seed, columns: usize, two: bool) -> (OneLayer, Positions) {
    let mut slots = vec![("u", SIZE, ""), ("v", SIZE, ""), ("y", 1, ""), ("to", SIZE, ""), ("out", 1, "")];
    slots.extend([("cos", 1, ""), ("sin", 1, ""), ("cos2", 1, ""), ("sin2", 1, ""), ("one", 1, "")]);
    let slots = Slots::new(&slots);
    let positions = if two { Positions::two_circles(columns) } else { Positions::one_circle(columns) };
    let mut table = Array2::zeros((columns, slots.width()));
    positions.write(&slots, &mut table);
    table.column_mut(slots.range("one").start).fill(1.0);
    (OneLayer::new(seed, slots, columns, &["u", "v", "y"], table), positions)
}

fn mov_error(seed: Seed, columns: usize, two: bool) -> f64 {
    let (states, positions) = ordinary(seed, columns, two);
    let layer = mov(states.slots(), &positions, columns, 1.0, &[("u", "to", 1.0)], None);
    let before = |p: usize, i: usize| if p == 0 { 0.0 } else { states.value("u", p - 1, i) };
    states.error(&states.pass(layer), "to", before)
}

/// The first column has nothing before it; softmax must look somewhere, so only the others are judged.
fn mov_softmax_error(seed: Seed, scale: f64) -> f64 {
    let (states, positions) = ordinary(seed, 81, false);
    let layer = mov_softmax(states.slots(), &positions, scale, 1.0, &[("u", "to", 1.0)]);
    let after = states.pass(layer);
    let slot = states.slots().range("to").start;
    let before = |p: usize, i: usize| if p == 0 { after[[0, slot + i]] } else { states.value("u", p - 1, i) };
    states.error(&after, "to", before)
}

fn aff_error(seed: Seed) -> f64 {
    let (states, _) = ordinary(seed, 81, false);
    let of = |activation: Activation| {
        let layer = aff(states.slots(), activation, &[("u", 2.0), ("v", -0.5)], 0.25, "v");
        let right = |p: usize, i: usize| 2.0 * states.value("u", p, i) - 0.5 * states.value("v", p, i) + 0.25;
        states.error(&states.pass(layer), "v", right)
    };
    of(Activation::Relu).max(of(Activation::Gelu))
}

/// Factors here are standard normal: none reaches twice this.
const BOUND: f64 = 16.0;

fn mul_error(seed: Seed, columns: usize) -> f64 {
    let (states, positions) = ordinary(seed, columns, true);
    let layer = mul(states.slots(), &positions, columns, BOUND, ("y", "u", "to"));
    states.error(&states.pass(layer), "to", |p, i| states.value("y", p, 0) * states.value("u", p, i))
}

fn inner_error(seed: Seed, columns: usize) -> f64 {
    let (states, positions) = ordinary(seed, columns, true);
    let layer = inner_product(states.slots(), &positions, columns, BOUND, ("u", "v", "out"));
    let vector = |slot: &str, p: usize| -> Vec<f64> { (0..SIZE).map(|i| states.value(slot, p, i)).collect() };
    states.error(&states.pass(layer), "out", |p, _| dot(&vector("u", p), &vector("v", p)))
}

/// A 2×3 matrix times a 3×2 matrix.
fn mul_gelu_error(seed: Seed, scale: f64) -> f64 {
    let slots = Slots::new(&[("left", 6, ""), ("right", 6, ""), ("to", 4, "")]);
    let layer = mul_gelu(&slots, scale, (2, 3, 2), ("left", "right", "to"));
    let table = Array2::zeros((20, slots.width()));
    let states = OneLayer::new(seed, slots, 20, &["left", "right"], table);
    states.error(&states.pass(layer), "to", |p, e| {
        let (i, k) = (e / 2, e % 2);
        (0..3).map(|j| states.value("left", p, i * 3 + j) * states.value("right", p, j * 2 + k)).sum()
    })
}

fn div_error(seed: Seed, columns: usize) -> f64 {
    let mut slots = vec![("u", SIZE, ""), ("c", 1, ""), ("reciprocal", 1, ""), ("to", SIZE, "")];
    slots.extend([("node", 1, ""), ("distance", 1, ""), ("log_weight", 1, ""), ("one", 1, "")]);
    let slots = Slots::new(&slots);
    let mut table = Array2::zeros((columns, slots.width()));
    reciprocal_grid(&slots, 1e-9, 120.0, &mut table);
    table.column_mut(slots.range("one").start).fill(1.0);
    let mut states = OneLayer::new(seed, slots, columns, &["u"], table);
    let place = states.slots().range("c").start;
    for p in 0..columns {
        // Both signs, sizes from 0.5 to 8.
        let size = 0.5 * 16f64.powf(p as f64 / (columns - 1) as f64);
        states.h[[p, place]] = if p % 2 == 0 { size } else { -size };
    }
    let layer = div(states.slots(), 1e-5, ("u", "c", "reciprocal", "to"));
    states.error(&states.pass(layer), "to", |p, i| states.value("u", p, i) / states.value("c", p, 0).abs())
}
