//! The command line inside the package.

use std::ffi::OsString;
use std::path::PathBuf;

use lab::program::Program;
use pyo3::prelude::*;

use crate::calls::run;

/// Says which file holds the code and how Python starts it again.
#[pyfunction]
pub fn embed(file: PathBuf, starter: Vec<String>) {
    Program { file, starter }.embed();
}

/// Runs the command line; its exit code.
#[pyfunction]
pub fn command(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    run(py, || {
        cli::complete();
        Ok(cli::run(arguments.into_iter()))
    })
}
