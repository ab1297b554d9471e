//! The compact construction: k Newton iterations in k+3 layers, width 3d+5, two heads; and its causal variant (3d+6).
//!
//! Columns x₁, y₁, …, xₙ, yₙ, x_test. After the first layer each y column holds its pair (b = x, y), and the test column
//! holds only q = x_test: no layer can mistake it for a pair. A second layer makes a = αS x. From the identity no sum over
//! pairs is needed: the first layer moves a = ηx along with b = x, and k+2 layers are enough.

use super::layers::{Layers, OPPOSITE, newton, pair, repeated};
use super::operations::{mov, mov_softmax};
use super::slots::Wire;
use super::transformer::{Head, Layer, Mask};
use super::{Construction, Misprints, Positions, Recipe, Slots, Start, Variant};

/// Builds it. The variant `causal` sees only columns before and normalises by the pairs t read so far, with the coefficient
/// −½ of the paper's remark; otherwise the weights are the same.
pub fn build(recipe: &Recipe, misprints: Misprints) -> Construction {
    let causal = recipe.variant == Variant::Causal;
    let (d, columns) = (recipe.dim, recipe.columns());
    // What 1/N or 1/t must be multiplied by to make a sum, or in the causal variant a mean over the pairs.
    let n = if causal { 1.0 } else { columns as f64 };
    let mut slots = vec![
        ("a", d, "T x of the pair in this column; T is Newton's approximate inverse"),
        ("b", d, "x of the pair in this column"),
        ("q", d, "x as it was read"),
        ("y", 1, "label as it was read"),
        ("out", 1, "the prediction"),
        ("cos", 1, "cos of the position's angle"),
        ("sin", 1, "sin of the position's angle"),
        ("one", 1, "1"),
    ];
    if causal {
        slots.push(("label", 1, "1 in the columns of labels"));
    }
    let slots = Slots::new(&slots);
    let positions = Positions::one_circle(columns);
    let mut table = positions.table(&slots, columns);
    let copy = |wires: &[Wire]| mov(&slots, &positions, columns, 1.0, wires, None);
    let init = || {
        let start = pair(&slots, &[("b", "b", 1.0)], &[("b", "a", n * recipe.step)], misprints.second());
        Layer::attention("init", start)
    };
    let before = match recipe.variant {
        Variant::Causal => {
            let label = slots.range("label").start;
            (1..columns).step_by(2).for_each(|p| table[[p, label]] = 1.0);
            vec![causal_mov(&slots, &positions), init()]
        }
        Variant::Compact(Start::Identity) => vec![copy(&[("q", "b", 1.0), ("q", "a", recipe.step)])],
        _ => vec![copy(&[("q", "b", 1.0)]), init()],
    };
    let read = pair(&slots, &[("q", "a", n)], &[("y", "out", 1.0)], OPPOSITE);
    let (mut before, mut iteration) = (before, newton(&slots, n, misprints));
    let mut after = vec![Layer::attention("read", read)];
    if causal {
        let all = before.iter_mut().chain([&mut iteration]).chain(&mut after);
        all.for_each(|layer| layer.mask = Mask::Causal);
    }
    let layers = Layers { before, iterations: repeated(iteration, recipe), after };
    layers.assemble(recipe, slots, "q", table)
}

/// *mov* under a causal mask, by softmax: ReLU weights are divided by t there, which no value can undo. The first column sees
/// only itself and would copy its own x; a second head, which looks at any label, takes that back.
fn causal_mov(slots: &Slots, positions: &Positions) -> Layer {
    const STEEP: f64 = 20.0; // exp(−2·20) is below round-off
    let mut layer = mov_softmax(slots, positions, STEEP, 1.0, &[("q", "b", 1.0)]);
    layer.heads.push(Head::wired(slots, &[("one", "label", 2.0 * STEEP)], &[("q", "b", -1.0)]));
    layer
}
