//! Activation patching.

use std::time::Instant;

use engine::cuda::{CudaError, Precision};
use lab::Error;
use lab::patching::Place;
use lab::patching::plan::{Plan, Wish};
use ndarray::Array3;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::given;
use crate::calls::run;
use crate::findings::Findings;
use crate::training::device;

/// What is patched, from Python.
#[derive(FromPyObject)]
pub struct PatchArg {
    #[pyo3(item)]
    network: String,
    #[pyo3(item)]
    donor: String,
    #[pyo3(item)]
    part: String,
    #[pyo3(item)]
    by_token: bool,
    #[pyo3(item)]
    pairs: Option<usize>,
    #[pyo3(item)]
    prompts: usize,
    #[pyo3(item)]
    seed: u64,
    #[pyo3(item)]
    device: String,
    #[pyo3(item)]
    precision: Option<String>,
}

/// Patches a network by its name.
#[pyfunction]
pub fn patch<'py>(py: Python<'py>, asked: PatchArg) -> PyResult<Bound<'py, PyDict>> {
    let began = Instant::now();
    let found = run(py, || {
        let PatchArg { network, by_token, pairs, prompts, seed, .. } = &asked;
        let (plan, notes) = Plan::new(Wish {
            network: network.clone(),
            donor: asked.donor.parse()?,
            part: asked.part.parse()?,
            by_token: *by_token,
            pairs: *pairs,
            prompts: *prompts,
            seed: *seed,
        })?;
        let device = device(&asked.device, asked.precision.as_deref(), Precision::Float32, None)?;
        let mut found = match plan.run_on(&device, &|_| ()) {
            // what a device cannot run is the CPU's, unless the device was asked for
            Err(Error::Cuda(CudaError::Unsupported(_))) if asked.device == "auto" => plan.run(&|_| ())?,
            found => found?,
        };
        found.notes.splice(0..0, notes);
        Ok(found)
    })?;
    let maps = &found.maps;
    let shape = (maps.follows.len(), maps.places.len(), 3);
    let follows = Array3::from_shape_fn(shape, |(l, p, i)| {
        let share = maps.follows[l][p];
        [share.value, share.low, share.high][i]
    });
    let dict = PyDict::new(py);
    dict.set_item("places", maps.places.iter().map(Place::to_string).collect::<Vec<_>>())?;
    dict.set_item("follows", given(py, follows))?;
    dict.set_item("pairs", maps.pairs)?;
    let inner = lab::findings::Findings { seconds: began.elapsed().as_secs_f64(), ..found.findings() };
    dict.set_item("findings", Py::new(py, Findings { inner, about: (maps.prompts, asked.seed) })?)?;
    Ok(dict)
}
