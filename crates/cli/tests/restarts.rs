//! Training that is watched: started again when it is killed, it ends with the same bits; what it says itself is left alone.
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use common::{command, complaints, done, ended, only_run, read, says, wait_for, with};

const LONG: &str = "name = \"long\"\n[task]\nfunction = \"linear\"\ninputs = \"gaussian\"\ndim = 5\npoints = 11\n\
    [network]\nkind = \"gpt2\"\nlayers = 2\nheads = 1\nwidth = 16\n\
    [training]\nsteps = 4000\nbatch = 8\nrate = 1e-3\ncheckpoint_every = 40\n";

/// The process that another one has started, once it is there.
fn child_of(parent: &Child) -> u32 {
    let mut found = None;
    wait_for("the watched process", || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        found = numbers.into_iter().find(|number: &u32| {
            let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
            // after the name in brackets: state, parent
            let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
            fields.split(' ').nth(1).is_some_and(|of| of == parent.id().to_string())
        });
        found.is_some()
    });
    found.unwrap()
}

fn signal(process: u32, name: &str) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

/// When the newest checkpoint was written, if there is one.
fn checkpoint(at: &Path) -> Option<std::time::SystemTime> {
    let runs = at.join("runs");
    let run = fs::read_dir(runs).ok()?.flatten().next()?.path();
    fs::metadata(run.join("checkpoint.safetensors")).ok()?.modified().ok()
}

/// Waits for another checkpoint, then kills the watched process.
fn kill_once(at: &Path, supervisor: &Child) {
    let (child, before) = (child_of(supervisor), checkpoint(at));
    wait_for("another checkpoint", || checkpoint(at) > before);
    signal(child, "-KILL");
    wait_for("its end", || !Path::new(&format!("/proc/{child}")).exists() || child_of(supervisor) != child);
}

#[test]
fn a_killed_training_is_started_again_and_ends_with_the_same_bits() {
    let (watched, alone) = (with(&[("long.toml", LONG)]), with(&[("long.toml", LONG)]));
    let at = watched.path();
    let supervisor = command(at, "train long.toml --device cpu --restarts 3").spawn().unwrap();
    kill_once(at, &supervisor);
    kill_once(at, &supervisor);
    let output = supervisor.wait_with_output().unwrap();
    let said = complaints(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    says(&said, &["(3 of 3 restarts left)", "(2 of 3 restarts left)", "signal: 9"]);
    says(&String::from_utf8(output.stdout).unwrap(), &["4,000 steps"]);
    done(alone.path(), "train long.toml --device cpu");
    let weights = |at: &Path| fs::read(only_run(at).join("checkpoint.safetensors")).unwrap();
    assert!(weights(at) == weights(alone.path()), "other bits");
    let result = |at: &Path| read(only_run(at).join("result.json"));
    assert_eq!(result(at), result(alone.path()));
}

#[test]
fn restarts_end() {
    let dir = with(&[("long.toml", LONG)]);
    let at = dir.path();
    let supervisor = command(at, "train long.toml --device cpu --restarts 1").spawn().unwrap();
    kill_once(at, &supervisor);
    kill_once(at, &supervisor);
    let output = supervisor.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    says(&complaints(&output), &["after 1 restart", "the same command goes on"]);
    says(&done(at, "train long.toml --device cpu"), &["4,000 steps"]);
}

#[test]
fn a_request_to_stop_is_passed_on() {
    let dir = with(&[("long.toml", LONG)]);
    let supervisor = command(dir.path(), "train long.toml --device cpu --restarts 3").spawn().unwrap();
    wait_for("a checkpoint", || checkpoint(dir.path()).is_some());
    signal(supervisor.id(), "-TERM");
    let output = supervisor.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", complaints(&output));
    says(&String::from_utf8(output.stdout).unwrap(), &["is unfinished: stopped after step"]);
}

#[test]
fn what_is_refused_is_refused_once() {
    let dir = with(&[]);
    let (_, said) = ended(dir.path(), "train absent.toml --restarts 3", 2);
    assert_eq!(said.matches("absent.toml").count(), 1, "{said}");
    assert!(!said.contains("restarts left"), "{said}");
}
