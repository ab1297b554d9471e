//! Gradient descent by linear attention, for contrast: one layer per step, after one mov.
//!
//! The y columns hold (b = x, y = the residual); a layer takes η Σ ⟨x, x_s⟩ y_s off every residual and adds it to the
//! prediction of the test column. The two ReLU heads of a pair are one linear head.

use std::sync::Arc;

use super::compact::{ends, one_circle};
use super::operations::mov;
use super::slots::Slots;
use super::transformer::{Layer, Transformer};
use super::{Construction, OPPOSITE, Recipe, pair};

/// Builds it: k steps in k+1 layers, width 2d+5.
pub fn build(recipe: &Recipe) -> Construction {
    let (d, columns) = (recipe.dim, recipe.columns());
    let slots = Slots::new(&[
        ("b", d, "x of the pair in this column"),
        ("q", d, "x as it was read"),
        ("y", 1, "label as it was read, then what is left of it"),
        ("out", 1, "the prediction"),
        ("cos", 1, "cos of the position's angle"),
        ("sin", 1, "sin of the position's angle"),
        ("one", 1, "1"),
    ]);
    let (positions, table) = one_circle(&slots, columns);
    let step = recipe.step * columns as f64;
    let score = [("b", "b", 1.0), ("q", "b", 1.0)];
    let descend =
        Layer::attention("GD", pair(&slots, &score, &[("y", "y", -step), ("y", "out", step)], OPPOSITE));
    let mut layers = vec![Arc::new(mov(&slots, &positions, columns, 1.0, &[("q", "b", 1.0)], None))];
    layers.extend(std::iter::repeat_n(Arc::new(descend), recipe.iterations));
    let (read_in, read_out) = ends(&slots, d, "q");
    let transformer = Transformer { slots, read_in, positions: table, layers, read_out };
    Construction { recipe: recipe.clone(), transformer, before: 1, after: 0, query_is_seen: false }
}
