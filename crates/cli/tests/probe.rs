//! Probing as a user meets it: read-outs fitted once, kept beside the checkpoint, and clear words when something is wrong.

mod common;

use std::path::PathBuf;

use tempfile::TempDir;

use common::{TINY, done, done_json, only_run, refused_with, says, with};

/// A directory with one finished run, and where that is.
fn trained() -> (TempDir, PathBuf) {
    let dir = with(&[("tiny.toml", &TINY.replace("steps = 400", "steps = 40"))]);
    done(dir.path(), "train tiny.toml");
    let run = only_run(dir.path());
    (dir, run)
}

#[test]
fn read_outs_are_fitted_once_and_used_by_compare() {
    let (dir, run) = trained();
    let run_text = run.to_str().unwrap();
    let first = done_json(dir.path(), &["probe", run_text, "--json"]);
    assert_eq!(first["layers"].as_array().unwrap().len(), 3);
    assert!(first["fit"]["saved"].is_null() && first["fit"]["targets"] == "ols");
    let written = std::fs::read(run.join("readouts.safetensors")).unwrap();
    let second = done_json(dir.path(), &["probe", run_text, "--json"]);
    assert!(second["fit"]["saved"].as_str().unwrap().ends_with("readouts.safetensors"));
    assert_eq!((&first["layers"], &first["trained"]), (&second["layers"], &second["trained"]));
    // Ablations, in today's spelling and in the older one.
    let compared = ["ablate=zero:1", "skip=1"].map(|how| {
        let line =
            format!("compare run:{run_text},{how} newton --dim 3 --points 6 --prompts 16 --out o --json");
        done_json(dir.path(), &line)["best"].clone()
    });
    assert_eq!(compared[0], compared[1]);
    assert_eq!(std::fs::read(run.join("readouts.safetensors")).unwrap(), written);
    says(&done(dir.path(), &["probe", run_text]), &["error/d at t=5", "fitted before"]);
}

#[test]
fn reports_are_written_whole() {
    let (dir, run) = trained();
    let run = run.to_str().unwrap();
    for (what, figure) in [("--interventions", "interventions-heads"), ("--over-training", "emergence-maps")]
    {
        says(&done(dir.path(), &["probe", run, what, "--look", "16", "--out", "report"]), &["Newton"]);
        for ending in ["svg", "png", "csv"] {
            assert!(dir.path().join(format!("report/figures/{figure}.{ending}")).is_file());
        }
    }
}

#[test]
fn mistakes_are_named() {
    let (dir, run) = trained();
    let at = dir.path();
    let run_text = run.display();
    refused_with(at, "probe nowhere", &["no such run"]);
    let trained_on = "was trained on linear of gaussian inputs, 3 dimensions";
    refused_with(at, &format!("probe {run_text} --dim 4"), &[trained_on]);
    for how in ["ablate=zero:9", "skip=9"] {
        let line = format!("predict run:{run_text},{how} --prompts p.npz --out o");
        refused_with(at, &line, &["accepted: 1 to 2"]);
    }
    std::fs::remove_dir_all(run.join("kept")).unwrap();
    refused_with(at, &format!("probe {run_text} --over-training --out o"), &["keep = 20"]);
    std::fs::write(run.join("checkpoint.safetensors"), b"no").unwrap();
    refused_with(at, &format!("probe {run_text}"), &["not a whole safetensors file"]);
    assert!(!at.join("o").exists());
}
