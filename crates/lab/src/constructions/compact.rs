//! The compact construction: k Newton iterations in k+3 layers, width 3d+5, two heads; and its causal variant (3d+6).
//!
//! Columns x₁, y₁, …, xₙ, yₙ, x_test. After the first layer each y column holds its pair (b = x, y), and the test column
//! holds only q = x_test: no layer can mistake it for a pair.

use std::sync::Arc;

use ndarray::{Array1, Array2};

use super::gate::Positions;
use super::operations::{linear_mlp, mov, mov_softmax};
use super::slots::Slots;
use super::transformer::{Activation, Head, Layer, Mask, Transformer};
use super::{Construction, Misprints, OPPOSITE, Recipe, Variant, pair};

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
    let (positions, mut table) = one_circle(&slots, columns);
    let copy = if causal {
        let label = slots.range("label").start;
        (1..columns).step_by(2).for_each(|p| table[[p, label]] = 1.0);
        causal_mov(&slots, &positions)
    } else {
        mov(&slots, &positions, columns, 1.0, &[("q", "b", 1.0)], None)
    };
    let init = Layer::attention(
        "init",
        pair(&slots, &[("b", "b", 1.0)], &[("b", "a", n * recipe.step)], misprints.second()),
    );
    let newton = newton_layer(&slots, n, misprints);
    let read = Layer::attention("read", pair(&slots, &[("q", "a", n)], &[("y", "out", 1.0)], OPPOSITE));
    let mut layers = vec![Arc::new(copy), Arc::new(init)];
    layers.extend(std::iter::repeat_n(Arc::new(newton), recipe.iterations));
    layers.push(Arc::new(read));
    if causal {
        layers.iter_mut().for_each(|layer| Arc::make_mut(layer).mask = Mask::Causal);
    }
    let (read_in, read_out) = ends(&slots, d, "q");
    let transformer = Transformer { slots, read_in, positions: table, layers, read_out };
    Construction { recipe: recipe.clone(), transformer, before: 2, after: 1, query_is_seen: false }
}

/// *mov* under a causal mask, by softmax: ReLU weights are divided by t there, which no value can undo. The first column sees
/// only itself and would copy its own x; a second head, which looks at any label, takes that back.
fn causal_mov(slots: &Slots, positions: &Positions) -> Layer {
    const STEEP: f64 = 20.0; // exp(−2·20) is below round-off
    let mut layer = mov_softmax(slots, positions, STEEP, 1.0, &[("q", "b", 1.0)]);
    layer.heads.push(Head::wired(slots, &[("one", "label", 2.0 * STEEP)], &[("q", "b", -1.0)]));
    layer
}

/// One Newton iteration: attention makes a − ½TSTx, the MLP adds a once more. `n` undoes the normalisation.
///
/// Printed is the score ⟨b_t, a_s⟩, which makes T S Tᵀ. With T symmetric it is the same as ⟨a_t, b_s⟩, which makes T S T, but
/// round-off is not symmetric: an antisymmetric error F of a converged T becomes F − Fᵀ = 2F in the first and 0 in the second.
pub(super) fn newton_layer(slots: &Slots, n: f64, misprints: Misprints) -> Layer {
    let (query, key) = if misprints.transposed { ("b", "a") } else { ("a", "b") };
    let heads = pair(slots, &[(query, key, -n / 2.0)], &[("a", "a", 1.0)], misprints.second());
    Layer {
        mlp: Some(linear_mlp(slots, Activation::Relu, &[("a", "a", 1.0)], 0.0, "a")),
        ..Layer::attention("Newton", heads)
    }
}

/// Positions on one circle and their table `[p,w]`, with slot `one` filled in.
pub(super) fn one_circle(slots: &Slots, columns: usize) -> (Positions, Array2<f64>) {
    let positions = Positions::one_circle(columns);
    let mut table = Array2::zeros((columns, slots.width()));
    positions.write(slots, &mut table);
    table.column_mut(slots.range("one").start).fill(1.0);
    (positions, table)
}

/// Read-in of x into slot `x` and of y into slot `y`; read-out of slot `out`.
pub(super) fn ends(slots: &Slots, d: usize, x: &str) -> (Array2<f64>, Array1<f64>) {
    let mut read_in = Array2::zeros((slots.width(), d + 1));
    slots.range(x).enumerate().for_each(|(i, row)| read_in[[row, i]] = 1.0);
    read_in[[slots.range("y").start, d]] = 1.0;
    let mut read_out = Array1::zeros(slots.width());
    read_out[slots.range("out").start] = 1.0;
    (read_in, read_out)
}
