//! GD++ by linear attention: gradient descent in which every layer also transforms the inputs, x ← (I − γS)x.
//!
//! The y columns hold (b = x as it has become, y = the residual), the test column holds q, its own x as it has become. The
//! step sizes grow by 9/4 from layer to layer (the schedule `polar` of the solver `gd++`), so that no two layers are equal.

use std::sync::Arc;

use super::layers::{Layers, OPPOSITE, Sums, pair};
use super::transformer::Layer;
use super::{Construction, Positions, Recipe};
use crate::solvers::polar_schedule;

/// Builds it: k steps in k+1 layers, width 2d+5, six heads.
pub fn build(recipe: &Recipe, sums: Sums) -> Construction {
    let (d, columns) = (recipe.dim, recipe.columns());
    let slots = sums.slots(&[
        ("b", d, "x of the pair in this column, as it has become"),
        ("q", d, "x as it was read, and as it has become"),
        ("y", 1, "label as it was read, then what is left of it"),
        ("out", 1, "the prediction"),
        ("cos", 1, "cos of the position's angle"),
        ("sin", 1, "sin of the position's angle"),
        ("one", 1, "1"),
    ]);
    let positions = Positions::one_circle(columns);
    let step = |(eta, gamma): (f64, f64)| {
        let (eta, gamma) = (eta * sums.undo(recipe), gamma * sums.undo(recipe));
        let descent = pair(
            &slots,
            &[("b", "b", 1.0), ("q", "b", 1.0)],
            &[("y", "y", -eta), ("y", "out", eta)],
            OPPOSITE,
        );
        // A column has b or q: one head for both would write b of the pairs into the q of the test column and back.
        let pairs = pair(&slots, &[("b", "b", 1.0)], &[("b", "b", -gamma)], OPPOSITE);
        let query = pair(&slots, &[("q", "b", 1.0)], &[("b", "q", -gamma)], OPPOSITE);
        Arc::new(Layer::attention("GD++", [descent, pairs, query].concat()))
    };
    let layers = Layers {
        before: vec![sums.copy(&slots, &positions, columns, &[("q", "b", 1.0)])],
        iterations: polar_schedule(recipe.step).take(recipe.iterations).map(step).collect(),
        after: vec![],
    };
    let table = sums.table(&positions, &slots, columns);
    sums.masked(layers).assemble(recipe, slots, "q", table)
}
