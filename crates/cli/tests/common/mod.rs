//! The real program, run as a user runs it.
#![allow(dead_code)] // each test file uses what it needs

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

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

/// An experiment on linear regression whose network is too small and too little trained to be any good.
pub fn hardly_trained(name: &str, dim: usize, points: usize, seed: u64) -> String {
    format!(
        "name = \"{name}\"\n[task]\nfunction = \"linear\"\ninputs = \"gaussian\"\ndim = {dim}\npoints = {points}\n\
         [network]\nkind = \"gpt2\"\nlayers = 2\nheads = 1\nwidth = 8\npositions = {}\n\
         [training]\nsteps = 3\nbatch = 2\nrate = 1e-3\nlog_every = 1\nseed = {seed}\n",
        2 * points
    )
}

/// A directory with these files.
pub fn with(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

/// Arguments: a list of them, or a line with spaces between them.
pub trait Arguments {
    /// One by one.
    fn list(&self) -> Vec<&str>;
}

impl Arguments for str {
    fn list(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Arguments for String {
    fn list(&self) -> Vec<&str> {
        self.as_str().list()
    }
}

impl Arguments for [&str] {
    fn list(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Arguments for [&str; N] {
    fn list(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Arguments for Vec<&str> {
    fn list(&self) -> Vec<&str> {
        self.clone()
    }
}

/// The program with its arguments, in a directory, not on a terminal.
pub fn command(dir: &Path, args: &(impl Arguments + ?Sized)) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iclab"));
    command.args(args.list()).current_dir(dir).env_remove("ICLAB_MODELS").env_remove("COLUMNS");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end.
pub fn iclab(dir: &Path, args: &(impl Arguments + ?Sized)) -> Output {
    command(dir, args).output().expect("the program starts")
}

/// Runs a command that must succeed; returns what it printed.
pub fn done(dir: &Path, args: &(impl Arguments + ?Sized)) -> String {
    let output = iclab(dir, args);
    let stderr = complaints(&output);
    assert_eq!(output.status.code(), Some(0), "iclab {}: {stderr}", args.list().join(" "));
    // what takes over half a minute, as on a busy machine, says now and then how far it is
    let mut lines = stderr.lines().filter(|line| !line.trim().is_empty() && !line.contains(" steps/s"));
    assert_eq!(lines.next(), None, "progress is silent when not on a terminal, but: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must succeed and print JSON; returns that.
pub fn done_json(dir: &Path, args: &(impl Arguments + ?Sized)) -> Value {
    json(&done(dir, args))
}

/// Runs a command that must fail with exit code 2 and one sentence; returns the sentence.
pub fn refused(dir: &Path, args: &(impl Arguments + ?Sized)) -> String {
    let output = iclab(dir, args);
    let stderr = complaints(&output);
    assert_eq!(output.status.code(), Some(2), "iclab {}: {stderr}", args.list().join(" "));
    assert!(stderr.starts_with("error: ") && !stderr.contains("panicked"), "{stderr}");
    assert!(output.stdout.is_empty());
    stderr
}

/// The same, and the sentence must hold these words.
pub fn refused_with(dir: &Path, args: &(impl Arguments + ?Sized), words: &[&str]) {
    let line = args.list().join(" ");
    let sentence = refused(dir, args);
    words
        .iter()
        .for_each(|word| assert!(sentence.contains(word), "iclab {line}: '{sentence}' lacks '{word}'"));
}

/// Runs a command that must end with this code; returns both of its outputs.
pub fn ended(dir: &Path, args: &(impl Arguments + ?Sized), code: i32) -> (String, String) {
    let output = iclab(dir, args);
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(output.status.code(), Some(code), "iclab {}: {out} {err}", args.list().join(" "));
    (out, err)
}

/// Asserts that a text holds all of these words.
#[track_caller]
pub fn says(text: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(text.contains(word), "'{text}' lacks '{word}'"));
}

/// Standard error, but for the line that says where a network is trained.
pub fn complaints(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    stderr.split_inclusive('\n').filter(|line| !line.starts_with("training on ")).collect()
}

/// A text as JSON.
pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// The text of a file.
pub fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// When a file was last written.
pub fn modified(path: impl AsRef<Path>) -> std::time::SystemTime {
    std::fs::metadata(path).unwrap().modified().unwrap()
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

/// The one run under `runs`.
pub fn only_run(dir: &Path) -> PathBuf {
    let runs = dir.join("runs");
    let names = entries(&runs);
    assert_eq!(names.len(), 1, "{names:?}");
    runs.join(&names[0])
}

/// The checkpoints of the runs under a directory whose names begin so, by the names of their runs.
pub fn checkpoints(runs: &Path, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let named = entries(runs).into_iter().filter(|name| name.starts_with(prefix));
    let read = |name: &String| std::fs::read(runs.join(name).join("checkpoint.safetensors")).unwrap();
    named.map(|name| (name.clone(), read(&name))).collect()
}

/// Waits for something, a minute at most.
pub fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ready() {
        assert!(Instant::now() < deadline, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal; the program must then save, say so and exit with 130. Returns what it printed.
pub fn stopped_by(child: Child, signal: &str) -> String {
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_string();
    assert!(said.contains("saved; the same command goes on"), "{said}");
    assert!(last.starts_with("unfinished: ") && last.contains("the same command goes on"), "{last}");
    assert_eq!(output.status.code(), Some(130), "{said}");
    said
}
