//! What is interrupted says so: exit code 130, a last line that tells how to go on, and a note wherever the run is used. Of what breaks
//! down, the weights from before are such a run.
#![cfg(unix)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{
    TINY, command, complaints, done, done_json, ended, entries, hardly_trained, iclab, json, only_run, read,
    refused_with, says, stopped_by, wait_for, with,
};

/// Whether a run under `runs` has a checkpoint.
fn saved(dir: &Path) -> bool {
    let runs = dir.join("runs");
    runs.is_dir() && entries(&runs).iter().any(|run| runs.join(run).join("checkpoint.safetensors").exists())
}

/// An experiment on the paper's task that takes for ever, interrupted; returns its directory.
fn interrupted(at: &Path) -> String {
    let endless = hardly_trained("r1-fast", 20, 41, 0)
        .replace("steps = 3", "steps = 1000000\ncheckpoint_every = 1\nkeep = 4");
    std::fs::write(at.join("endless.toml"), endless).unwrap();
    let child = command(at, "train endless.toml --device cpu").spawn().unwrap();
    wait_for("a checkpoint", || saved(at));
    let said = stopped_by(child, "-INT");
    says(&said, &["is unfinished: stopped after step ", " of 1,000,000, saved"]);
    format!("runs/{}", only_run(at).file_name().unwrap().to_str().unwrap())
}

#[test]
fn every_command_names_an_unfinished_run_as_such() {
    let dir = with(&[]);
    let at = dir.path();
    let run = interrupted(at);
    let note = format!("note: {run} is unfinished: step ");
    let noted = |line: &str| {
        let output = iclab(at, line);
        let said = complaints(&output);
        assert!(output.status.success(), "iclab {line}: {said}");
        assert!(said.contains(&note) && said.contains(" of 1,000,000"), "iclab {line}: {said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let probed = json(&noted(&format!("probe {run} --look 16 --prompts 4096 --json")));
    assert_eq!(probed["unfinished"]["steps"], 1_000_000);
    assert_eq!(probed["unfinished"]["state"], "interrupted");
    says(probed["notes"][0].as_str().unwrap(), &["is unfinished"]);
    let compared = noted(&format!("compare run:{run},readout=trained gd --prompts 16 --out c --json"));
    says(json(&compared)["notes"][0].as_str().unwrap(), &["is unfinished"]);
    says(&read(at.join("c/index.html")), &["is unfinished: step "]);
    done(at, "sample --prompts 4 --out p.npz");
    noted(&format!("predict run:{run},readout=trained --prompts p.npz --out o.npz"));
    noted(&format!("export {run}/checkpoint.safetensors --out e.safetensors"));
    noted(&format!("reproduce --model r1={run} --only Q6 --prompts 16 --out r"));
    says(&read(at.join("r/index.html")), &["is unfinished: step "]);
    refused_with(at, &format!("models add r1 {run}"), &[run.as_str(), "is unfinished (step "]);
    assert!(!at.join("models/r1").exists(), "nothing half-made");
    done(at, &format!("models add r1 {run} --unfinished"));
    says(&done(at, "models show r1"), &[" of 1000000 steps"]);
    says(&done(at, "models"), &["r1 "]);
}

#[test]
fn an_interrupted_run_prints_json_that_says_so() {
    let dir = with(&[("long.toml", &TINY.replace("steps = 400", "steps = 1000000"))]);
    let child = command(dir.path(), "train long.toml --device cpu --json").spawn().unwrap();
    wait_for("a checkpoint", || saved(dir.path()));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let result = json(&String::from_utf8(output.stdout).unwrap());
    assert_eq!((&result["unfinished"], &result["steps"]), (&true.into(), &1_000_000.into()));
    // finished, it says so
    let done = done_json(dir.path(), "train long.toml --steps 20 --seed 1 --device cpu --json");
    assert_eq!((done["steps"].as_u64(), &done["unfinished"]), (Some(20), &serde_json::Value::Null));
}

#[test]
fn an_interrupted_training_of_a_reproduction_is_saved_and_exits_with_130() {
    let dir = with(&[]);
    let at = dir.path();
    std::fs::create_dir(at.join("recipes")).unwrap();
    let endless =
        hardly_trained("r1-fast", 20, 41, 1).replace("steps = 3", "steps = 1000000\ncheckpoint_every = 1");
    std::fs::write(at.join("recipes/r1-fast.toml"), endless).unwrap();
    let line = "reproduce --from-scratch --only Q6 --experiments recipes --device cpu --prompts 16 --out r";
    let child = command(at, line).spawn().unwrap();
    wait_for("a checkpoint", || saved(at));
    // to the reproduction alone: it asks its trainer to save
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    says(said.lines().last().unwrap(), &["unfinished: ", "the same command goes on"]);
    says(&read(only_run(at).join("log.txt")), &["saved and left, as asked"]);
}

#[test]
fn the_exit_code_is_documented() {
    let dir = with(&[]);
    for verb in ["", "train ", "sweep ", "reproduce "] {
        says(&ended(dir.path(), &format!("{verb}--help"), 0).0, &["130 interrupted"]);
    }
}

#[test]
fn a_training_that_breaks_down_keeps_the_weights_from_before() {
    // a rate that grows from nothing far beyond what anybody can learn with
    let changes = [
        ("steps = 400", "steps = 1500"),
        ("rate = 1e-3", "rate = 6.0"),
        ("clip = 1.0\nschedule = \"cosine\"\nwarmup = 0.1", "warmup = 1.0"),
        (
            "dims = { start = 1, end = 3, over = 0.5 }\npoints = { start = 2, end = 6, by = 1, every = 60 }\n",
            "",
        ),
        ("keep = 3", ""),
    ];
    let wild = changes.iter().fold(TINY.to_string(), |text, (from, to)| text.replace(from, to));
    let dir = with(&[("tiny.toml", &wild)]);
    says(&done(dir.path(), "train tiny.toml"), &["training broke down after step", "are kept in healthy/"]);
    let run = only_run(dir.path());
    let broke = &json(&read(run.join("result.json")))["broke_down"];
    let healthy = broke["healthy"].as_u64().unwrap();
    assert!(healthy > 0 && healthy <= broke["after"].as_u64().unwrap(), "{broke}");
    let shown = done(dir.path(), &format!("show {}", run.join("healthy").display()));
    says(&shown, &["unfinished", &format!("step {} of 1,500", grouped(healthy))]);
    says(&done(dir.path(), &format!("show {}", run.display())), &["training broke down after step"]);

    let tame = with(&[("tiny.toml", &wild.replace("rate = 6.0", "rate = 1e-3"))]);
    done(tame.path(), "train tiny.toml");
    let run = only_run(tame.path());
    assert!(!run.join("healthy").exists() && !read(run.join("result.json")).contains("broke_down"));
}

fn grouped(number: u64) -> String {
    lab::findings::numbers::grouped(number)
}
