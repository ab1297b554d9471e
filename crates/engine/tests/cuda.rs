//! What a CUDA device computes against the reference and the CPU; every check says `skipped` where there is no device.

use std::process::ExitCode;

use engine::cuda::{Precision, checks};

fn main() -> ExitCode {
    let suites = Precision::ALL.into_iter().map(|(precision, name)| (name, checks::suite(precision)));
    let checks = suites.flat_map(|(name, suite)| suite.into_iter().map(move |check| (name.into(), check)));
    let memory = checks::memory().into_iter().map(|check| ("memory".into(), check));
    checks::run_as_tests(memory.chain(checks))
}
