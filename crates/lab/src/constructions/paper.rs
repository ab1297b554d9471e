//! The paper's theorem, layer by layer: k Newton iterations in 3 + k + 5 layers.
//!
//! mov, gather, aff; k times Newton; mov, mul, sum, mov, mul. Columns x₁, y₁, …, xₙ, yₙ, x_test. As in the proof the x
//! columns hold (T x, x) and the y columns wait for the read-out. Three things are not as printed, unless asked for
//! ([`Misprints`]): the second head of each pair has the opposite value matrix, the first layer leaves the test column out,
//! and the iteration queries with T x.

use super::layers::{Layers, OPPOSITE, newton, pair, repeated};
use super::operations::{aff, mov, mul, sum_with_two_heads};
use super::transformer::{Activation, Layer};
use super::{Construction, Misprints, Positions, Recipe, Slots};

/// Builds it.
pub fn build(recipe: &Recipe, misprints: Misprints) -> Construction {
    let (d, columns) = (recipe.dim, recipe.columns());
    let n = columns as f64;
    let slots = Slots::new(&[
        ("x", d, "x as it was read"),
        ("y", 1, "label as it was read"),
        ("a", d, "T x of this column; T is Newton's approximate inverse"),
        ("b", d, "x of this column, unless it is the test column"),
        ("p", d, "y T x of the pair that ends in this column"),
        ("w", d, "Σ y T x: Newton's weights"),
        ("v", d, "the weights, moved from the column before"),
        ("out", 1, "the prediction"),
        ("cos", 1, "cos of the position's slow angle"),
        ("sin", 1, "sin of the position's slow angle"),
        ("cos2", 1, "cos of the position's fast angle"),
        ("sin2", 1, "sin of the position's fast angle"),
        ("one", 1, "1"),
        ("test", 1, "1 in the test column"),
    ]);
    let positions = Positions::two_circles(columns);
    let mut table = positions.table(&slots, columns);
    table[[columns - 1, slots.range("test").start]] = 1.0;

    let except = (!misprints.test_inside).then_some("test");
    let twice = [("x", "a", 1.0), ("x", "b", 1.0)];
    let gather = pair(&slots, &[("b", "b", 1.0)], &[("b", "a", n * recipe.step)], misprints.second());
    // Only the test column has a value, so that ⟨v, x_test⟩ needs no gate and no bound.
    let last = pair(&slots, &[("v", "x", n)], &[("test", "out", 1.0)], OPPOSITE);
    let layers = Layers {
        before: vec![
            mov(&slots, &positions, columns, 0.0, &twice, except),
            Layer::attention("gather", gather),
            aff(&slots, Activation::Relu, &[("a", 1.0), ("b", -1.0)], 0.0, "a"),
        ],
        iterations: repeated(newton(&slots, n, misprints), recipe),
        after: vec![
            mov(&slots, &positions, columns, 1.0, &[("a", "a", 1.0)], None),
            mul(&slots, &positions, columns, recipe.label_bound, ("y", "a", "p")),
            sum_with_two_heads(&slots, columns, &[("p", "w", 1.0)]),
            mov(&slots, &positions, columns, 1.0, &[("w", "v", 1.0)], None),
            Layer::attention("mul", last),
        ],
    };
    Construction { query_is_seen: misprints.test_inside, ..layers.assemble(recipe, slots, "x", table) }
}
