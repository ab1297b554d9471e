//! Shipped networks as a user meets them: added from a run, listed, verified, and refused when a file is not what it was.

mod common;

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use common::{done, iclab, refused};

/// Too small and too little trained to be any good, on the task of `r1`.
const TINY: &str = r#"
name = "tiny"
[task]
function = "linear"
inputs = "gaussian"
dim = 20
points = 41
[network]
kind = "gpt2"
layers = 1
heads = 1
width = 8
positions = 82
[training]
steps = 3
batch = 2
rate = 1e-3
log_every = 1
"#;

#[test]
fn a_run_becomes_a_model_and_a_damaged_model_is_refused() {
    let dir = TempDir::new().unwrap();
    let at = dir.path();
    fs::write(at.join("tiny.toml"), TINY).unwrap();
    done(at, &["train", "tiny.toml"]);
    let run = fs::read_dir(at.join("runs")).unwrap().next().unwrap().unwrap().path();
    let run = run.to_str().unwrap();

    let said = refused(at, &["models", "add", "r2", run]);
    assert!(said.contains("accepted for r2"), "{said}");
    let said = refused(at, &["models", "add", "r99", run]);
    assert!(said.contains("r99"), "{said}");
    let said = refused(at, &["models", "show", "r1"]);
    assert!(said.contains("not here") && said.contains("iclab models add r1 RUN"), "{said}");
    assert!(!at.join("models/r1").exists());

    done(at, &["models", "add", "r1", run, "--remark", "Only a test."]);
    let card: Value = serde_json::from_str(&done(at, &["models", "show", "r1", "--json"])).unwrap();
    assert_eq!((card["steps"].as_u64(), card["stored"].as_str()), (Some(3), Some("float16")));
    for file in ["plan.toml", "checkpoint.safetensors", "readouts.safetensors", "loss.svg", "metrics.jsonl"] {
        assert!(card["files"][file].is_object(), "{file}: {card}");
    }
    assert!(done(at, &["models", "show", "r1"]).contains("Only a test."));
    assert!(done(at, &["models"]).contains("not here")); // r2 and on
    assert!(done(at, &["models", "verify"]).contains("whole"));
    // What was added is what analyses find under the name, with its read-outs.
    done(at, &["compare", "run:models/r1", "newton", "--prompts", "16", "--out", "cmp"]);

    // Half the bytes are read by whatever reads whole ones; what comes out again is what went in.
    done(at, &["export", "models/r1/checkpoint.safetensors", "--out", "hf"]);
    done(at, &["import", "hf", "--out", "back.safetensors"]);
    let said = |of: &str| done(at, &["probe", of, "--prompts", "64", "--look", "16", "--json"]);
    let layers = |text: String| serde_json::from_str::<Value>(&text).unwrap()["layers"].clone();
    let (shipped, back) = (layers(said("models/r1")), layers(said("back.safetensors")));
    assert!(shipped.is_array() && shipped == back, "{shipped} {back}");

    // Predictions alone: a network that is compared by its errors, on the prompts that it was asked, and no other way.
    done(at, &["models", "add", "r1-relu", run, "--predictions"]);
    let card: Value = serde_json::from_str(&done(at, &["models", "show", "r1-relu", "--json"])).unwrap();
    assert!(card["stored"].as_str().unwrap().starts_with("predictions"), "{card}");
    assert_eq!(card["judged"]["prompts"].as_u64(), Some(1280));
    done(at, &["models", "add", "r1-relu", "models/r1-relu", "--predictions"]);
    let again: Value = serde_json::from_str(&done(at, &["models", "show", "r1-relu", "--json"])).unwrap();
    assert_eq!(card, again, "what is shipped can be added once more");
    let said = refused(at, &["models", "add", "r1-relu", "models/r1-relu"]);
    assert!(said.contains("checkpoint.safetensors"), "{said}");
    let asked = |more: &[&str]| iclab(at, &[&["reproduce", "--only", "Q10", "--out", "q10"], more].concat());
    assert_eq!(asked(&["--prompts", "16"]).status.code(), Some(1), "a tiny network learns nothing");
    let other = asked(&["--prompts", "16", "--seed", "1"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&other.stderr).contains("models/r1-relu"));

    let path = at.join("models/r1/checkpoint.safetensors");
    let whole = fs::read(&path).unwrap();
    let mut altered = whole.clone();
    *altered.last_mut().unwrap() ^= 1;
    for (bytes, words) in
        [(&altered[..], "was altered"), (&whole[..whole.len() - 3], "bytes where its card says")]
    {
        fs::write(&path, bytes).unwrap();
        let verified = iclab(at, &["models", "verify", "r1"]);
        assert_eq!(verified.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&verified.stdout).contains(words));
        let said = refused(at, &["reproduce", "--only", "F3", "--prompts", "16", "--out", "report"]);
        assert!(said.contains(words) && said.contains("checkpoint.safetensors"), "{said}");
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(iclab(at, &["models"]).status.code(), Some(1));
}
