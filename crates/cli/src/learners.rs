//! Learners by name: an algorithm of the registry, constructed weights, a trained network, or a file of predictions.

use std::path::{Path, PathBuf};

use lab::learners::Unit;
use lab::registry::Id;
use lab::{Learner, Prompts, Questions, Steps, Trajectory};
use ndarray::{Array3, Array4};

use crate::construct;
use crate::error::{Error, Result};
use crate::npz::Reader;

/// Builds `newton`, `gd:eta=0.01`, …, reads `file:o.npz` or `construct:w.safetensors`, or probes the network of `run:runs/NAME`.
pub fn build(text: &str) -> Result<Box<dyn Learner>> {
    match text.split_once(':') {
        Some(("file", path)) => Ok(Box::new(Recorded::read(Path::new(path))?)),
        Some(("construct", path)) => Ok(Box::new(construct::learner(Path::new(path))?)),
        Some(("run", path)) => probed(path),
        _ => Ok(lab::solvers::build(text)?),
    }
}

/// A trained network with a read-out for every layer: those saved beside its checkpoint, or fresh ones.
fn probed(text: &str) -> Result<Box<dyn Learner>> {
    let (probed, notes) = lab::probe::build(text, &|_| ())?;
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    Ok(Box::new(probed))
}

/// The same with every default written out, for plans.
pub fn resolve(text: &str) -> Result<String> {
    if ["file:", "construct:", "run:"].iter().any(|kind| text.starts_with(kind)) {
        Ok(text.to_string())
    } else {
        Ok(lab::solvers::resolve(text)?)
    }
}

/// Predictions that someone else made: `steps` [s] and `values` [s,b,n].
struct Recorded {
    path: PathBuf,
    steps: Steps,
    values: Array3<f64>,
}

impl Recorded {
    fn read(path: &Path) -> Result<Recorded> {
        let mut reader = Reader::open(path)?;
        let steps = reader.array("steps", &["step"])?;
        let values = reader.array("values", &["step", "prompt", "point"])?;
        let bad = |why: String| Error::content(path, why);
        for step in &steps.values {
            if *step < 0.0 || step.fract() != 0.0 || *step > 1e12 {
                return Err(bad(format!("array 'steps' holds {step}; accepted: whole numbers from 0")));
            }
        }
        if steps.values.windows(2).any(|w| w[0] >= w[1]) {
            return Err(bad(
                "array 'steps' is not increasing; accepted: distinct steps in increasing order".into()
            ));
        }
        if values.shape[0] != steps.values.len() {
            let (found, wanted) = (values.shape[0], steps.values.len());
            return Err(bad(format!(
                "array 'values' has {found} steps but 'steps' has {wanted}; accepted: as many"
            )));
        }
        let shape = (values.shape[0], values.shape[1], values.shape[2]);
        let steps = Steps::new(steps.values.iter().map(|s| *s as u64).collect())?;
        let values = Array3::from_shape_vec(shape, values.values).map_err(|e| bad(e.to_string()))?;
        Ok(Recorded { path: path.to_path_buf(), steps, values })
    }
}

impl Learner for Recorded {
    fn id(&self) -> Id {
        Id { name: format!("file:{}", self.path.display()), given: Default::default() }
    }

    fn unit(&self) -> Unit {
        Unit::Step
    }

    fn default_steps(&self) -> Steps {
        self.steps.clone()
    }

    fn trajectory(&self, prompts: &Prompts, steps: &Steps) -> lab::Result<Trajectory> {
        let mut rows = Vec::new();
        for step in steps.as_slice() {
            let row = self.steps.position(*step).ok_or_else(|| lab::Error::BadSteps {
                text: steps.to_string(),
                why: format!("step {step} is not in {} (it has {})", self.path.display(), self.steps),
            })?;
            rows.push(row);
        }
        let values = self.values.select(ndarray::Axis(0), &rows);
        Trajectory::new(self.id(), Unit::Step, steps.clone(), values, prompts)
    }

    fn answers(&self, _: &Questions, _: &Steps) -> lab::Result<Array4<f64>> {
        let why = "a file of predictions says nothing about inputs that are not in it; compare by errors (sime, l2e)";
        Err(lab::Error::Unsupported { learner: self.id().to_string(), action: "answer fresh queries", why })
    }
}
