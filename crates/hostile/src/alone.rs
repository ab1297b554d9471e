//! A test in a process of its own. What a reader has in use is counted over all threads, and those of other tests would count
//! with it; processes also run side by side, as tests do.

use std::process::Command;

/// Tells a process that it runs one test.
const ALONE: &str = "ICLAB_HOSTILE_ALONE";
/// The name of the thread that runs tests one after the other.
const MAIN: &str = "main";

/// Begins a test that measures: it goes on in a process of its own, and here it is over when that has passed.
#[macro_export]
macro_rules! alone {
    () => {
        if $crate::passed_alone() {
            return;
        }
    };
}

/// Whether nothing else runs in this process: it has one test, or one after the other.
pub fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some() || std::thread::current().name() == Some(MAIN)
}

/// Runs the test of this thread in another process, and says all that it said; false where it is alone already.
///
/// # Panics
///
/// When the test does not pass.
pub fn passed_alone() -> bool {
    if is_alone() {
        return false;
    }
    let test = std::thread::current().name().expect("tests have names").to_string();
    let program = std::env::current_exe().expect("a test is a program");
    let mut command = Command::new(program);
    let output = command.args(["--exact", &test, "--nocapture"]).env(ALONE, "1").output().expect("it starts");
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    print!("{out}");
    eprint!("{err}");
    assert!(output.status.success(), "{test}: {}", output.status);
    assert!(out.contains("1 passed"), "{test} was not found");
    true
}
