//! Networks of which only predictions are kept: those of every layer on the first evaluation prompts of seed 0.
//! A twentieth of the bytes of the weights, and enough for everything that compares errors.

use std::collections::HashMap;
use std::path::Path;

use engine::hash::fnv1a_of;
use ndarray::{Array3, Array4, Axis};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::data::prompts::{Prompts, Questions};
use crate::error::{Error, Result};
use crate::learners::steps::Steps;
use crate::learners::{Learner, Trajectory, Unit};
use crate::registry::Id;

/// Predictions that a network made once.
pub struct Recorded {
    name: String,
    layers: Steps,
    /// `[layer, prompt, t]`
    values: Array3<f32>,
    /// One per prompt, so that they are never compared with the labels of others.
    marks: Vec<u64>,
}

/// Two tensors, and an entry of the metadata.
const VALUES: &str = "values";
const MARKS: &str = "prompts";
const LAYERS: &str = "layers";

impl Recorded {
    /// Its name in a folder.
    pub const FILE: &str = "predictions.safetensors";

    /// Asks a network once.
    pub fn of(learner: &dyn Learner, prompts: &Prompts) -> Result<Recorded> {
        let layers = learner.default_steps();
        let values = learner.trajectory(prompts, &layers)?.values.mapv(|v| v as f32);
        let marks = (0..prompts.count()).map(|b| mark(prompts, b)).collect();
        Ok(Recorded { name: learner.id().to_string(), layers, values, marks })
    }

    /// Writes the file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let values: Vec<u8> = self.values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let marks: Vec<u8> = self.marks.iter().flat_map(|m| m.to_le_bytes()).collect();
        let (s, b, t) = self.values.dim();
        let bad = |e: safetensors::SafeTensorError| Error::Content { path: path.into(), why: e.to_string() };
        let tensors = [
            (VALUES, TensorView::new(Dtype::F32, vec![s, b, t], &values).map_err(bad)?),
            (MARKS, TensorView::new(Dtype::U64, vec![b], &marks).map_err(bad)?),
        ];
        let entries = HashMap::from([(LAYERS.into(), self.layers.to_string())]);
        let bytes = safetensors::serialize(tensors, Some(entries)).map_err(bad)?;
        Ok(engine::model::checkpoint::write_whole(
            path,
            &engine::model::checkpoint::with_sorted_header(bytes),
        )?)
    }

    /// Reads a file; `name` is for tables and legends.
    pub fn read(path: &Path, name: &str) -> Result<Recorded> {
        let bytes = std::fs::read(path).map_err(|source| Error::File {
            action: "read",
            path: path.into(),
            source,
        })?;
        Recorded::parse(&bytes, name).map_err(|why| Error::Content { path: path.into(), why })
    }

    /// Whether a file holds predictions rather than weights.
    pub fn is(path: &Path) -> bool {
        engine::model::checkpoint::metadata(path).is_ok_and(|entries| entries.contains_key(LAYERS))
    }

    fn parse(bytes: &[u8], name: &str) -> Result<Recorded, String> {
        let whole = |e: safetensors::SafeTensorError| format!("not a whole safetensors file: {e}");
        let file = SafeTensors::deserialize(bytes).map_err(whole)?;
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(whole)?;
        let entries = header.metadata().clone().unwrap_or_default();
        let layers = entries.get(LAYERS).ok_or(format!("its metadata hold no '{LAYERS}'"))?;
        let layers = Steps::parse(layers).map_err(|e| e.to_string())?;
        let tensor = |name: &str, dtype: Dtype| match file.tensor(name) {
            Ok(tensor) if tensor.dtype() == dtype => Ok(tensor),
            _ => Err(format!("it has no tensor '{name}' of type {dtype:?}")),
        };
        let (values, marks) = (tensor(VALUES, Dtype::F32)?, tensor(MARKS, Dtype::U64)?);
        let &[s, b, t] = values.shape() else {
            return Err("its predictions are not [layer, prompt, point]".into());
        };
        if s != layers.len() || marks.shape() != [b] {
            let found = (values.shape(), marks.shape());
            return Err(format!("its shapes {found:?} do not fit its layers {layers}"));
        }
        let numbers = values.data().as_chunks::<4>().0.iter().map(|v| f32::from_le_bytes(*v)).collect();
        let values = Array3::from_shape_vec((s, b, t), numbers).map_err(|e| e.to_string())?;
        let marks = marks.data().as_chunks::<8>().0.iter().map(|m| u64::from_le_bytes(*m)).collect();
        Ok(Recorded { name: name.into(), layers, values, marks })
    }

    /// Whether it was asked these prompts, in this order, from the first on.
    pub fn knows(&self, prompts: &Prompts) -> bool {
        prompts.points() == self.values.dim().2
            && prompts.count() <= self.marks.len()
            && (0..prompts.count()).all(|b| mark(prompts, b) == self.marks[b])
    }
}

fn mark(prompts: &Prompts, b: usize) -> u64 {
    let (xs, ys) = prompts.prompt(b);
    fnv1a_of(xs.iter().chain(ys).flat_map(|v| v.to_le_bytes()))
}

impl Learner for Recorded {
    fn id(&self) -> Id {
        Id { name: self.name.clone(), given: Default::default() }
    }

    fn unit(&self) -> Unit {
        Unit::Layer
    }

    fn default_steps(&self) -> Steps {
        self.layers.clone()
    }

    fn trajectory(&self, prompts: &Prompts, steps: &Steps) -> Result<Trajectory> {
        if !self.knows(prompts) {
            let why = "its weights are not kept, only what it said to the first evaluation prompts of seed 0; \
                       train it to ask more";
            return Err(self.unsupported("predict on other prompts", why));
        }
        let row = |layer: &u64| {
            self.layers.position(*layer).ok_or_else(|| Error::BadSteps {
                text: steps.to_string(),
                why: format!("{} has layers {}", self.name, self.layers),
            })
        };
        let rows = steps.as_slice().iter().map(row).collect::<Result<Vec<_>>>()?;
        let values = self.values.select(Axis(0), &rows);
        let values = values.slice(ndarray::s![.., ..prompts.count(), ..]).mapv(f64::from);
        Trajectory::new(self.id(), Unit::Layer, steps.clone(), values, prompts)
    }

    fn answers(&self, _: &Questions, _: &Steps) -> Result<Array4<f64>> {
        Err(self.unsupported("answer fresh queries", "only its predictions are kept; train it to ask more"))
    }
}

impl Recorded {
    fn unsupported(&self, action: &'static str, why: &'static str) -> Error {
        Error::Unsupported { learner: self.name.clone(), action, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::prompts::Task;
    use crate::data::seed::Seed;
    use crate::solvers;

    fn prompts(seed: u64, count: usize) -> Prompts {
        Task::new("linear", "gaussian", 3, 8).unwrap().sample(Seed(seed), "eval", 0, count)
    }

    #[test]
    fn what_was_recorded_comes_back_and_nothing_else_is_answered() {
        let gd = solvers::build("gd").unwrap();
        let path = std::env::temp_dir().join(format!("iclab-recorded-{}.safetensors", std::process::id()));
        Recorded::of(&*gd, &prompts(0, 6)).unwrap().write(&path).unwrap();
        let found = Recorded::read(&path, "mine").unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let few = prompts(0, 4);
        let steps = found.default_steps();
        let (said, was) = (found.trajectory(&few, &steps).unwrap(), gd.trajectory(&few, &steps).unwrap());
        let close = said.values.iter().zip(&was.values).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs());
        assert!(close, "float32 keeps seven digits");
        assert!(found.trajectory(&prompts(1, 4), &steps).is_err(), "other prompts");
        assert!(found.trajectory(&prompts(0, 7), &steps).is_err(), "more prompts");
        assert!(Recorded::parse(&bytes[..bytes.len() - 5], "short").is_err());
    }
}
