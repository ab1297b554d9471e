//! Checks as a test program.

use std::process::ExitCode;

use super::{Failure, Named};
use crate::cuda::Device;

/// Runs named checks as a test program does: words on the command line select by name, and every check prints `ok`, `FAILED` or
/// `skipped`, the last where there is no device or where it does not offer this.
pub fn run_as_tests(checks: impl IntoIterator<Item = (String, Named)>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Asked for a list, the usual harness would run nothing.
    if arguments.iter().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    let words: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let selected = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let device = Device::open(0);
    let [mut passed, mut failed, mut skipped, mut guarded] = [0; 4];
    for (group, check) in checks {
        let name = format!("{group}: {}", check.name);
        if !selected(&name) {
            continue;
        }
        let ran = device.as_ref().map(|device| check.run(device));
        guarded += ran.as_ref().map_or(0, |outcome| outcome.guarded);
        let (count, verdict) = match ran.map(|outcome| outcome.verdict) {
            Ok(Ok(())) => (&mut passed, "ok".into()),
            Ok(Err(Failure::Failed(why))) => (&mut failed, format!("FAILED ({why})")),
            Ok(Err(Failure::NotOffered(why))) => (&mut skipped, format!("skipped (not offered: {why})")),
            Err(error) => (&mut skipped, format!("skipped ({error})")),
        };
        *count += 1;
        println!("test {name} ... {verdict}");
    }
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {result}. {passed} passed; {failed} failed; {skipped} skipped; guards of {guarded} buffers intact"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
