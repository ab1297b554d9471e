//! Predictions that were made once: by a network whose weights are not kept, or by another program.
//!
//! Two files hold them: `.npz` with `steps` `[s]` and `values` `[s,b,n]`, as `iclab predict` and NumPy write it, and
//! `predictions.safetensors` in single precision, which also knows the prompts it was asked.

use std::collections::HashMap;
use std::path::Path;

use engine::hash::stable_id_of;
use engine::model::checkpoint;
use ndarray::{Array3, Array4, Axis, Ix1, Ix3};
use safetensors::tensor::Dtype;

use super::steps::Steps;
use super::{Learner, Trajectory, Unit};
use crate::data::npz::Reader;
use crate::data::prompts::{Prompts, Questions};
use crate::error::{Error, Result};
use crate::registry::Id;
use crate::tensors;

/// Predictions that a learner made once.
pub struct Recorded {
    name: String,
    unit: Unit,
    steps: Steps,
    /// `[step, prompt, t]`
    values: Array3<f64>,
    /// One per prompt, so that they are never compared with the labels of others; none where the file has none.
    marks: Option<Vec<u64>>,
}

/// Two tensors, and an entry of the metadata.
const VALUES: &str = "values";
const MARKS: &str = "prompts";
const LAYERS: &str = "layers";

impl Recorded {
    /// Its name in a folder.
    pub const FILE: &str = "predictions.safetensors";

    /// Asks a network once; what is kept is in single precision.
    pub fn of(learner: &dyn Learner, prompts: &Prompts) -> Result<Recorded> {
        let steps = learner.default_steps();
        let values = learner.trajectory(prompts, &steps)?.values.mapv(|v| f64::from(v as f32));
        let marks = (0..prompts.count()).map(|b| mark(prompts, b)).collect();
        Ok(Recorded { name: learner.id().to_string(), unit: Unit::Layer, steps, values, marks: Some(marks) })
    }

    /// Reads a file of either kind as the learner `file:PATH`.
    pub fn open(path: &Path) -> Result<Recorded> {
        let name = format!("file:{}", path.display());
        if path.extension().is_some_and(|ending| ending == "safetensors") {
            Recorded::read(path, &name)
        } else {
            Recorded::read_npz(path, name)
        }
    }

    fn read_npz(path: &Path, name: String) -> Result<Recorded> {
        let mut reader = Reader::open(path)?;
        let steps = reader.array::<Ix1>("steps", &["step"])?;
        let values = reader.array::<Ix3>("values", &["step", "prompt", "point"])?;
        let bad = |why: String| Error::content(path, why);
        for step in &steps {
            if *step < 0.0 || step.fract() != 0.0 || *step > 1e12 {
                return Err(bad(format!("array 'steps' holds {step}; accepted: whole numbers from 0")));
            }
        }
        if steps.windows(2).into_iter().any(|w| w[0] >= w[1]) {
            return Err(bad(
                "array 'steps' is not increasing; accepted: distinct steps in increasing order".into()
            ));
        }
        let (found, wanted) = (values.dim().0, steps.len());
        if found != wanted {
            return Err(bad(format!(
                "array 'values' has {found} steps but 'steps' has {wanted}; accepted: as many"
            )));
        }
        let steps = Steps::new(steps.iter().map(|s| *s as u64).collect())?;
        Ok(Recorded { name, unit: Unit::Step, steps, values, marks: None })
    }

    /// Writes `predictions.safetensors`, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let values: Vec<u8> = self.values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect();
        let marks: Vec<u8> = self.marks.iter().flatten().flat_map(|m| m.to_le_bytes()).collect();
        let (s, b, t) = self.values.dim();
        let all =
            [(VALUES.into(), Dtype::F32, vec![s, b, t], values), (MARKS.into(), Dtype::U64, vec![b], marks)];
        tensors::write(path, &all, HashMap::from([(LAYERS.into(), self.steps.to_string())]))
    }

    /// Reads `predictions.safetensors`; `name` is for tables and legends.
    pub fn read(path: &Path, name: &str) -> Result<Recorded> {
        let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
        Recorded::parse(&bytes, name).map_err(|why| Error::content(path, why))
    }

    /// Whether a file holds predictions rather than weights.
    pub fn is(path: &Path) -> bool {
        checkpoint::metadata(path).is_ok_and(|entries| entries.contains_key(LAYERS))
    }

    fn parse(bytes: &[u8], name: &str) -> Result<Recorded, String> {
        let (file, entries) =
            tensors::parse(bytes).map_err(|e| format!("not a whole safetensors file: {e}"))?;
        let layers = entries.get(LAYERS).ok_or(format!("its metadata hold no '{LAYERS}'"))?;
        let steps = Steps::parse(layers).map_err(|e| e.to_string())?;
        let tensor = |name: &str, dtype: Dtype| match file.tensor(name) {
            Ok(tensor) if tensor.dtype() == dtype => Ok(tensor),
            _ => Err(format!("it has no tensor '{name}' of type {dtype:?}")),
        };
        let (values, marks) = (tensor(VALUES, Dtype::F32)?, tensor(MARKS, Dtype::U64)?);
        let &[s, b, t] = values.shape() else {
            return Err("its predictions are not [layer, prompt, point]".into());
        };
        if s != steps.len() || marks.shape() != [b] {
            let found = (values.shape(), marks.shape());
            return Err(format!("its shapes {found:?} do not fit its layers {steps}"));
        }
        let number = |v: &[u8; 4]| f64::from(f32::from_le_bytes(*v));
        let numbers = values.data().as_chunks::<4>().0.iter().map(number).collect();
        let values = Array3::from_shape_vec((s, b, t), numbers).map_err(|e| e.to_string())?;
        let marks = marks.data().as_chunks::<8>().0.iter().map(|m| u64::from_le_bytes(*m)).collect();
        Ok(Recorded { name: name.into(), unit: Unit::Layer, steps, values, marks: Some(marks) })
    }

    /// Whether it was asked these prompts, in this order, from the first on; `None` where the file does not say.
    fn knows(&self, prompts: &Prompts) -> Option<bool> {
        let marks = self.marks.as_ref()?;
        let same = |b: usize| mark(prompts, b) == marks[b];
        let fits = prompts.points() == self.values.dim().2 && prompts.count() <= marks.len();
        Some(fits && (0..prompts.count()).all(same))
    }
}

fn mark(prompts: &Prompts, b: usize) -> u64 {
    let (xs, ys) = prompts.prompt(b);
    stable_id_of(xs.iter().chain(ys).flat_map(|v| v.to_le_bytes()))
}

impl Learner for Recorded {
    fn id(&self) -> Id {
        Id { name: self.name.clone(), given: Default::default() }
    }

    fn unit(&self) -> Unit {
        self.unit
    }

    fn default_steps(&self) -> Steps {
        self.steps.clone()
    }

    fn trajectory(&self, prompts: &Prompts, steps: &Steps) -> Result<Trajectory> {
        let known = self.knows(prompts);
        if known == Some(false) {
            let why = "its weights are not kept, only what it said to the first evaluation prompts of seed 0; \
                       train it to ask more";
            return Err(self.unsupported("predict on other prompts", why));
        }
        let row = |step: &u64| {
            self.steps.position(*step).ok_or_else(|| Error::BadSteps {
                text: steps.to_string(),
                why: format!(
                    "step {step} is not in {} (it has {})",
                    self.name.trim_start_matches("file:"),
                    self.steps
                ),
            })
        };
        let rows = steps.as_slice().iter().map(row).collect::<Result<Vec<_>>>()?;
        let mut values = self.values.select(Axis(0), &rows);
        if known == Some(true) {
            values = values.slice(ndarray::s![.., ..prompts.count(), ..]).to_owned();
        }
        Trajectory::new(self.id(), self.unit, steps.clone(), values, prompts)
    }

    fn answers(&self, _: &Questions, _: &Steps) -> Result<Array4<f64>> {
        let why = "recorded predictions say nothing about inputs that are not among them; compare by errors (sime, l2e)";
        Err(self.unsupported("answer fresh queries", why))
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
