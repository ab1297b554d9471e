//! Constructions as safetensors: every matrix in float64, and what they mean as metadata.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use ndarray::{Array, Array1, Array2, Dimension};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use super::map::Map;
use super::slots::Slots;
use super::transformer::{Activation, Head, Layer, Mask, Mlp, Transformer, Weighting};
use super::{Construction, Recipe};
use crate::error::{Error, Result};
use crate::tensors;

/// Keys of the metadata.
const ABOUT: &str = "iclab.construction";
const README: &str = "readme";

/// What the tensors do not tell.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstructionAbout {
    recipe: Recipe,
    before: usize,
    after: usize,
    query_is_seen: bool,
    slots: Slots,
    layers: Vec<LayerAbout>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerAbout {
    name: String,
    mask: Mask,
    weighting: Weighting,
    heads: usize,
    mlp: Option<Activation>,
}

/// Writes a construction, whole or not at all. `readme` rides along.
pub fn write(path: &Path, construction: &Construction, readme: &str) -> Result<()> {
    let transformer = &construction.transformer;
    let mut all = vec![
        tensor("read_in", &transformer.read_in),
        tensor("positions", &transformer.positions),
        tensor("read_out", &transformer.read_out),
    ];
    for (l, layer) in transformer.layers.iter().enumerate() {
        for (m, head) in layer.heads.iter().enumerate() {
            for (name, map) in [("query", &head.query), ("key", &head.key), ("value", &head.value)] {
                all.push(tensor(&format!("layers.{l}.heads.{m}.{name}"), &map.matrix()));
            }
        }
        let Some(mlp) = &layer.mlp else { continue };
        let name = |part: &str| format!("layers.{l}.mlp.{part}");
        all.push(tensor(&name("inner"), &mlp.inner.matrix()));
        all.push(tensor(&name("inner_bias"), &mlp.inner_bias));
        all.push(tensor(&name("outer"), &mlp.outer.matrix()));
        all.push(tensor(&name("outer_bias"), &mlp.outer_bias));
    }
    let about = ConstructionAbout {
        recipe: construction.recipe.clone(),
        before: construction.before,
        after: construction.after,
        query_is_seen: construction.query_is_seen,
        slots: transformer.slots.clone(),
        layers: transformer.layers.iter().map(|layer| LayerAbout::of(layer)).collect(),
    };
    let about = serde_json::to_string(&about).expect("plain data");
    let metadata = HashMap::from([(ABOUT.to_string(), about), (README.to_string(), readme.to_string())]);
    tensors::write(path, &all, metadata)
}

fn tensor<D: Dimension>(name: &str, values: &Array<f64, D>) -> tensors::Named {
    tensors::f64s(name, values.shape(), values)
}

impl LayerAbout {
    fn of(layer: &Layer) -> LayerAbout {
        LayerAbout {
            name: layer.name.clone(),
            mask: layer.mask,
            weighting: layer.weighting,
            heads: layer.heads.len(),
            mlp: layer.mlp.as_ref().map(|mlp| mlp.activation),
        }
    }
}

/// Reads a construction and trusts nothing in it.
pub fn read(path: &Path) -> Result<Construction> {
    let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
    let foreign = |e: String| {
        Error::content(
            path,
            format!("not weights of a construction ({e}); accepted: what iclab construct writes"),
        )
    };
    let (tensors, metadata) = tensors::parse(&bytes).map_err(|e| foreign(e.to_string()))?;
    let about = metadata.get(ABOUT).ok_or_else(|| foreign(format!("no metadata '{ABOUT}'")))?;
    let about: ConstructionAbout =
        serde_json::from_str(about).map_err(|e| foreign(format!("metadata '{ABOUT}': {e}")))?;
    Reader { path, tensors }.construction(about)
}

struct Reader<'a> {
    path: &'a Path,
    tensors: SafeTensors<'a>,
}

impl Reader<'_> {
    fn construction(&self, about: ConstructionAbout) -> Result<Construction> {
        let recipe = about.recipe;
        recipe.check().map_err(|e| Error::content(self.path, e.to_string()))?;
        // Sizes are known from here on; a width beyond any construction's is not worth allocating for.
        let most = 8 * recipe.dim + 32;
        let width = about.slots.0.iter().fold(0usize, |sum, slot| sum.saturating_add(slot.size));
        if width == 0 || width > most {
            return Err(self.bad(format!("slots of {width} entries; accepted: 1 to {most}")));
        }
        let layers = recipe.iterations.saturating_add(about.before).saturating_add(about.after);
        if about.before > 64 || about.after > 64 || about.layers.len() != layers {
            return Err(self.bad(format!(
                "{} layers for {} iterations with {} before and {} after; accepted: as many as that makes",
                about.layers.len(),
                recipe.iterations,
                about.before,
                about.after
            )));
        }
        let mut read: Vec<Arc<Layer>> = Vec::new();
        for (l, layer) in about.layers.into_iter().enumerate() {
            let layer = self.layer(l, layer, width)?;
            // Equal layers are kept once.
            let same = read.last().filter(|last| ***last == layer).cloned();
            read.push(same.unwrap_or_else(|| Arc::new(layer)));
        }
        let transformer = Transformer {
            read_in: self.matrix("read_in", width, recipe.dim + 1)?,
            positions: self.matrix("positions", recipe.columns(), width)?,
            read_out: self.vector("read_out", width)?,
            layers: read,
            slots: about.slots,
        };
        Ok(Construction {
            recipe,
            transformer,
            before: about.before,
            after: about.after,
            query_is_seen: about.query_is_seen,
        })
    }

    fn layer(&self, l: usize, about: LayerAbout, width: usize) -> Result<Layer> {
        let head = |m: usize| {
            let name = |part: &str| format!("layers.{l}.heads.{m}.{part}");
            let rank = self.rows(&name("query"))?;
            let query = self.matrix(&name("query"), rank, width)?;
            let key = self.matrix(&name("key"), rank, width)?;
            Ok(Head::new(&query, &key, &self.matrix(&name("value"), width, width)?))
        };
        let mlp = |activation: Activation| {
            let name = |part: &str| format!("layers.{l}.mlp.{part}");
            let units = self.rows(&name("inner"))?;
            Ok::<_, Error>(Mlp {
                activation,
                inner: Map::of(&self.matrix(&name("inner"), units, width)?),
                inner_bias: self.vector(&name("inner_bias"), units)?,
                outer: Map::of(&self.matrix(&name("outer"), width, units)?),
                outer_bias: self.vector(&name("outer_bias"), width)?,
            })
        };
        Ok(Layer {
            name: about.name,
            mask: about.mask,
            weighting: about.weighting,
            heads: (0..about.heads).map(head).collect::<Result<_>>()?,
            mlp: about.mlp.map(mlp).transpose()?,
        })
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        self.tensors.tensor(name).map_err(|_| self.bad(format!("tensor '{name}' is missing")))
    }

    /// First axis of a tensor.
    fn rows(&self, name: &str) -> Result<usize> {
        Ok(self.tensor(name)?.shape().first().copied().unwrap_or(0))
    }

    fn numbers(&self, name: &str, shape: &[usize]) -> Result<Vec<f64>> {
        let tensor = self.tensor(name)?;
        if tensor.dtype() != Dtype::F64 || tensor.shape() != shape {
            let found = format!("{:?} {:?}", tensor.dtype(), tensor.shape());
            return Err(self.bad(format!("tensor '{name}' is {found}; accepted: F64 {shape:?}")));
        }
        let numbers = tensors::numbers(&tensor);
        match numbers.iter().find(|v| !v.is_finite()) {
            Some(value) => Err(self.bad(format!("tensor '{name}' holds {value}; accepted: finite numbers"))),
            None => Ok(numbers),
        }
    }

    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Array2<f64>> {
        let numbers = self.numbers(name, &[rows, columns])?;
        Array2::from_shape_vec((rows, columns), numbers).map_err(|e| self.bad(e.to_string()))
    }

    fn vector(&self, name: &str, size: usize) -> Result<Array1<f64>> {
        Ok(Array1::from_vec(self.numbers(name, &[size])?))
    }

    fn bad(&self, why: String) -> Error {
        Error::content(self.path, why)
    }
}
