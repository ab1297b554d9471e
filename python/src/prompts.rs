//! Prompts.

use std::path::PathBuf;
use std::sync::Arc;

use lab::data::npz;
use lab::learners::planned::Sampled;
use lab::{Seed, Task};
use numpy::{PyArray2, PyArray3, PyArrayMethods, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::prelude::*;

use crate::calls::run;
use crate::errors::raised;

/// Prompts, and where they were sampled from if they were.
#[pyclass(frozen, module = "iclab._iclab")]
pub struct Prompts {
    pub inner: Arc<lab::Prompts>,
    /// Task and seed, where these are its first evaluation prompts.
    pub sampled: Option<Sampled>,
}

#[pymethods]
impl Prompts {
    /// Samples evaluation prompts.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    fn sample(
        py: Python<'_>,
        function: String,
        inputs: String,
        dim: usize,
        points: usize,
        count: usize,
        seed: u64,
        first: u64,
    ) -> PyResult<Prompts> {
        let sampled = Sampled { function, inputs, dim, points, seed };
        let inner = run(py, || {
            let task = Task::new(&sampled.function, &sampled.inputs, dim, points)?;
            Ok(Arc::new(task.sample(Seed(seed), "eval", first, count)))
        })?;
        Ok(Prompts { inner, sampled: (first == 0).then_some(sampled) })
    }

    /// Copies arrays.
    #[staticmethod]
    fn of(xs: PyReadonlyArray3<'_, f64>, ys: PyReadonlyArray2<'_, f64>) -> PyResult<Prompts> {
        let inner = lab::Prompts::new(xs.as_array().to_owned(), ys.as_array().to_owned()).map_err(raised)?;
        Ok(Prompts { inner: Arc::new(inner), sampled: None })
    }

    /// Reads an .npz file.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Prompts> {
        let inner = run(py, || npz::read_prompts(&path))?;
        Ok(Prompts { inner: Arc::new(inner), sampled: None })
    }

    /// Writes an .npz file.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        run(py, || npz::write_prompts(&path, &self.inner))
    }

    /// Inputs `[b, n, d]`: the memory of the prompts themselves, which nobody may write to.
    #[getter]
    fn xs<'py>(slf: Bound<'py, Self>) -> Bound<'py, PyArray3<f64>> {
        let inner = &slf.get().inner;
        // SAFETY: the array lives in an `Arc` that the owner, this object, holds and never replaces; it is not written to.
        let array = unsafe { PyArray3::borrow_from_array(&inner.xs, slf.clone().into_any()) };
        array.readwrite().make_nonwriteable();
        array
    }

    /// Labels `[b, n]`, likewise.
    #[getter]
    fn ys<'py>(slf: Bound<'py, Self>) -> Bound<'py, PyArray2<f64>> {
        let inner = &slf.get().inner;
        // SAFETY: as above.
        let array = unsafe { PyArray2::borrow_from_array(&inner.ys, slf.clone().into_any()) };
        array.readwrite().make_nonwriteable();
        array
    }

    /// Prompts, points, dimensions.
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        self.inner.xs.dim()
    }

    /// Function class, input distribution and seed, where they are known.
    #[getter]
    fn task(&self) -> Option<(String, String, u64)> {
        self.sampled.as_ref().map(|s| (s.function.clone(), s.inputs.clone(), s.seed))
    }

    /// The first of them, or some in the middle.
    fn part(&self, first: usize, count: usize) -> Prompts {
        let sampled = self.sampled.clone().filter(|_| first == 0);
        Prompts { inner: Arc::new(self.inner.part(first, count)), sampled }
    }
}
