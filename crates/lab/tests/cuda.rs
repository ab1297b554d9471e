//! Training on a CUDA device against training on the CPU; every check says `skipped` where there is no device.

use std::process::ExitCode;

use engine::cuda::checks::Check;
use engine::cuda::{CudaError, Device};
use lab::Error;

fn main() -> ExitCode {
    // As the usual harness: words that are no options select tests by name; listing lists none to run alone.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    let words: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let device = Device::open(0);
    let [mut passed, mut failed, mut skipped] = [0; 3];
    for (group, checks) in lab::checks::suite() {
        for check in checks {
            let name = format!("{group}: {}", check.name);
            if !words.is_empty() && !words.iter().any(|word| name.contains(word.as_str())) {
                continue;
            }
            let (count, verdict) = match &device {
                Err(error) => (&mut skipped, format!("skipped ({error})")),
                Ok(device) => match check.run(device) {
                    Ok(found) if found.iter().all(Check::holds) => (&mut passed, "ok".into()),
                    Ok(found) => {
                        let bad: Vec<String> = found.iter().filter(|c| !c.holds()).map(shown).collect();
                        (&mut failed, format!("FAILED ({})", bad.join(", ")))
                    }
                    Err(Error::Cuda(error @ CudaError::Unsupported(_))) => {
                        (&mut skipped, format!("skipped ({error})"))
                    }
                    Err(error) => (&mut failed, format!("FAILED ({error})")),
                },
            };
            *count += 1;
            println!("test {name} ... {verdict}");
        }
    }
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {result}. {passed} passed; {failed} failed; {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn shown(check: &Check) -> String {
    format!("{} {:.1e} > {:.0e}", check.name, check.error, check.tolerance)
}
