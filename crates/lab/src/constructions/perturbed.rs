//! Constructions with noise on their weights: how far from exact a Transformer may be and still be what it was built as.

use std::sync::Arc;

use ndarray::{Array, Dimension};

use super::transformer::{Head, Layer, Mlp};
use super::{Construction, Map, Transformer};
use crate::data::seed::{Draws, Seed};

impl Construction {
    /// The same with Gaussian noise on every number of every tensor, zeros included, of `level` times the root mean square of
    /// its tensor. Layers that were equal are perturbed each for itself; queries stay hidden from other columns, as the
    /// exact weights have it. Noise number `draw` of a seed is the same at every level, up to its size.
    pub fn perturbed(&self, level: f64, seed: Seed, draw: u64) -> Construction {
        let mut noise = Noise { level, draws: seed.at("perturbed", draw) };
        let Transformer { slots, read_in, positions, layers, read_out } = &self.transformer;
        let transformer = Transformer {
            slots: slots.clone(),
            read_in: noise.on(read_in),
            positions: noise.on(positions),
            layers: layers.iter().map(|layer| Arc::new(noise.on_layer(layer))).collect(),
            read_out: noise.on(read_out),
        };
        Construction { transformer, ..self.clone() }
    }
}

struct Noise {
    level: f64,
    draws: Draws,
}

impl Noise {
    fn on<D: Dimension>(&mut self, tensor: &Array<f64, D>) -> Array<f64, D> {
        let power = tensor.iter().map(|v| v * v).sum::<f64>() / tensor.len().max(1) as f64;
        let size = self.level * power.sqrt();
        tensor.mapv(|v| v + size * self.draws.normal())
    }

    fn on_map(&mut self, map: &Map) -> Map {
        Map::of(&self.on(&map.matrix()))
    }

    fn on_layer(&mut self, layer: &Layer) -> Layer {
        let head = |head: &Head| Head {
            query: self.on_map(&head.query),
            key: self.on_map(&head.key),
            value: self.on_map(&head.value),
        };
        let heads = layer.heads.iter().map(head).collect();
        let mlp = layer.mlp.as_ref().map(|mlp| Mlp {
            activation: mlp.activation,
            inner: self.on_map(&mlp.inner),
            inner_bias: self.on(&mlp.inner_bias),
            outer: self.on_map(&mlp.outer),
            outer_bias: self.on(&mlp.outer_bias),
        });
        Layer { heads, mlp, ..layer.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constructions::{Recipe, Start, Variant, build};

    #[test]
    fn noise_has_the_size_it_should_and_none_changes_nothing() {
        let recipe = Recipe {
            variant: Variant::Compact(Start::Gram),
            iterations: 3,
            dim: 4,
            pairs: 9,
            step: 0.01,
            label_bound: 1.0,
        };
        let exact = build(&recipe).unwrap();
        assert_eq!(exact.perturbed(0.0, Seed(1), 0), exact);
        let noisy = exact.perturbed(0.1, Seed(1), 0);
        let (clean, found) = (&exact.transformer.positions, &noisy.transformer.positions);
        let power = |of: &ndarray::Array2<f64>| of.iter().map(|v| v * v).sum::<f64>();
        let share = power(&(found - clean)) / power(clean);
        assert!((share / 0.01 - 1.0).abs() < 0.35, "{share}");
        // layers that were one are now each their own
        let [.., one, two, _] = noisy.transformer.layers.as_slice() else { panic!("k + 3 layers") };
        assert_ne!(one.heads, two.heads);
        assert_ne!(noisy, exact.perturbed(0.1, Seed(1), 1));
    }
}
