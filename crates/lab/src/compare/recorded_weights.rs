//! Induced weights that were fitted once to what a network answers: 200 queries after each of 40 prefixes of 64 prompts are half a
//! million passes through it.

use std::collections::HashMap;
use std::path::Path;

use half::f16;
use ndarray::{Array4, Axis, s};
use safetensors::tensor::Dtype;

use super::similarity::{InducedWeights, induced_weights};
use crate::data::prompts::{Questions, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::learners::steps::Steps;
use crate::learners::{Learner, Unit};
use crate::registry::Id;
use crate::tensors;

/// Prompts for induced weights.
pub const INDUCED: usize = 64;
/// Queries per prompt and dimension for induced weights: T ≫ d.
const QUERIES_PER_DIM: usize = 10;

/// The first `count` evaluation prompts of a task with fresh queries after 1, 2, … pairs, for induced weights.
pub fn questions(task: &Task, seed: Seed, count: usize) -> Questions {
    let lengths = (1..task.points).collect();
    task.questions(seed, "eval", 0, count, lengths, QUERIES_PER_DIM * task.dim)
}

/// Induced weights of every layer of a network, in half precision: of two vectors rounded so the cosine moves by less than 1e-6.
pub struct RecordedWeights {
    layers: Steps,
    /// `[b, layer, length, d]`
    values: Array4<f64>,
    /// Of the questions it was asked ([`Questions::digest`]).
    digest: Vec<u64>,
}

/// Two tensors, and an entry of the metadata.
const VALUES: &str = "weights";
const DIGESTS: &str = "questions";
const LAYERS: &str = "layers";

impl RecordedWeights {
    /// Its name in a folder.
    pub const FILE: &str = "induced.safetensors";

    /// Asks a network once.
    pub fn of(learner: &dyn Learner, questions: &Questions) -> Result<RecordedWeights> {
        let layers = learner.default_steps();
        let values = induced_weights(learner, questions, &layers)?.values.mapv(|v| number(half(v)));
        Ok(RecordedWeights { layers, values, digest: questions.digest() })
    }

    /// The weights of some layers for these questions, if those are the first that were asked; `name` is for tables and legends.
    pub fn find(&self, name: &str, questions: &Questions, layers: &Steps) -> Option<InducedWeights> {
        let digest = questions.digest();
        if !self.digest.starts_with(&digest) {
            return None;
        }
        let chosen = layers.as_slice().iter().map(|layer| self.layers.position(*layer));
        let chosen = chosen.collect::<Option<Vec<_>>>()?;
        // prompts first, as everywhere: what is selected along another axis need not lie so
        let values = self.values.slice(s![..digest.len(), .., .., ..]).select(Axis(1), &chosen);
        let values = values.as_standard_layout().into_owned();
        let learner = Id { name: name.into(), given: Default::default() };
        Some(InducedWeights { learner, unit: Unit::Layer, steps: layers.clone(), values })
    }

    /// Writes the file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let values = self.values.iter().flat_map(|v| half(*v).to_le_bytes()).collect();
        let digests = self.digest.iter().flat_map(|d| d.to_le_bytes()).collect();
        let (b, s, l, d) = self.values.dim();
        let all = [
            (VALUES.into(), Dtype::F16, vec![b, s, l, d], values),
            (DIGESTS.into(), Dtype::U64, vec![b], digests),
        ];
        tensors::write(path, &all, HashMap::from([(LAYERS.into(), self.layers.to_string())]))
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<RecordedWeights> {
        let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
        RecordedWeights::parse(&bytes).map_err(|why| Error::content(path, why))
    }

    fn parse(bytes: &[u8]) -> Result<RecordedWeights, String> {
        let (file, entries) =
            tensors::parse(bytes).map_err(|e| format!("not a whole safetensors file: {e}"))?;
        let layers = entries.get(LAYERS).ok_or(format!("its metadata hold no '{LAYERS}'"))?;
        let layers = Steps::parse(layers).map_err(|e| e.to_string())?;
        let tensor = |name: &str, dtype: Dtype| {
            let found = file.tensor(name).ok().filter(|tensor| tensor.dtype() == dtype);
            found.ok_or(format!("it has no tensor '{name}' of type {dtype:?}"))
        };
        let (values, digests) = (tensor(VALUES, Dtype::F16)?, tensor(DIGESTS, Dtype::U64)?);
        let shape = match *values.shape() {
            [b, s, l, d] if s == layers.len() && digests.shape() == [b] => (b, s, l, d),
            _ => {
                return Err(format!(
                    "tensors '{VALUES}' and '{DIGESTS}' have shapes {:?} and {:?}; accepted: [b, {}, length, d] and [b]",
                    values.shape(),
                    digests.shape(),
                    layers.len()
                ));
            }
        };
        let numbers: Vec<f64> =
            values.data().as_chunks::<2>().0.iter().map(|v| number(f16::from_le_bytes(*v))).collect();
        if let Some(v) = numbers.iter().find(|v| !v.is_finite()) {
            return Err(format!("tensor '{VALUES}' holds {v}; accepted: finite numbers"));
        }
        let values = Array4::from_shape_vec(shape, numbers).map_err(|e| e.to_string())?;
        let digest = digests.data().as_chunks::<8>().0.iter().map(|d| u64::from_le_bytes(*d)).collect();
        Ok(RecordedWeights { layers, values, digest })
    }
}

// Not inlined: in a loop, the branches of these conversions keep LLVM's vectoriser busy for minutes.
#[inline(never)]
fn half(value: f64) -> f16 {
    f16::from_f32(value as f32)
}

#[inline(never)]
fn number(value: f16) -> f64 {
    value.to_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::similarity::{Metric, of_weights};
    use crate::solvers;

    #[test]
    fn what_was_recorded_comes_back_and_other_questions_are_not_answered() {
        let (task, gd) = (Task::new("linear", "gaussian", 3, 8).unwrap(), solvers::build("gd").unwrap());
        let asked = questions(&task, Seed(0), 6);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(RecordedWeights::FILE);
        RecordedWeights::of(&*gd, &asked).unwrap().write(&path).unwrap();
        let kept = RecordedWeights::read(&path).unwrap();
        let few = questions(&task, Seed(0), 4);
        let steps = Steps::new(vec![2, 16]).unwrap();
        let (found, live) =
            (kept.find("gd", &few, &steps).unwrap(), induced_weights(&*gd, &few, &steps).unwrap());
        assert_eq!(found.values.dim(), (4, 2, 7, 3));
        let close =
            |(a, b): (&f64, &f64)| (a - b).abs() <= b.abs() / 2048.0 + f64::from(f16::MIN_POSITIVE_SUBNORMAL);
        assert!(found.values.iter().zip(&live.values).all(close), "float16 keeps eleven bits");
        let alike = of_weights(&found, &live, Metric::Cosine);
        assert!([2, 16].iter().all(|s| (alike.at(*s, *s).unwrap() - 1.0).abs() < 1e-6), "and directions");
        assert!(kept.find("gd", &questions(&task, Seed(1), 4), &steps).is_none(), "other prompts");
        assert!(kept.find("gd", &questions(&task, Seed(0), 7), &steps).is_none(), "more prompts");
        assert!(kept.find("gd", &few, &Steps::single(3)).is_none(), "a step that was not recorded");
        let fewer = Questions { lengths: vec![1], ..few };
        assert!(kept.find("gd", &fewer, &steps).is_none(), "other lengths");
        let bytes = std::fs::read(&path).unwrap();
        assert!(RecordedWeights::parse(&bytes[..bytes.len() - 5]).is_err());
    }
}
