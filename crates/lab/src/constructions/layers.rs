//! What the constructions share: pairs of heads that make products, Newton's layer, and how a whole is put together.

use std::sync::Arc;

use ndarray::{Array1, Array2};

use super::operations::{linear_mlp, mov, mov_softmax};
use super::slots::{Slots, Wire};
use super::transformer::{Activation, Head, Layer, Mask, Transformer};
use super::{Construction, Misprints, Positions, Recipe};

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

/// What sums over columns run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// All columns: what the algorithms are made of.
    All,
    /// The columns before, divided by the pairs read so far: what a network can do that sees only the past. Sums are means.
    Past,
}

impl Sums {
    /// What a weight is multiplied by to make a sum of N columns, or a mean over pairs.
    pub fn undo(self, recipe: &Recipe) -> f64 {
        match self {
            Sums::All => recipe.columns() as f64,
            Sums::Past => 1.0,
        }
    }

    /// Slots of a construction; where only the past is seen, columns of labels are marked.
    pub fn slots(self, slots: &[(&str, usize, &str)]) -> Slots {
        let mut slots = slots.to_vec();
        if self == Sums::Past {
            slots.push(("label", 1, "1 in the columns of labels"));
        }
        Slots::new(&slots)
    }

    /// The table `[p, w]` of positions.
    pub fn table(self, positions: &Positions, slots: &Slots, columns: usize) -> Array2<f64> {
        let mut table = positions.table(slots, columns);
        if self == Sums::Past {
            let label = slots.range("label").start;
            (1..columns).step_by(2).for_each(|p| table[[p, label]] = 1.0);
        }
        table
    }

    /// A layer that copies slots from the column before.
    pub fn copy(self, slots: &Slots, positions: &Positions, columns: usize, wires: &[Wire]) -> Layer {
        match self {
            Sums::All => mov(slots, positions, columns, 1.0, wires, None),
            Sums::Past => causal_mov(slots, positions, wires),
        }
    }

    /// The layers under its mask.
    pub fn masked(self, layers: Layers) -> Layers {
        let masked = |mut layer: Layer| {
            layer.mask = if self == Sums::Past { Mask::Causal } else { layer.mask };
            layer
        };
        let Layers { before, iterations, after } = layers;
        let mut shared: Vec<(Arc<Layer>, Arc<Layer>)> = Vec::new();
        let iterations = iterations.into_iter().map(|layer| {
            match shared.iter().find(|(old, _)| Arc::ptr_eq(old, &layer)) {
                Some((_, new)) => new.clone(),
                None => {
                    let new = Arc::new(masked((*layer).clone()));
                    shared.push((layer, new.clone()));
                    new
                }
            }
        });
        let iterations = iterations.collect();
        let all = |layers: Vec<Layer>| layers.into_iter().map(masked).collect();
        Layers { before: all(before), iterations, after: all(after) }
    }
}

/// *mov* under a causal mask, by softmax: ReLU weights are divided by t there, which no value can undo. The first column sees
/// only itself and would copy its own slots; a second head, which looks at any label, takes that back.
fn causal_mov(slots: &Slots, positions: &Positions, wires: &[Wire]) -> Layer {
    const STEEP: f64 = 20.0; // exp(−2·20) is below round-off
    let mut layer = mov_softmax(slots, positions, STEEP, 1.0, wires);
    layer.heads.push(Head::wired(slots, &[("one", "label", 2.0 * STEEP)], &times(wires, -1.0)));
    layer
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
    std::iter::repeat_n(Arc::new(layer), recipe.iterations).collect()
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
