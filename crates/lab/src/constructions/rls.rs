//! Recursive least squares on innovations: one pair after the other, a few layers for each.
//!
//! P = δI at first. Every column holds v = P x of its x, and a y column what the pairs so far leave of its label, its
//! innovation ε. When the pair in column j is read, all columns learn from it:
//!
//! ```text
//! g = 1 / (1 + x_j·P x_j)
//! v ← v − g ⟨x_j, v⟩ v_j        ε ← ε − g ⟨x_j, v⟩ ε_j        answer ← answer + g ⟨x_j, v⟩ ε_j
//! ```
//!
//! No layer divides. g comes from multiplications (Goldschmidt): N and D begin as 1/B and (1 + x_j·Px_j)/B ≤ 1, and both are multiplied
//! by 2 − D until D is 1 to the last digit.

use ndarray::{Array1, Array2, Axis, concatenate};

use super::layers::{Layers, OPPOSITE, pair};
use super::operations::{gated, linear_mlp, mov};
use super::slots::{Slots, Wire};
use super::transformer::{Activation, Layer, Mlp};
use super::{Construction, Positions, Recipe};

/// Layers that each pair takes: a product, the reciprocal, a product, the update.
pub fn layers_per_pair(bound: f64) -> usize {
    rounds(bound) + 3
}

/// (1 − 1/B)^(2^rounds) is below round-off.
fn rounds(bound: f64) -> usize {
    (40.0 * bound).log2().ceil() as usize
}

/// Builds it for the most pairs of the recipe, of which every one is read: iterations are not asked for. The recipe's step
/// is δ; `bound` is B, which no 1 + δ‖x‖² may exceed.
pub fn build(recipe: &Recipe, bound: f64) -> Construction {
    let (d, columns) = (recipe.dim, recipe.columns());
    let (n, delta) = (columns as f64, recipe.step);
    let slots = Slots::new(&[
        ("b", d, "x of the pair in this column"),
        ("q", d, "x as it was read"),
        ("v", d, "P x of the x in this column"),
        ("k", d, "g x of the pair that is read"),
        ("y", 1, "label as it was read, then the innovation: what the pairs so far leave of it"),
        ("out", 1, "the prediction"),
        ("den", 1, "D: goes to 1"),
        ("num", 1, "N: goes to g in the column that is read"),
        ("cos", 1, "cos of the position's slow angle"),
        ("sin", 1, "sin of the position's slow angle"),
        ("cos2", 1, "cos of the position's fast angle"),
        ("sin2", 1, "sin of the position's fast angle"),
        ("one", 1, "1"),
    ]);
    let positions = Positions::two_circles(columns);
    let table = positions.table(&slots, columns);
    let linear = |wires: &[Wire], to: &str| linear_mlp(&slots, Activation::Relu, wires, 0.0, to);
    let mut before = vec![Layer {
        mlp: Some(linear(&[("q", "v", delta)], "v")),
        ..mov(&slots, &positions, columns, 1.0, &[("q", "b", 1.0), ("q", "v", delta)], None)
    }];
    let own =
        |factors: (&str, &str), wires: &[Wire]| gated(&slots, &positions, columns, bound, factors, wires);
    for column in (1..columns).step_by(2) {
        let begin = Layer {
            mlp: Some(here(&slots, &positions, column, &[("den", 1.0 / bound), ("num", 1.0 / bound)])),
            ..own(("b", "v"), &[("one", "den", 1.0 / bound)])
        };
        // attention makes D − D²/2 and N − DN/2, the MLP doubles both
        let round = || Layer {
            mlp: Some(stacked(&[
                linear(&[("den", "den", 1.0)], "den"),
                linear(&[("num", "num", 1.0)], "num"),
            ])),
            ..own(("den", "one"), &[("den", "den", -0.5), ("num", "num", -0.5)])
        };
        let learn = pair(
            &slots,
            &[("v", "k", n)],
            &[("v", "v", -1.0), ("y", "y", -1.0), ("y", "out", 1.0)],
            OPPOSITE,
        );
        let clear = ["k", "den", "num"].map(|slot| linear(&[(slot, slot, -1.0)], slot));
        before.push(begin);
        before.extend((0..rounds(bound)).map(|_| round()));
        before.push(own(("num", "one"), &[("b", "k", 1.0)]));
        before.push(Layer { mlp: Some(stacked(&clear)), ..Layer::attention("learn", learn) });
    }
    let layers = Layers { before, iterations: Vec::new(), after: vec![] };
    layers.assemble(recipe, slots, "q", table)
}

/// An MLP that adds numbers to slots of one column alone.
fn here(slots: &Slots, positions: &Positions, column: usize, adds: &[(&str, f64)]) -> Mlp {
    let (mut inner, mut outer) = (Array2::zeros((1, slots.width())), Array2::zeros((slots.width(), 1)));
    for (slot, coefficient) in positions.at(column) {
        inner[[0, slots.range(slot).start]] += coefficient;
    }
    adds.iter().for_each(|&(slot, add)| outer[[slots.range(slot).start, 0]] = add);
    Mlp::new(Activation::Relu, &inner, Array1::zeros(1), &outer)
}

/// The sum of several MLPs as one.
fn stacked(mlps: &[Mlp]) -> Mlp {
    let join = |axis: usize, parts: Vec<Array2<f64>>| {
        let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
        concatenate(Axis(axis), &views).expect("of one width")
    };
    let inner = join(0, mlps.iter().map(|mlp| mlp.inner.matrix()).collect());
    let outer = join(1, mlps.iter().map(|mlp| mlp.outer.matrix()).collect());
    let bias = mlps.iter().flat_map(|mlp| mlp.inner_bias.to_vec()).collect();
    Mlp::new(mlps[0].activation, &inner, bias, &outer)
}
