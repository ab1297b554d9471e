//! The example of the guide, run.

use std::path::Path;
use std::process::Command;

#[test]
fn the_solver_of_the_guide_converges_like_any_other() {
    // cargo builds examples beside the tests
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().and_then(Path::parent).unwrap().join("examples/own_solver");
    let output = Command::new(&example).output().unwrap_or_else(|e| panic!("{}: {e}", example.display()));
    let text = String::from_utf8(output.stdout).unwrap();
    let newton = |line: &str| line.split_whitespace().nth(2).and_then(|step| step.parse::<u64>().ok());
    let steps: Vec<u64> = text.lines().filter_map(newton).collect();
    assert_eq!(steps.len(), 11, "{text}");
    assert!(steps.windows(2).all(|w| w[0] <= w[1]) && steps[10] > steps[0], "{text}");
}
