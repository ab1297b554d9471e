//! Predictions that were made once: by a network whose weights are not kept, or by another program.
//!
//! Two files hold them: `.npz` with `steps` `[s]` and `values` `[s,b,n]`, as `iclab predict` and NumPy write it, and
//! `predictions.safetensors` in single precision. Both know the prompts they were made for by a digest each.

use std::collections::HashMap;
use std::path::Path;

use engine::model::checkpoint;
use ndarray::{Array3, Array4, Axis, Ix1, Ix3};
use safetensors::tensor::Dtype;

use super::steps::Steps;
use super::{Learner, Trajectory, Unit};
use crate::data::npz::{DIGEST, Reader};
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
    /// Of the prompts it was asked ([`Prompts::digest`]); none where the file has none.
    digest: Option<Vec<u64>>,
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
        let digest = Some(prompts.digest());
        Ok(Recorded { name: learner.id().to_string(), unit: Unit::Layer, steps, values, digest })
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
        let diverged = match reader.has("diverged") {
            true => reader.array::<Ix1>("diverged", &["step"])?.to_vec(),
            false => Vec::new(),
        };
        check_finite(&values, &diverged).map_err(bad)?;
        let digest = reader.has(DIGEST).then(|| reader.bits(DIGEST)).transpose()?;
        if let Some(found) = digest.as_ref().filter(|found| found.len() != values.dim().1) {
            let (found, wanted) = (found.len(), values.dim().1);
            return Err(bad(format!(
                "array 'fingerprint' is of {found} prompts but 'values' of {wanted}; accepted: as many"
            )));
        }
        Ok(Recorded { name, unit: Unit::Step, steps, values, digest })
    }

    /// What the user should know before its predictions are believed, a sentence.
    pub fn warning(&self) -> Option<String> {
        let name = &self.name;
        self.digest.is_none().then(|| {
            format!(
                "{name} has no array 'fingerprint', so nothing shows that it was made for these prompts; carry the one \
                 of the prompts' file on, as fingerprint=p[\"fingerprint\"]"
            )
        })
    }

    /// Writes `predictions.safetensors`, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let values: Vec<u8> = self.values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect();
        let marks: Vec<u8> = self.digest.iter().flatten().flat_map(|m| m.to_le_bytes()).collect();
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
        check_finite(&values, &[])?;
        let marks = marks.data().as_chunks::<8>().0.iter().map(|m| u64::from_le_bytes(*m)).collect();
        Ok(Recorded { name: name.into(), unit: Unit::Layer, steps, values, digest: Some(marks) })
    }

    /// Refuses prompts that it was not asked: they must be its own, in this order, from the first on. A file without a
    /// digest cannot tell.
    fn check(&self, prompts: &Prompts) -> Result<()> {
        let Some(known) = &self.digest else { return Ok(()) };
        let asked = prompts.digest();
        let (_, most, points) = self.values.dim();
        let others = asked.iter().zip(known).filter(|(asked, known)| asked != known).count();
        let why = if prompts.points() != points {
            format!("prompts of {points} points, and these have {}", prompts.points())
        } else if others > 0 {
            format!("other prompts: the fingerprints of {others} of {} differ", asked.len())
        } else if asked.len() > most {
            format!("{most} prompts, and these are {}", asked.len())
        } else {
            return Ok(());
        };
        let accepted = match self.name.starts_with("file:") {
            true => "the file of its prompts, as --prompts PROMPTS.npz",
            false => {
                "the first evaluation prompts of seed 0, as its weights are not kept; train it to ask more"
            }
        };
        Err(Error::BadData(format!("{} was made for {why}; accepted: {accepted}", self.name)))
    }
}

/// Refuses predictions that are not finite, unless the file itself says on how many prompts it `diverged` at each step, as
/// iclab predict does: one such number would silently take its prompt out of every mean.
fn check_finite(values: &Array3<f64>, diverged: &[f64]) -> Result<(), String> {
    let lost = |s: usize| {
        let rows = values.index_axis(Axis(0), s);
        rows.rows().into_iter().filter(|row| row.iter().any(|v| !v.is_finite())).count()
    };
    // A number that is none says nothing.
    let said = |s: usize| diverged.get(s).copied().unwrap_or(0.0).max(0.0);
    let Some(step) = (0..values.dim().0).find(|&s| lost(s) as f64 > said(s)) else { return Ok(()) };
    let wrong = |((s, ..), v): &((usize, usize, usize), &f64)| *s >= step && !v.is_finite();
    let count = values.iter().filter(|v| !v.is_finite()).count();
    let Some(((s, b, t), value)) = values.indexed_iter().find(wrong) else { return Ok(()) };
    Err(format!(
        "array 'values' is {value} at [{s}, {b}, {t}] (step, prompt, point), one of {count} such numbers; accepted: \
         finite numbers"
    ))
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
        self.check(prompts)?;
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
        if self.digest.is_some() {
            values = values.slice(ndarray::s![.., ..prompts.count(), ..]).to_owned();
        }
        Trajectory::new(self.id(), self.unit, steps.clone(), values, prompts)
    }

    fn answers(&self, _: &Questions, _: &Steps) -> Result<Array4<f64>> {
        let why = "recorded predictions say nothing about inputs that are not among them; compare by errors (sime, l2e)";
        Err(self.unsupported("answer fresh queries", why))
    }

    fn recorded_prompts(&self) -> Option<usize> {
        Some(self.values.dim().1)
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
