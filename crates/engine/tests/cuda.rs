//! What a CUDA device computes against the CPU; every check says `skipped` where there is no device.

use std::process::ExitCode;

use engine::cuda::{CudaError, Precision, checks};

fn main() -> ExitCode {
    let suites = Precision::ALL.into_iter().map(|(precision, name)| (name, checks::suite(precision)));
    let checks =
        suites.flat_map(|(name, suite)| suite.into_iter().map(move |check| (name.to_string(), check)));
    checks::run_as_tests(checks, |error| matches!(error, CudaError::Unsupported(_)))
}
