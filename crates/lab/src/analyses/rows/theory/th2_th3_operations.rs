//! TH2 and TH3: the operations of which the proof is made, each in one layer, with the error it really has.

use std::sync::Arc;

use ndarray::{Array1, Array2};

use crate::analyses::{Analysis, Lab, Outcome};
use crate::constructions::operations::{
    aff, div, inner_product, mov, mov_softmax, mul, mul_gelu, reciprocal_grid, sum, sum_softmax,
    sum_with_two_heads,
};
use crate::constructions::transformer::{Activation, Columns, Layer, Transformer};
use crate::constructions::{Positions, Slots};
use crate::data::seed::Seed;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{At, Axis, Figure, LinesPanel, Panel, Reference, Scale, Series, Stroke, Table};
use crate::linalg::dot;
use crate::stats::line;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "TH2",
        order: 20,
        title: "One layer sums all columns",
        summary: "Every column receives the sum of all columns: by one ReLU head with the constant score 1, by the two heads of the \
              paper's lemma (equal values are right here, since ReLU(1) + ReLU(−1) = 1), and by softmax over equal scores.",
        needs: &[],
        run: |lab, note| note.adopt(run_sum(lab)),
        ..Analysis::THEORY
    },
    Analysis {
        id: "TH3",
        order: 30,
        title: "mov, aff, mul and div in one layer each",
        summary: "mov selects a column by a gate on positions: exact with ReLU up to ε/gap, where two circles of positions leave a gap of \
              5/N in place of 5/N²; with softmax the error falls like exp(−2·scale). aff is exact for ReLU and for GELU, since \
              σ(z) − σ(−z) = z for both. mul is exact by ReLU attention for bounded factors; by GELU it has an error that falls \
              like scale² until round-off takes over. div is out of reach of ReLU, which is piecewise polynomial; softmax does it, \
              since the mean of the exponential law is 1/|c|, with the columns as nodes of the integral.",
        needs: &[],
        run: |lab, note| note.adopt(run(lab)),
        ..Analysis::THEORY
    },
];

/// Size of the vectors that are moved and multiplied.
const SIZE: usize = 5;
/// Numbers of columns.
const COLUMNS: [usize; 7] = [5, 11, 21, 41, 81, 201, 401];

/// Hidden states with random entries in the slots asked for, and a Transformer around one layer.
struct Bench {
    transformer: Transformer,
    h: Array2<f64>,
}

impl Bench {
    fn new(seed: Seed, slots: Slots, columns: usize, random: &[&str], table: Array2<f64>) -> Bench {
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
        Bench { transformer, h }
    }

    /// Hidden states after the layer.
    fn pass(&self, layer: Layer) -> Array2<f64> {
        let mut columns = Columns { seen: self.h.nrows(), h: self.h.clone() };
        self.transformer.pass(&Arc::new(layer), &mut columns, 0);
        columns.h
    }

    /// Largest deviation of a slot from what it should hold, `right(column, entry)`, relative to the largest right value.
    fn error(&self, after: &Array2<f64>, slot: &str, right: impl Fn(usize, usize) -> f64) -> f64 {
        let (mut worst, mut largest) = (0.0_f64, 0.0_f64);
        for p in 0..after.nrows() {
            for (i, w) in self.transformer.slots.range(slot).enumerate() {
                let right = right(p, i);
                worst = worst.max((after[[p, w]] - right).abs());
                largest = largest.max(right.abs());
            }
        }
        worst / largest
    }

    fn value(&self, slot: &str, p: usize, i: usize) -> f64 {
        self.h[[p, self.transformer.slots.range(slot).start + i]]
    }
}

/// Slots of vectors and numbers, with positions on two circles (the first alone serves for one).
fn ordinary(seed: Seed, columns: usize, two: bool) -> (Bench, Positions) {
    let mut slots = vec![("u", SIZE, ""), ("v", SIZE, ""), ("y", 1, ""), ("to", SIZE, ""), ("out", 1, "")];
    slots.extend([("cos", 1, ""), ("sin", 1, ""), ("cos2", 1, ""), ("sin2", 1, ""), ("one", 1, "")]);
    let slots = Slots::new(&slots);
    let positions = if two { Positions::two_circles(columns) } else { Positions::one_circle(columns) };
    let mut table = Array2::zeros((columns, slots.width()));
    positions.write(&slots, &mut table);
    table.column_mut(slots.range("one").start).fill(1.0);
    (Bench::new(seed, slots, columns, &["u", "v", "y"], table), positions)
}

fn run_sum(lab: &Lab) -> Result<Outcome> {
    let mut rows = Vec::new();
    let mut worst = [0.0_f64; 3];
    let mut curves = ["one ReLU head", "two ReLU heads", "softmax"]
        .map(|label| Series::new(label, vec![]).stroke(Stroke::LineMarkers));
    for columns in COLUMNS {
        let (bench, _) = ordinary(lab.seed, columns, false);
        let slots = &bench.transformer.slots;
        let wires = [("u", "to", 1.0)];
        let right: Vec<f64> = (0..SIZE).map(|i| (0..columns).map(|p| bench.value("u", p, i)).sum()).collect();
        let layers = [
            sum(slots, columns, &wires),
            sum_with_two_heads(slots, columns, &wires),
            sum_softmax(slots, columns, &wires),
        ];
        let errors = layers.map(|layer| bench.error(&bench.pass(layer), "to", |_, i| right[i]));
        worst.iter_mut().zip(errors).for_each(|(w, e)| *w = w.max(e));
        let points = curves.iter_mut().zip(errors);
        points.for_each(|(curve, e)| curve.points.push((columns as f64, e.max(1e-17))));
        rows.push(std::iter::once(columns.to_string()).chain(errors.map(|e| format!("{e:.1e}"))).collect());
    }
    let claim = |id: &str, words: &str, value: f64| {
        Claim::new(
            id,
            Kind::Paper,
            format!("{words}: largest relative error, N up to 401"),
            value,
            Bound::AtMost(1e-12),
        )
        .quoted("one attention layer can compute Σ h_j")
        .figure("th2-sum")
    };
    let claims = vec![
        claim("TH2.relu", "One ReLU head", worst[0]),
        claim("TH2.two-heads", "Two ReLU heads as printed", worst[1]),
        claim("TH2.softmax", "Softmax", worst[2]),
    ];
    let table = Table {
        id: "th2-sum".into(),
        title: "Error of the sum of all columns".into(),
        caption: "Largest relative error of one layer, by the number of columns N.".into(),
        columns: ["N", "one ReLU head", "two ReLU heads", "softmax"].map(String::from).to_vec(),
        rows,
    };
    let figure = Figure {
        id: "th2-sum".into(),
        title: "Error of the sum of all columns".into(),
        caption: "Largest relative error of one layer; an error of 0 is drawn at 10⁻¹⁷.".into(),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("columns N", Scale::Log2),
            y: Axis::new("relative error", Scale::Log10),
            series: curves.to_vec(),
            references: vec![],
        })],
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![table] })
}

fn run(lab: &Lab) -> Result<Outcome> {
    let seed = lab.seed;
    let by_columns = |error: &dyn Fn(usize) -> f64| -> Vec<(f64, f64)> {
        COLUMNS.iter().map(|&n| (n as f64, error(n).max(1e-17))).collect()
    };
    let one_circle = by_columns(&|n| mov_error(seed, n, false));
    let two_circles = by_columns(&|n| mov_error(seed, n, true));
    let mul_relu = by_columns(&|n| mul_error(seed, n));
    let inner_relu = by_columns(&|n| inner_error(seed, n));
    let softmax: Vec<(f64, f64)> =
        (1..=20).map(|s| (f64::from(s), mov_softmax_error(seed, f64::from(s)).max(1e-17))).collect();
    let gelu: Vec<(f64, f64)> = (0..=28)
        .map(|i| 10f64.powf(-f64::from(i) / 4.0))
        .map(|scale| (scale, mul_gelu_error(seed, scale)))
        .collect();
    let division: Vec<(f64, f64)> = COLUMNS[2..].iter().map(|&n| (n as f64, div_error(seed, n))).collect();
    let largest = |points: &[(f64, f64)]| points.iter().fold(0.0, |m: f64, p| m.max(p.1));
    let smallest = |points: &[(f64, f64)]| points.iter().fold(f64::INFINITY, |m: f64, p| m.min(p.1));
    let decay: Vec<(f64, f64)> = softmax[2..12].iter().map(|p| (p.0, p.1.ln())).collect();
    let order: Vec<(f64, f64)> = gelu[4..12].iter().map(|p| (p.0.ln(), p.1.ln())).collect();
    let claim = |id: &str, words: &str, value: f64, bound: Bound| {
        Claim::new(id, Kind::Paper, words, value, bound)
            .quoted("implemented by a single transformer layer")
            .figure("th3-operations")
    };
    let claims = vec![
        claim(
            "TH3.mov",
            "mov, ReLU on two circles: largest relative error, N up to 401",
            largest(&two_circles),
            Bound::AtMost(1e-12),
        ),
        claim(
            "TH3.mov-softmax",
            "mov, softmax: change of log error per unit of scale",
            line(&decay).1,
            Bound::Within(-2.2, -1.8),
        ),
        claim("TH3.aff", "aff, ReLU and GELU: largest relative error", aff_error(seed), Bound::AtMost(1e-14)),
        claim(
            "TH3.mul",
            "mul, ReLU attention: largest relative error, N up to 401",
            largest(&mul_relu).max(largest(&inner_relu)),
            Bound::AtMost(1e-10),
        ),
        claim(
            "TH3.mul-gelu",
            "mul, GELU: order of the error in the scale",
            line(&order).1,
            Bound::Within(1.9, 2.1),
        ),
        claim(
            "TH3.mul-gelu-best",
            "mul, GELU: smallest relative error over all scales",
            smallest(&gelu),
            Bound::AtMost(1e-6),
        ),
        claim(
            "TH3.div",
            "div, softmax over 401 columns and GELU: largest relative error for |c| from 0.5 to 8",
            div_error(seed, 401),
            Bound::AtMost(1e-5),
        ),
    ];
    let panel = |title: &str, x: Axis, series: Vec<Series>, references: Vec<Reference>| {
        let y = Axis::new("largest relative error", Scale::Log10);
        Panel::Lines(LinesPanel { title: title.into(), x, y, series, references })
    };
    let marked =
        |label: &str, points: Vec<(f64, f64)>| Series::new(label, points).stroke(Stroke::LineMarkers);
    let columns = || Axis::new("columns N", Scale::Log2);
    let figure = Figure {
        id: "th3-operations".into(),
        title: "The error of each operation".into(),
        caption: "One layer each, on random columns, against the operation itself. (a) Exact constructions: what is left is round-off \
                  over the gap of the gate. (b) mov by softmax against the scale of its score, 81 columns. (c) mul by GELU against \
                  the scale of its factors: the error of the square falls like scale², round-off grows like 1/scale. (d) div by softmax, with the columns as nodes, for |c| from 0.5 to 8; the product is \
                  by GELU and limits it from below."
            .into(),
        panels: vec![
            panel(
                "exact by ReLU",
                columns(),
                vec![
                    marked("mov, one circle", one_circle),
                    marked("mov, two circles", two_circles),
                    marked("mul, number · vector", mul_relu),
                    marked("mul, inner product", inner_relu),
                ],
                vec![],
            ),
            panel("mov by softmax", Axis::new("scale of the score", Scale::Linear), vec![marked("mov", softmax)], vec![]),
            panel("mul by GELU", Axis::new("scale of the factors", Scale::Log10), vec![marked("mul", gelu.clone())], vec![]),
            panel(
                "div by softmax and GELU",
                columns(),
                vec![marked("div", division)],
                vec![Reference { label: "best mul by GELU".into(), at: At::Y(smallest(&gelu)) }],
            ),
        ],
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}

fn mov_error(seed: Seed, columns: usize, two: bool) -> f64 {
    let (bench, positions) = ordinary(seed, columns, two);
    let layer = mov(&bench.transformer.slots, &positions, columns, 1.0, &[("u", "to", 1.0)], None);
    let before = |p: usize, i: usize| if p == 0 { 0.0 } else { bench.value("u", p - 1, i) };
    bench.error(&bench.pass(layer), "to", before)
}

/// The first column has nothing before it; softmax must look somewhere, so only the others are judged.
fn mov_softmax_error(seed: Seed, scale: f64) -> f64 {
    let (bench, positions) = ordinary(seed, 81, false);
    let layer = mov_softmax(&bench.transformer.slots, &positions, scale, 1.0, &[("u", "to", 1.0)]);
    let after = bench.pass(layer);
    let slot = bench.transformer.slots.range("to").start;
    let before = |p: usize, i: usize| if p == 0 { after[[0, slot + i]] } else { bench.value("u", p - 1, i) };
    bench.error(&after, "to", before)
}

fn aff_error(seed: Seed) -> f64 {
    let (bench, _) = ordinary(seed, 81, false);
    let of = |activation: Activation| {
        let layer = aff(&bench.transformer.slots, activation, &[("u", 2.0), ("v", -0.5)], 0.25, "v");
        let right = |p: usize, i: usize| 2.0 * bench.value("u", p, i) - 0.5 * bench.value("v", p, i) + 0.25;
        bench.error(&bench.pass(layer), "v", right)
    };
    of(Activation::Relu).max(of(Activation::Gelu))
}

/// Factors here are standard normal: none reaches twice this.
const BOUND: f64 = 16.0;

fn mul_error(seed: Seed, columns: usize) -> f64 {
    let (bench, positions) = ordinary(seed, columns, true);
    let layer = mul(&bench.transformer.slots, &positions, columns, BOUND, ("y", "u", "to"));
    bench.error(&bench.pass(layer), "to", |p, i| bench.value("y", p, 0) * bench.value("u", p, i))
}

fn inner_error(seed: Seed, columns: usize) -> f64 {
    let (bench, positions) = ordinary(seed, columns, true);
    let layer = inner_product(&bench.transformer.slots, &positions, columns, BOUND, ("u", "v", "out"));
    let vector = |slot: &str, p: usize| -> Vec<f64> { (0..SIZE).map(|i| bench.value(slot, p, i)).collect() };
    bench.error(&bench.pass(layer), "out", |p, _| dot(&vector("u", p), &vector("v", p)))
}

/// A 2×3 matrix times a 3×2 matrix.
fn mul_gelu_error(seed: Seed, scale: f64) -> f64 {
    let slots = Slots::new(&[("left", 6, ""), ("right", 6, ""), ("to", 4, "")]);
    let layer = mul_gelu(&slots, scale, (2, 3, 2), ("left", "right", "to"));
    let table = Array2::zeros((20, slots.width()));
    let bench = Bench::new(seed, slots, 20, &["left", "right"], table);
    bench.error(&bench.pass(layer), "to", |p, e| {
        let (i, k) = (e / 2, e % 2);
        (0..3).map(|j| bench.value("left", p, i * 3 + j) * bench.value("right", p, j * 2 + k)).sum()
    })
}

fn div_error(seed: Seed, columns: usize) -> f64 {
    let mut slots = vec![("u", SIZE, ""), ("c", 1, ""), ("reciprocal", 1, ""), ("to", SIZE, "")];
    slots.extend([("node", 1, ""), ("distance", 1, ""), ("log_weight", 1, ""), ("one", 1, "")]);
    let slots = Slots::new(&slots);
    let mut table = Array2::zeros((columns, slots.width()));
    reciprocal_grid(&slots, 1e-9, 120.0, &mut table);
    table.column_mut(slots.range("one").start).fill(1.0);
    let mut bench = Bench::new(seed, slots, columns, &["u"], table);
    let place = bench.transformer.slots.range("c").start;
    for p in 0..columns {
        // Both signs, sizes from 0.5 to 8.
        let size = 0.5 * 16f64.powf(p as f64 / (columns - 1) as f64);
        bench.h[[p, place]] = if p % 2 == 0 { size } else { -size };
    }
    let layer = div(&bench.transformer.slots, 1e-5, ("u", "c", "reciprocal", "to"));
    bench.error(&bench.pass(layer), "to", |p, i| bench.value("u", p, i) / bench.value("c", p, 0).abs())
}
