//! State probes: what the layers of a network hold.

use std::time::Instant;

use lab::registry::one_of;
use lab::states::ReadOutKind;
use lab::states::plan::{Plan, Wish};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::calls::run;
use crate::findings::Findings;

/// What is read, from Python.
#[derive(FromPyObject)]
pub struct StatesArg {
    #[pyo3(item)]
    network: String,
    #[pyo3(item)]
    algorithm: Option<String>,
    #[pyo3(item)]
    steps: Option<String>,
    #[pyo3(item)]
    read_out: String,
    #[pyo3(item)]
    prompts: usize,
    #[pyo3(item)]
    other_inputs: Option<String>,
    #[pyo3(item)]
    seed: u64,
}

/// Reads the states of a network by its name.
#[pyfunction]
pub fn states<'py>(py: Python<'py>, asked: StatesArg) -> PyResult<Bound<'py, PyDict>> {
    let began = Instant::now();
    let (found, plan) = run(py, || {
        let (plan, notes) = Plan::new(Wish {
            network: asked.network.clone(),
            algorithm: asked.algorithm.clone(),
            steps: asked.steps.clone(),
            kind: one_of("read_out", &asked.read_out, &ReadOutKind::ALL)?,
            prompts: asked.prompts,
            other_inputs: asked.other_inputs.clone(),
            seed: asked.seed,
        })?;
        let mut found = plan.run(&|_| ())?;
        found.notes.splice(0..0, notes);
        Ok((found, plan))
    })?;
    let dict = PyDict::new(py);
    dict.set_item("json", found.json(&plan).to_string())?;
    let inner = lab::findings::Findings { seconds: began.elapsed().as_secs_f64(), ..found.findings(&plan) };
    dict.set_item("findings", Py::new(py, Findings { inner, about: (plan.prompts[0], asked.seed) })?)?;
    Ok(dict)
}
