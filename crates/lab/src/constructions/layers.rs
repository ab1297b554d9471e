//! What the constructions share: pairs of heads that make products, Newton's layer, and how a whole is put together.

use std::sync::Arc;

use ndarray::{Array1, Array2};

use super::operations::linear_mlp;
use super::slots::{Slots, Wire};
use super::transformer::{Activation, Head, Layer, Transformer};
use super::{Construction, Misprints, Recipe};

/// Sign of the second head's values that makes a product, ReLU(z) − ReLU(−z) = z …
pub const OPPOSITE: f64 = -1.0;
/// … and the sign the paper prints, ReLU(z) + ReLU(−z) = |z|.
pub const EQUAL: f64 = 1.0;

/// Two heads with scores z and −z; the values of the second are those of the first times `second`.
pub fn pair(slots: &Slots, score: &[Wire], value: &[Wire], second: f64) -> Vec<Head> {
    let head = |z: f64, v: f64| Head::wired(slots, &times(score, z), &times(value, v));
    vec![head(1.0, 1.0), head(-1.0, second)]
}

/// The same wires with all coefficients multiplied.
pub fn times<'a>(wires: &[Wire<'a>], factor: f64) -> Vec<Wire<'a>> {
    wires.iter().map(|&(a, b, c)| (a, b, c * factor)).collect()
}

/// One Newton iteration: attention makes a − ½TSTx, the MLP adds a once more. `n` undoes the normalisation.
///
/// Printed is the score ⟨b_t, a_s⟩, which makes T S Tᵀ. With T symmetric it is the same as ⟨a_t, b_s⟩, which makes T S T, but
/// round-off is not symmetric: an antisymmetric error F of a converged T becomes F − Fᵀ = 2F in the first and 0 in the second.
pub fn newton(slots: &Slots, n: f64, misprints: Misprints) -> Layer {
    let (query, key) = if misprints.transposed { ("b", "a") } else { ("a", "b") };
    let heads = pair(slots, &[(query, key, -n / 2.0)], &[("a", "a", 1.0)], misprints.second());
    Layer {
        mlp: Some(linear_mlp(slots, Activation::Relu, &[("a", "a", 1.0)], 0.0, "a")),
        ..Layer::attention("Newton", heads)
    }
}

/// The layers of a construction: those before the iterations, the iterations, those after them.
pub struct Layers {
    /// Before the first iteration.
    pub before: Vec<Layer>,
    /// One for each iteration of the recipe; where they are all the same, their weights are shared.
    pub iterations: Vec<Arc<Layer>>,
    /// After the last iteration.
    pub after: Vec<Layer>,
}

/// The same layer for every iteration, its weights shared.
pub fn repeated(layer: Layer, recipe: &Recipe) -> Vec<Arc<Layer>> {
    vec![Arc::new(layer); recipe.iterations]
}

impl Layers {
    /// The whole Transformer: x is read into slot `x` and y into slot `y`, `positions` `[p,w]` are added, and slot `out` of the
    /// last column is the prediction.
    pub fn assemble(self, recipe: &Recipe, slots: Slots, x: &str, positions: Array2<f64>) -> Construction {
        let Layers { before, iterations, after } = self;
        let (first, last) = (before.len(), after.len());
        let layers = before.into_iter().map(Arc::new).chain(iterations);
        let layers = layers.chain(after.into_iter().map(Arc::new)).collect();
        let d = recipe.dim;
        let mut read_in = Array2::zeros((slots.width(), d + 1));
        slots.range(x).enumerate().for_each(|(i, row)| read_in[[row, i]] = 1.0);
        read_in[[slots.range("y").start, d]] = 1.0;
        let mut read_out = Array1::zeros(slots.width());
        read_out[slots.range("out").start] = 1.0;
        let transformer = Transformer { slots, read_in, positions, layers, read_out };
        let recipe = recipe.clone();
        Construction { recipe, transformer, before: first, after: last, query_is_seen: false }
    }
}
