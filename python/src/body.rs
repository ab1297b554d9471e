//! Networks of PyTorch: hidden states from a Python function, or weights from a state dict.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use engine::interchange::pt;
use lab::data::prompts::Prompts as LabPrompts;
use lab::networks::Weights;
use lab::networks::experiment::TaskSpec;
use lab::probe::{Body, FitTo, Options, Probed, ReadBody, usual_task};
use lab::{Error, Result, Seed};
use ndarray::Array3;
use numpy::{PyArray2, PyArray3, PyReadonlyArray3};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::given;
use crate::calls::{keep, run};
use crate::errors::argument;
use crate::learners::Learner;
use crate::prompts::Prompts;

/// A Python function that gives the states `[b, n, width]` of every layer for `xs` and `ys`, both float32.
struct PythonBody {
    name: String,
    widths: Vec<usize>,
    states: Py<PyAny>,
}

impl Body for PythonBody {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn widths(&self) -> &[usize] {
        &self.widths
    }

    fn states(&self, prompts: &LabPrompts) -> Result<Vec<Array3<f32>>> {
        let asked = |py: Python<'_>| -> PyResult<Vec<Array3<f32>>> {
            let xs: Bound<PyArray3<f32>> = given(py, prompts.xs.mapv(|x| x as f32));
            let ys: Bound<PyArray2<f32>> = given(py, prompts.ys.mapv(|y| y as f32));
            let states: Vec<PyReadonlyArray3<f32>> = self.states.call1(py, (xs, ys))?.extract(py)?;
            Ok(states.iter().map(|states| states.as_array().to_owned()).collect())
        };
        Python::attach(asked).map_err(keep)
    }
}

/// Fits a read-out to every layer of a network that a Python function runs. To `prompts` of a task that is known as many fresh
/// ones of it as help are taken, or `count`; others are fitted to themselves.
#[pyfunction]
pub fn fit_body<'py>(
    py: Python<'py>,
    name: String,
    widths: Vec<usize>,
    states: Py<PyAny>,
    prompts: PyRef<'py, Prompts>,
    count: Option<usize>,
) -> PyResult<(Learner, Bound<'py, PyDict>)> {
    if widths.is_empty() {
        return Err(argument("there are no layers; accepted: at least one"));
    }
    let body = Arc::new(PythonBody { name, widths, states });
    let prompts = &*prompts;
    let read = run(py, || {
        let to = match &prompts.sampled {
            Some(sampled) => FitTo::Task(sampled.task()?, Seed(sampled.seed), count),
            None => FitTo::Prompts((*prompts.inner).clone()),
        };
        ReadBody::fit(body, to, &|_| ())
    })?;
    let about = PyDict::new(py);
    about.set_item("prompts", read.prompts)?;
    about.set_item("why", read.why.clone())?;
    let held_out: Vec<(f64, f64)> = read.held_out.iter().map(|h| (h.mean_loss, h.last_error)).collect();
    about.set_item("held_out", held_out)?;
    Ok((Learner::new(read, Vec::new()), about))
}

/// A network of ours with the weights of a state dict, as `torch.save` writes it to memory: its own output, or with a read-out
/// for every layer, fitted to a task.
#[pyfunction]
pub fn load_state(
    py: Python<'_>,
    bytes: &[u8],
    heads: Option<usize>,
    own: bool,
    task: Option<(String, String, usize, usize)>,
    seed: u64,
) -> PyResult<Learner> {
    let (learner, notes) = run(py, || {
        let read = pt::read_from(Path::new("the state dict"), Cursor::new(bytes), heads);
        let model = read.map_err(|error| Error::BadData(error.to_string()))?;
        let mut notes = Vec::new();
        if model.heads_assumed {
            notes
                .push("heads are assumed to be 8, as weights do not show them: heads=… says how many".into());
        }
        let weights = Arc::new(Weights::new(model.network, model.params));
        if own {
            return Ok((Probed::own("state dict".into(), weights), notes));
        }
        let task = match task {
            Some((function, inputs, dim, points)) => TaskSpec { function, inputs, dim, points },
            None => usual_task(weights.network.features()),
        };
        let task = task.build()?;
        let options = Options::default();
        let probed = Probed::fit_with("state dict".into(), weights, &task, Seed(seed), &options, &|_| ())?;
        Ok((probed, notes))
    })?;
    Ok(Learner::new(learner, notes))
}
