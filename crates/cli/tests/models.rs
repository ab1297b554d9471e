//! Trained networks in a report: where they come from, and what is said when they are not there.

mod common;

use std::path::Path;

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
        |more: &str| ended(dir.path(), &format!("reproduce --only Q6,f27 --prompts 16 {more}"), 1);
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
