//! The real program, run as a user runs it.
#![allow(dead_code)] // each test file uses what it needs

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// An experiment that trains in a moment, with everything that a step's number decides.
pub const TINY: &str = r#"
name = "tiny"
[task]
function = "linear"
inputs = "gaussian"
dim = 3
points = 6
[network]
kind = "gpt2"
layers = 2
heads = 2
width = 16
positions = 12
[training]
steps = 400
batch = 8
rate = 1e-3
clip = 1.0
schedule = "cosine"
warmup = 0.1
dims = { start = 1, end = 3, over = 0.5 }
points = { start = 2, end = 6, by = 1, every = 60 }
log_every = 7
checkpoint_every = 11
keep = 3
"#;

/// The program with its arguments, in a directory, not on a terminal.
pub fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iclab"));
    command.args(args).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end.
pub fn iclab(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().expect("the program starts")
}

/// Runs a command that must succeed; returns what it printed.
pub fn done(dir: &Path, args: &[&str]) -> String {
    let output = iclab(dir, args);
    let stderr = complaints(&output);
    assert_eq!(output.status.code(), Some(0), "iclab {}: {stderr}", args.join(" "));
    assert!(stderr.is_empty(), "progress is silent when not on a terminal, but: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail with exit code 2 and one sentence; returns the sentence.
pub fn refused(dir: &Path, args: &[&str]) -> String {
    let output = iclab(dir, args);
    let stderr = complaints(&output);
    assert_eq!(output.status.code(), Some(2), "iclab {}: {stderr}", args.join(" "));
    assert!(stderr.starts_with("error: ") && !stderr.contains("panicked"), "{stderr}");
    assert!(output.stdout.is_empty());
    stderr
}

/// Standard error, but for the line that says where a network is trained.
pub fn complaints(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    stderr.split_inclusive('\n').filter(|line| !line.starts_with("training on ")).collect()
}

/// Names in a directory, sorted.
pub fn entries(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The checkpoints of the runs under a directory whose names begin so, by the names of their runs.
pub fn checkpoints(runs: &Path, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let named = entries(runs).into_iter().filter(|name| name.starts_with(prefix));
    let read = |name: &String| std::fs::read(runs.join(name).join("checkpoint.safetensors")).unwrap();
    named.map(|name| (name.clone(), read(&name))).collect()
}
