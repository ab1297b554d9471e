//! Learners: algorithms, networks, constructions, recorded predictions.

use std::path::Path;
use std::sync::Arc;

use lab::learners::task::task_of;
use lab::learners::{self, Resolved, Trajectory};
use lab::networks::experiment::TaskSpec;
use lab::networks::{self, Found};
use lab::probe::{LayerTable, Options, load};
use numpy::{PyArray1, PyArray3, PyReadonlyArray3};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{given, parsed, steps};
use crate::calls::run;
use crate::findings::json_text;
use crate::prompts::Prompts;

/// A learner that is there.
#[pyclass(frozen, module = "iclab._iclab")]
pub struct Learner {
    pub inner: Arc<dyn lab::Learner>,
    /// What the user should know of it, in full sentences.
    #[pyo3(get)]
    pub notes: Vec<String>,
}

impl Learner {
    pub fn new(inner: impl lab::Learner + 'static, notes: Vec<String>) -> Learner {
        Learner { inner: Arc::new(inner), notes }
    }
}

/// Values `[s, b, n]` with their steps, and how many prompts had diverged at each.
type Predicted<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray3<f64>>, Vec<usize>);

#[pymethods]
impl Learner {
    /// The learner of a name, for prompts of a size where that is known.
    #[staticmethod]
    pub fn build(py: Python<'_>, name: String, size: Option<(usize, usize)>) -> PyResult<Learner> {
        let Resolved { learner, notes } = run(py, || {
            let asked = match size {
                Some((points, dim)) => Some(TaskSpec { dim, points, ..task_of(&name)?.or_usual() }),
                None => None,
            };
            learners::build_for(&name, asked.as_ref(), &|_| ())
        })?;
        Ok(Learner { inner: learner.into(), notes })
    }

    #[getter]
    fn name(&self) -> String {
        self.inner.id().to_string()
    }

    #[getter]
    fn label(&self) -> String {
        lab::solvers::label(&self.inner.id())
    }

    #[getter]
    fn unit(&self) -> &'static str {
        self.inner.unit().one()
    }

    #[getter]
    fn default_steps<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        steps(py, &self.inner.default_steps())
    }

    /// Predictions at every position of every prompt.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        prompts: &Prompts,
        wanted: Option<String>,
    ) -> PyResult<Predicted<'py>> {
        let Trajectory { steps: taken, values, outcomes, .. } = run(py, || {
            let steps = parsed(wanted.as_deref())?.unwrap_or_else(|| self.inner.default_steps());
            self.inner.trajectory(&prompts.inner, &steps)
        })?;
        Ok((steps(py, &taken), given(py, values), outcomes.iter().map(|o| o.diverged).collect()))
    }

    /// Answers `[s, b, l, q]` to queries `[b, q, d]` after each of `lengths` pairs.
    fn answers<'py>(
        &self,
        py: Python<'py>,
        prompts: &Prompts,
        queries: PyReadonlyArray3<'py, f64>,
        lengths: Vec<usize>,
        wanted: Option<String>,
    ) -> PyResult<Bound<'py, numpy::PyArray4<f64>>> {
        let queries = queries.as_array().to_owned();
        let values = run(py, || {
            let steps = parsed(wanted.as_deref())?.unwrap_or_else(|| self.inner.default_steps());
            let (prompts, lengths) = ((*prompts.inner).clone(), checked(&prompts.inner, lengths, &queries)?);
            self.inner.answers(&lab::Questions { prompts, lengths, queries }, &steps)
        })?;
        Ok(given(py, values))
    }
}

fn checked(
    prompts: &lab::Prompts,
    lengths: Vec<usize>,
    queries: &ndarray::Array3<f64>,
) -> lab::Result<Vec<usize>> {
    let (b, q, d) = queries.dim();
    if b != prompts.count() || d != prompts.dim() || q == 0 {
        return Err(lab::Error::BadData(format!(
            "queries have shape {:?}; accepted: [prompts, queries, dimensions] = [{}, at least 1, {}]",
            queries.dim(),
            prompts.count(),
            prompts.dim()
        )));
    }
    let most = prompts.points();
    match lengths.iter().find(|length| **length > most) {
        Some(length) => {
            Err(lab::Error::BadData(format!("lengths has {length}; accepted: at most {most} pairs")))
        }
        None if lengths.is_empty() || lengths.windows(2).any(|w| w[0] >= w[1]) => {
            Err(lab::Error::BadData("lengths must be increasing and not empty".into()))
        }
        None => Ok(lengths),
    }
}

/// Opens a network, with a read-out for every layer: the learner, and what is known of its layers as JSON.
#[pyfunction]
pub fn probe<'py>(
    py: Python<'py>,
    name: String,
    prompts: Option<usize>,
    raw: bool,
    look: usize,
) -> PyResult<(Learner, Bound<'py, PyDict>)> {
    let (learner, text, table) = run(py, || {
        let Found { path, note } = networks::find(&name)?;
        let options = Options { prompts, raw, ..Options::default() };
        let opened = load(Path::new(&path))?.probe(None, &options, &|_| ())?;
        let table = LayerTable::new(&opened, None, look)?;
        let (text, table) = (table.text(), json_text(&table.json()));
        let notes = note.into_iter().chain(opened.notes).collect();
        Ok((Learner::new(opened.probed, notes), text, table))
    })?;
    let found = PyDict::new(py);
    found.set_item("text", text)?;
    found.set_item("json", table)?;
    Ok((learner, found))
}
