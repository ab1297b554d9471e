//! Gradient descent by linear attention, for contrast: one layer per step, after one mov.
//!
//! The y columns hold (b = x, y = the residual); a layer takes η Σ ⟨x, x_s⟩ y_s off every residual and adds it to the
//! prediction of the test column. The two ReLU heads of a pair are one linear head.

use super::layers::{Layers, OPPOSITE, Sums, pair, repeated};
use super::transformer::Layer;
use super::{Construction, Positions, Recipe};

/// Builds it: k steps in k+1 layers, width 2d+5.
pub fn build(recipe: &Recipe, sums: Sums) -> Construction {
    let (d, columns) = (recipe.dim, recipe.columns());
    let slots = sums.slots(&[
        ("b", d, "x of the pair in this column"),
        ("q", d, "x as it was read"),
        ("y", 1, "label as it was read, then what is left of it"),
        ("out", 1, "the prediction"),
        ("cos", 1, "cos of the position's angle"),
        ("sin", 1, "sin of the position's angle"),
        ("one", 1, "1"),
    ]);
    let positions = Positions::one_circle(columns);
    let step = recipe.step * sums.undo(recipe);
    let (score, value) = ([("b", "b", 1.0), ("q", "b", 1.0)], [("y", "y", -step), ("y", "out", step)]);
    let layers = Layers {
        before: vec![sums.copy(&slots, &positions, columns, &[("q", "b", 1.0)])],
        iterations: repeated(Layer::attention("GD", pair(&slots, &score, &value, OPPOSITE)), recipe),
        after: vec![],
    };
    let table = sums.table(&positions, &slots, columns);
    sums.masked(layers).assemble(recipe, slots, "q", table)
}
