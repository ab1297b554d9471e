//! Trained networks in a report: where they come from, and what is said when they are not there.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use common::{done, ended, entries, hardly_trained, json, only_run, read, refused_with, says, with};

/// A directory with the run of a small network of the paper's task under `r1`.
fn with_run() -> TempDir {
    let dir = with(&[("small.toml", &hardly_trained("small", 20, 41, 0))]);
    done(dir.path(), "train small.toml --device cpu");
    std::fs::rename(only_run(dir.path()), dir.path().join("r1")).unwrap();
    dir
}

fn ledger(dir: &Path) -> Value {
    json(&read(dir.join("ledger.json")))
}

#[test]
fn a_network_is_taken_from_the_command_line_or_from_the_models() {
    let dir = with_run();
    // three steps of training teach nothing, and the claims say so
    let reproduce =
        |more: &str| ended(dir.path(), &format!("reproduce --only Q6,f27 --prompts 16 --strict {more}"), 1);
    reproduce("--model r1=r1 --out a");
    std::fs::create_dir(dir.path().join("shelf")).unwrap();
    std::fs::rename(dir.path().join("r1"), dir.path().join("shelf/r1")).unwrap();
    reproduce("--models shelf --out b");
    let (a, b) = (ledger(&dir.path().join("a")), ledger(&dir.path().join("b")));
    for (one, other) in a["analyses"].as_array().unwrap().iter().zip(b["analyses"].as_array().unwrap()) {
        assert_eq!(one["claims"], other["claims"]);
    }
    assert!(dir.path().join("a/figures/q6-ols.png").exists());
    says(&read(dir.path().join("a/plan.toml")), &["r1=r1"]);
}

#[test]
fn bad_networks_get_one_clear_sentence() {
    let dir = with_run();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    std::fs::create_dir(dir.path().join("no-weights")).unwrap();
    std::fs::copy(dir.path().join("r1/plan.toml"), dir.path().join("no-weights/plan.toml")).unwrap();
    let before = entries(dir.path());
    // (arguments, words that the sentence must hold)
    let cases: &[(&str, &[&str])] = &[
        ("--only F3", &["F3 cannot be run", "models/r1", "iclab train experiments/r1-fast.toml"]),
        ("--only Q7 --model r1=r1", &["Q7", "models/r2"]),
        ("--only F3 --model r1", &["'r1'", "NAME=DIRECTORY"]),
        ("--only F3 --model r1=", &["'r1='", "NAME=DIRECTORY"]),
        ("--only F3 --model rr1=r1", &["unknown network 'rr1'", "known: r1"]),
        ("--only F3 --model r1=absent", &["absent/plan.toml", "No such file"]),
        ("--only F3 --model r1=empty", &["empty/plan.toml", "No such file"]),
        ("--only F3 --model r1=no-weights", &["no-weights/checkpoint.safetensors"]),
        ("--only F4 --model r2=r1", &["r1/plan.toml", "linear of gaussian", "skewed:kappa=100"]),
        ("--only F20 --model r8=r1", &["r1/plan.toml", "relu-2nn", "101 points"]),
        ("--only F3 --models absent", &["absent", "is not a directory"]),
    ];
    for (line, words) in cases {
        refused_with(dir.path(), &format!("reproduce --prompts 16 --out out {line}"), words);
        assert_eq!(entries(dir.path()), before, "iclab reproduce {line} left something behind");
    }
}

#[test]
fn what_was_not_run_is_kept_in_the_ledger() {
    let dir = with(&[]);
    done(dir.path(), "reproduce --only E2 --prompts 16 --out r");
    let mut kept = ledger(&dir.path().join("r"));
    assert_eq!(kept["not_run"], Value::Array(vec![]));
    kept["not_run"] = serde_json::json!([{ "analysis": "F3", "title": "Layers", "why": "needs models/r1" }]);
    std::fs::write(dir.path().join("r/ledger.json"), kept.to_string()).unwrap();
    let said = done(dir.path(), "claims --report r");
    says(&said, &["Not run", "needs models/r1", "2 claims: ✓ 2 hold", "1 analysis not run"]);
}

/// A program somewhere else than where it was built, with nothing beside it.
fn installed(at: &Path) -> std::path::PathBuf {
    let program = at.join("prefix/bin/iclab");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_iclab"), &program).unwrap();
    program
}

#[test]
fn an_installed_program_works_in_an_empty_directory() {
    let dir = with(&[]);
    let (program, at) = (installed(dir.path()), dir.path().join("empty"));
    std::fs::create_dir(&at).unwrap();
    let run = |line: &str| {
        let mut command = std::process::Command::new(&program);
        command.args(line.split(' ')).current_dir(&at).env_remove("ICLAB_MODELS").output().unwrap()
    };
    let printed = |line: &str| {
        let output = run(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    says(&printed("show miniature"), &["miniature: experiment", "inside iclab", "[network]"]);
    printed("train miniature --steps 2 --device cpu");
    printed("train experiments/miniature.toml --steps 2 --device cpu"); // as it is called in the clone
    assert_eq!(entries(&at.join("runs")).len(), 1, "the same experiment by either name");
    printed("compare run:miniature newton --steps-b 0..=8 --prompts 16 --out layers");
    printed("reproduce --only E3 --prompts 16 --out report");
    let output = run("train minature");
    says(&String::from_utf8_lossy(&output.stderr), &["minature", "did you mean miniature"]);

    // Where networks are missing, it says where it looked and what to do.
    let shared = dir.path().canonicalize().unwrap().join("prefix/share/iclab/models");
    let places =
        ["ICLAB_MODELS", "models/", "prefix/bin/models", shared.to_str().unwrap(), "the repository has them"];
    says(&printed("models"), &[&places[..], &["None is here"]].concat());
    let output = run("reproduce --only F3 --prompts 16 --out f3");
    assert_eq!(output.status.code(), Some(2));
    says(
        &String::from_utf8_lossy(&output.stderr),
        &[&places[..], &["F3 cannot be run: needs models/r1"]].concat(),
    );
    let output = run("compare run:r2 newton --out r2");
    assert_eq!(output.status.code(), Some(2));
    says(&String::from_utf8_lossy(&output.stderr), &[&places[..], &["r2", "is not here"]].concat());
    // The whole paper: what cannot be run is named before anything is measured.
    let mut command = std::process::Command::new(&program);
    command.args(["reproduce", "--prompts", "16"]).current_dir(&at).env_remove("ICLAB_MODELS");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut reproduction = command.spawn().unwrap();
    let mut note = String::new();
    BufReader::new(reproduction.stderr.take().unwrap()).read_line(&mut note).unwrap();
    reproduction.kill().unwrap();
    reproduction.wait().unwrap();
    says(&note, &[&places[..], &["note: not run for want of trained networks: ", "F3, ", "T1"]].concat());
}

#[test]
fn networks_are_found_by_the_variable_then_here_then_beside_the_program() {
    let dir = with_run();
    let (program, at) = (installed(dir.path()), dir.path().join("empty"));
    std::fs::create_dir(&at).unwrap();
    let place = |root: &str| {
        let to = dir.path().join(root).join("r1");
        std::fs::create_dir_all(&to).unwrap();
        for file in entries(&dir.path().join("r1")) {
            let from = dir.path().join("r1").join(&file);
            if from.is_file() {
                std::fs::copy(from, to.join(&file)).unwrap();
            }
        }
        to
    };
    let found = |variable: Option<&str>| {
        let mut command = std::process::Command::new(&program);
        command.args(["show", "r1", "--json"]).current_dir(&at).env_remove("ICLAB_MODELS");
        if let Some(value) = variable {
            command.env("ICLAB_MODELS", value);
        }
        let shown = json(&String::from_utf8(command.output().unwrap().stdout).unwrap());
        let facts = shown[0]["facts"].as_array().unwrap().clone();
        facts.iter().find(|fact| fact[0] == "at").map(|fact| fact[1].as_str().unwrap().to_string())
    };
    assert_eq!(found(None), None);
    let canonical = |path: std::path::PathBuf| path.canonicalize().unwrap().display().to_string();
    let shared = canonical(place("prefix/share/iclab/models"));
    assert_eq!(found(None), Some(shared));
    let beside = canonical(place("prefix/bin/models"));
    assert_eq!(found(None), Some(beside));
    std::fs::create_dir_all(at.join("models/resnet")).unwrap();
    assert!(found(None).unwrap().contains("prefix"), "a folder of something else is not taken");
    place("empty/models");
    assert_eq!(found(None).as_deref(), Some("models/r1"));
    place("elsewhere");
    let elsewhere = dir.path().join("elsewhere");
    assert_eq!(found(elsewhere.to_str()), Some(elsewhere.join("r1").display().to_string()));
    assert_eq!(found(Some("/nowhere")), None, "what the variable says is final");
}
