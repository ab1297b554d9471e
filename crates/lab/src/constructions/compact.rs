//! The compact construction: k Newton iterations in k+3 layers, width 3d+5, two heads; and its causal variant (3d+6).
//!
//! Columns x₁, y₁, …, xₙ, yₙ, x_test. After the first layer each y column holds its pair (b = x, y), and the test column
//! holds only q = x_test: no layer can mistake it for a pair. A second layer makes a = αS x. From the identity no sum over
//! pairs is needed: the first layer moves a = ηx along with b = x, and k+2 layers are enough.

use super::layers::{Layers, OPPOSITE, Sums, newton, pair, repeated};
use super::slots::Wire;
use super::transformer::Layer;
use super::{Construction, Misprints, Positions, Recipe, Start, Variant};

/// Builds it. The variant `causal` sees only columns before and normalises by the pairs t read so far, with the coefficient
/// −½ of the paper's remark; otherwise the weights are the same.
pub fn build(recipe: &Recipe, sums: Sums, misprints: Misprints) -> Construction {
    let (d, columns, n) = (recipe.dim, recipe.columns(), sums.undo(recipe));
    let slots = sums.slots(&[
        ("a", d, "T x of the pair in this column; T is Newton's approximate inverse"),
        ("b", d, "x of the pair in this column"),
        ("q", d, "x as it was read"),
        ("y", 1, "label as it was read"),
        ("out", 1, "the prediction"),
        ("cos", 1, "cos of the position's angle"),
        ("sin", 1, "sin of the position's angle"),
        ("one", 1, "1"),
    ]);
    let positions = Positions::one_circle(columns);
    let table = sums.table(&positions, &slots, columns);
    let copy = |wires: &[Wire]| sums.copy(&slots, &positions, columns, wires);
    let init = || {
        let start = pair(&slots, &[("b", "b", 1.0)], &[("b", "a", n * recipe.step)], misprints.second());
        Layer::attention("init", start)
    };
    let before = match recipe.variant {
        Variant::Compact(Start::Identity) => vec![copy(&[("q", "b", 1.0), ("q", "a", recipe.step)])],
        _ => vec![copy(&[("q", "b", 1.0)]), init()],
    };
    let read = pair(&slots, &[("q", "a", n)], &[("y", "out", 1.0)], OPPOSITE);
    let layers = Layers {
        before,
        iterations: repeated(newton(&slots, n, misprints), recipe),
        after: vec![Layer::attention("read", read)],
    };
    sums.masked(layers).assemble(recipe, slots, "q", table)
}
