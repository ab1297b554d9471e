//! Newton's iteration from ηI in residual form: the query carries what is not explained yet, and its answer grows.
//!
//! With R = I − ST the iteration T ← 2T − TST is T ← T + RT and R ← R², so that
//!
//! ```text
//! w ← w + R w        x_q·w grows by (R x_q)·w = Σ y_s ⟨T x_s, R x_q⟩
//! ```
//!
//! The y columns hold (a = T x, b = x, y), as in the compact construction; the labels are read at every layer and not
//! at the end. The test column holds v = R x_q and its answer.

use super::layers::{Layers, OPPOSITE, Sums, newton, pair, repeated};
use super::operations::linear_mlp;
use super::transformer::{Activation, Layer};
use super::{Construction, Misprints, Positions, Recipe};

/// Builds it: k iterations in k+2 layers, width 4d+5, six heads.
pub fn build(recipe: &Recipe, sums: Sums) -> Construction {
    let (d, columns, n) = (recipe.dim, recipe.columns(), sums.undo(recipe));
    let slots = sums.slots(&[
        ("a", d, "T x of the pair in this column; T is Newton's approximate inverse"),
        ("b", d, "x of the pair in this column"),
        ("q", d, "x as it was read"),
        ("v", d, "R x of the x in this column, R = I − ST: what T leaves of it"),
        ("y", 1, "label as it was read"),
        ("out", 1, "the prediction"),
        ("cos", 1, "cos of the position's angle"),
        ("sin", 1, "sin of the position's angle"),
        ("one", 1, "1"),
    ]);
    let positions = Positions::one_circle(columns);
    let table = sums.table(&positions, &slots, columns);
    let read_pairs = Layer {
        mlp: Some(linear_mlp(&slots, Activation::Relu, &[("q", "v", 1.0)], 0.0, "v")),
        ..sums.copy(&slots, &positions, columns, &[("q", "b", 1.0), ("q", "a", recipe.step)])
    };
    // out += Σ y_s ⟨T x_s, v⟩ and v −= Σ T x_s ⟨x_s, v⟩: with v = x_q the answer by T₀ and R₀ x_q
    let answer = || {
        let out = pair(&slots, &[("v", "a", n)], &[("y", "out", 1.0)], OPPOSITE);
        [out, pair(&slots, &[("v", "b", n)], &[("a", "v", -1.0)], OPPOSITE)].concat()
    };
    let mut iteration = newton(&slots, n, Misprints::default());
    iteration.heads.extend(answer());
    let layers = Layers {
        before: vec![read_pairs, Layer::attention("read", answer())],
        iterations: repeated(iteration, recipe),
        after: vec![],
    };
    sums.masked(layers).assemble(recipe, slots, "q", table)
}
