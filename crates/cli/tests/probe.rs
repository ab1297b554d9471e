//! Probing as a user meets it: read-outs fitted once, kept beside the checkpoint, and clear words when something is wrong.

mod common;

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use common::{TINY, done, refused};

/// A directory with one finished run, and where that is.
fn trained() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let short = TINY.replace("steps = 400", "steps = 40");
    std::fs::write(dir.path().join("tiny.toml"), short).unwrap();
    done(dir.path(), &["train", "tiny.toml"]);
    let run = std::fs::read_dir(dir.path().join("runs")).unwrap().next().unwrap().unwrap().path();
    (dir, run)
}

fn json(dir: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&done(dir, args)).unwrap()
}

#[test]
fn read_outs_are_fitted_once_and_used_by_compare() {
    let (dir, run) = trained();
    let run_text = run.to_str().unwrap();
    let first = json(dir.path(), &["probe", run_text, "--json"]);
    assert_eq!(first["layers"].as_array().unwrap().len(), 3);
    assert!(first["fit"]["saved"].is_null() && first["fit"]["targets"] == "ols");
    let written = std::fs::read(run.join("readouts.safetensors")).unwrap();
    let second = json(dir.path(), &["probe", run_text, "--json"]);
    assert!(second["fit"]["saved"].as_str().unwrap().ends_with("readouts.safetensors"));
    assert_eq!((&first["layers"], &first["trained"]), (&second["layers"], &second["trained"]));
    let learner = format!("run:{run_text},skip=1");
    done(
        dir.path(),
        &["compare", &learner, "newton", "--dim", "3", "--points", "6", "--prompts", "16", "--out", "o"],
    );
    assert_eq!(std::fs::read(run.join("readouts.safetensors")).unwrap(), written);
    let table = done(dir.path(), &["probe", run_text]);
    assert!(table.contains("error/d at t=5") && table.contains("fitted before"), "{table}");
}

#[test]
fn reports_are_written_whole() {
    let (dir, run) = trained();
    let run = run.to_str().unwrap();
    for (what, figure) in [("--interventions", "interventions-heads"), ("--over-training", "emergence-maps")]
    {
        let text = done(dir.path(), &["probe", run, what, "--look", "16", "--out", "report"]);
        assert!(text.contains("Newton"), "{text}");
        for ending in ["svg", "png", "csv"] {
            assert!(dir.path().join(format!("report/figures/{figure}.{ending}")).is_file());
        }
    }
}

#[test]
fn mistakes_are_named() {
    let (dir, run) = trained();
    let run_text = run.to_str().unwrap();
    let says = |args: &[&str], words: &str| {
        let message = refused(dir.path(), args);
        assert!(message.contains(words), "{message}");
    };
    says(&["probe", "nowhere"], "no such run");
    says(&["probe", run_text, "--dim", "4"], "was trained on linear of gaussian inputs, 3 dimensions");
    says(
        &["predict", &format!("run:{run_text},skip=9"), "--prompts", "p.npz", "--out", "o"],
        "accepted: 1 to 2",
    );
    std::fs::remove_dir_all(run.join("kept")).unwrap();
    says(&["probe", run_text, "--over-training", "--out", "o"], "keep = 20");
    std::fs::write(run.join("checkpoint.safetensors"), b"no").unwrap();
    says(&["probe", run_text], "not a whole safetensors file");
    assert!(!dir.path().join("o").exists());
}
