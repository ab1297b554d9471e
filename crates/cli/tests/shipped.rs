//! Shipped networks as a user meets them: added from a run, listed, verified, and refused when a file is not what it was.

mod common;

use std::fs;

use common::{done, done_json, ended, hardly_trained, only_run, refused_with, says, with};

#[test]
fn a_run_becomes_a_model_and_a_damaged_model_is_refused() {
    let dir = with(&[("tiny.toml", &hardly_trained("tiny", 20, 41, 0))]);
    let at = dir.path();
    done(at, "train tiny.toml");
    let run = only_run(at);
    let run = run.strip_prefix(at).unwrap().display();

    refused_with(at, &format!("models add r2 {run}"), &["accepted for r2"]);
    refused_with(at, &format!("models add r99 {run}"), &["r99"]);
    refused_with(at, "models show r1", &["not here", "iclab models add r1 RUN"]);
    assert!(!at.join("models/r1").exists());

    let run = run.to_string();
    done(at, &["models", "add", "r1", &run, "--remark", "Only a test."]);
    let card = done_json(at, "models show r1 --json");
    assert_eq!((card["steps"].as_u64(), card["stored"].as_str()), (Some(3), Some("float16")));
    for file in ["plan.toml", "checkpoint.safetensors", "readouts.safetensors", "loss.svg", "metrics.jsonl"] {
        assert!(card["files"][file].is_object(), "{file}: {card}");
    }
    says(&done(at, "models show r1"), &["Only a test."]);
    says(&done(at, "models"), &["not here"]); // r2 and on
    says(&done(at, "models verify"), &["whole"]);
    // What was added is what analyses find under the name, with its read-outs.
    done(at, "compare run:models/r1 newton --prompts 16 --out cmp");

    // Half the bytes are read by whatever reads whole ones; what comes out again is what went in.
    done(at, "export models/r1/checkpoint.safetensors --out hf");
    done(at, "import hf --out back.safetensors");
    let layers =
        |of: &str| done_json(at, &format!("probe {of} --prompts 64 --look 16 --json"))["layers"].clone();
    let (shipped, back) = (layers("models/r1"), layers("back.safetensors"));
    assert!(shipped.is_array() && shipped == back, "{shipped} {back}");

    // Predictions alone: a network that is compared by its errors, on the prompts that it was asked, and no other way.
    done(at, &format!("models add r1-relu {run} --predictions"));
    let card = done_json(at, "models show r1-relu --json");
    assert!(card["stored"].as_str().unwrap().starts_with("predictions"), "{card}");
    assert_eq!(card["judged"]["prompts"].as_u64(), Some(1280));
    done(at, "models add r1-relu models/r1-relu --predictions");
    let again = done_json(at, "models show r1-relu --json");
    assert_eq!(card, again, "what is shipped can be added once more");
    refused_with(at, "models add r1-relu models/r1-relu", &["checkpoint.safetensors"]);
    refused_with(at, "reproduce --only Q10 --out q10 --prompts 16", &["models/r1-fast"]);
    done(at, &format!("models add r1-fast {run} --predictions"));
    let asked = "reproduce --only Q10 --out q10 --prompts 16";
    ended(at, asked, 0);
    ended(at, "reproduce --only Q6 --out q6 --prompts 16 --strict", 1); // a tiny network learns nothing
    refused_with(at, &format!("{asked} --seed 1"), &["models/r1-relu"]);

    let path = at.join("models/r1/checkpoint.safetensors");
    let whole = fs::read(&path).unwrap();
    let mut altered = whole.clone();
    *altered.last_mut().unwrap() ^= 1;
    for (bytes, words) in
        [(&altered[..], "was altered"), (&whole[..whole.len() - 3], "bytes where its card says")]
    {
        fs::write(&path, bytes).unwrap();
        says(&ended(at, "models verify r1", 1).0, &[words]);
        let asked = "reproduce --only F3 --prompts 16 --out report";
        refused_with(at, asked, &[words, "checkpoint.safetensors"]);
    }
    fs::remove_file(&path).unwrap();
    ended(at, "models", 1);
}
