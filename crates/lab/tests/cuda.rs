//! Training on a CUDA device against training on the CPU; every check says `skipped` where there is no device.

use std::process::ExitCode;

fn main() -> ExitCode {
    let suites = lab::networks::checks::suite().into_iter();
    let checks = suites.flat_map(|(name, suite)| suite.into_iter().map(move |check| (name.clone(), check)));
    engine::cuda::checks::run_as_tests(checks)
}
