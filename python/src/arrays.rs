//! Arrays of NumPy and of the laboratory.

use lab::stats::Estimate;
use lab::{Result, Steps};
use ndarray::Array;
use numpy::{Element, IntoPyArray, PyArray, PyArray1, PyArray2};
use pyo3::prelude::*;

/// An array that Python owns from now on; nothing is copied.
pub fn given<'py, T: Element, D: ndarray::Dimension>(
    py: Python<'py>,
    array: Array<T, D>,
) -> Bound<'py, PyArray<T, D>> {
    array.into_pyarray(py)
}

/// Numbers as an array.
pub fn numbers<'py>(py: Python<'py>, values: Vec<f64>) -> Bound<'py, PyArray1<f64>> {
    values.into_pyarray(py)
}

/// Steps as an array.
pub fn steps<'py>(py: Python<'py>, steps: &Steps) -> Bound<'py, PyArray1<i64>> {
    steps.as_slice().iter().map(|step| *step as i64).collect::<Vec<_>>().into_pyarray(py)
}

/// Estimates as rows of value, low and high.
pub fn estimates<'py>(py: Python<'py>, all: &[Estimate]) -> Bound<'py, PyArray2<f64>> {
    let flat = all.iter().flat_map(|e| [e.value, e.low, e.high]).collect();
    given(py, Array::from_shape_vec((all.len(), 3), flat).expect("three each"))
}

/// Value, low and high.
pub fn triple(e: Estimate) -> (f64, f64, f64) {
    (e.value, e.low, e.high)
}

/// Steps as Python gives them: a text, or none.
pub fn parsed(text: Option<&str>) -> Result<Option<Steps>> {
    text.map(Steps::parse).transpose()
}
