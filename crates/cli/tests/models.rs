//! Trained networks in a report: where they come from, and what is said when they are not there.

mod common;

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use common::{done, entries, iclab, refused};

/// A network of the paper's task, as small as can be and hardly trained.
const SMALL: &str = "name = \"small\"\n[task]\nfunction = \"linear\"\ninputs = \"gaussian\"\ndim = 20\npoints = 41\n\
                     [network]\nkind = \"gpt2\"\nlayers = 2\nheads = 1\nwidth = 8\npositions = 82\n\
                     [training]\nsteps = 3\nbatch = 2\nrate = 1e-3\n";

/// A directory with the run of [`SMALL`] under `r1`.
fn with_run() -> TempDir {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("small.toml"), SMALL).unwrap();
    done(dir.path(), &["train", "small.toml", "--device", "cpu"]);
    let run = entries(&dir.path().join("runs")).pop().unwrap();
    std::fs::rename(dir.path().join("runs").join(run), dir.path().join("r1")).unwrap();
    dir
}

fn ledger(dir: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(dir.join("ledger.json")).unwrap()).unwrap()
}

#[test]
fn a_network_is_taken_from_the_command_line_or_from_the_models() {
    let dir = with_run();
    let reproduce = |more: &[&str]| {
        let output =
            iclab(dir.path(), &[&["reproduce", "--only", "Q6,f27", "--prompts", "16"], more].concat());
        // three steps of training teach nothing, and the claims say so
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    };
    reproduce(&["--model", "r1=r1", "--out", "a"]);
    std::fs::create_dir(dir.path().join("shelf")).unwrap();
    std::fs::rename(dir.path().join("r1"), dir.path().join("shelf/r1")).unwrap();
    reproduce(&["--models", "shelf", "--out", "b"]);
    let (a, b) = (ledger(&dir.path().join("a")), ledger(&dir.path().join("b")));
    for (one, other) in a["analyses"].as_array().unwrap().iter().zip(b["analyses"].as_array().unwrap()) {
        assert_eq!(one["claims"], other["claims"]);
    }
    assert!(dir.path().join("a/figures/q6-ols.png").exists());
    let plan = std::fs::read_to_string(dir.path().join("a/plan.toml")).unwrap();
    assert!(plan.contains("r1=r1"), "{plan}");
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
        let args =
            [&["reproduce", "--prompts", "16", "--out", "out"], &line.split(' ').collect::<Vec<_>>()[..]];
        let sentence = refused(dir.path(), &args.concat());
        for word in *words {
            assert!(sentence.contains(word), "iclab reproduce {line}: '{sentence}' lacks '{word}'");
        }
        assert_eq!(entries(dir.path()), before, "iclab reproduce {line} left something behind");
    }
}

#[test]
fn what_was_not_run_is_kept_in_the_ledger() {
    let dir = TempDir::new().unwrap();
    done(dir.path(), &["reproduce", "--only", "E2", "--prompts", "16", "--out", "r"]);
    let mut kept = ledger(&dir.path().join("r"));
    assert_eq!(kept["not_run"], Value::Array(vec![]));
    kept["not_run"] = serde_json::json!([{ "analysis": "F3", "title": "Layers", "why": "needs models/r1" }]);
    std::fs::write(dir.path().join("r/ledger.json"), kept.to_string()).unwrap();
    let said = done(dir.path(), &["claims", "--report", "r"]);
    assert!(said.contains("Not run") && said.contains("needs models/r1"), "{said}");
    assert!(said.contains("2 claims: ✓ 2 hold") && said.contains("1 analyses not run"), "{said}");
}
