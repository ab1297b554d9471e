//! `iclab import` and `iclab export` as a user meets them.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{done, ended, entries, json, read, refused_with, says, with};
use lab::data::npz::{self, Values};

fn golden(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden").join(name);
    path.to_str().unwrap().into()
}

#[test]
fn a_checkpoint_of_pytorch_goes_in_and_out_again() {
    let dir = with(&[]);
    let dir = dir.path();
    let text =
        done(dir, &["import", &golden("garg.pt"), "--heads", "2", "--name", "g", "--out", "m.safetensors"]);
    let words =
        "m.safetensors: GPT-2, 2 layers, 2 heads, 8 wide, 3 inputs, 10 positions; 1,881 parameters; step 2";
    assert!(text.contains(words) && text.contains("attn.bias"), "{text}");
    let text = done(dir, "export m.safetensors --out shards --max-shard-size 3KB");
    says(&text, &["shards/model-00001-of-", "model.safetensors.index.json"]);
    done(dir, "import shards --out again.safetensors --name g");
    done(dir, "export m.safetensors --out one.safetensors");
    done(dir, "export again.safetensors --out two.safetensors");
    assert_eq!(
        fs::read(dir.join("one.safetensors")).unwrap(),
        fs::read(dir.join("two.safetensors")).unwrap()
    );
    done(dir, "export m.safetensors --out half --dtype f16 --names garg");
    assert_eq!(entries(&dir.join("half")), ["config.json", "model.safetensors"]);
    let size = |name: &str| fs::metadata(dir.join(name)).unwrap().len();
    assert!(size("one.safetensors") - size("half/model.safetensors") > 3_000);
    let import = |name: &str| done(dir, &["import", &golden(name), "--out", "l.safetensors"]);
    says(&import("lstm.pt"), &["LSTM, 2 layers, 6 wide"]);
    says(&import("bare.pt"), &["8 heads (assumed"]);
}

#[test]
fn what_cannot_be_read_or_written_is_said_in_a_sentence() {
    let dir = with(&[]);
    let dir = dir.path();
    fs::write(dir.join("cut.pt"), &fs::read(golden("garg.pt")).unwrap()[..20_000]).unwrap();
    fs::write(dir.join("old.safetensors"), "old").unwrap();
    let before = entries(dir);
    let import = |from: &str, rest: &[&str], words: &str| {
        refused_with(dir, &[&["import", from, "--out", "old.safetensors"], rest].concat(), &[words]);
    };
    import("cut.pt", &[], "cut.pt: the zip archive is damaged or cut off");
    import("absent.pt", &[], "cannot read");
    import(&golden("legacy.pt"), &[], "PyTorch 1.6");
    import(&golden("module.pt"), &[], "not executed");
    import(&golden("garg.pt"), &["--heads", "3"], "divide the width 8");
    import("old.safetensors", &[], "another name");
    refused_with(dir, &["import", &golden("lstm.pt"), "--out", "absent/m.safetensors"], &["cannot write"]);
    refused_with(dir, "export old.safetensors --out x", &["not a whole safetensors file"]);
    refused_with(dir, &["export", &golden("gpt2.safetensors"), "--out", "x"], &["no `network`"]);
    refused_with(dir, "export old.safetensors --out x --max-shard-size big", &["MiB"]);
    assert_eq!(entries(dir), before, "nothing half-written");
    assert_eq!(fs::read(dir.join("old.safetensors")).unwrap(), b"old", "the old file is untouched");
}

/// What PyTorch was asked and said, as `make_interchange.py` recorded it: prompts in `p.npz`, outputs in `o.npz`.
fn pytorch(dir: &Path, name: &str) {
    let bytes = fs::read(golden("interchange.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = json(std::str::from_utf8(&bytes[8..8 + length]).unwrap());
    let tensor = |key: &str| {
        let about = &header[format!("{key}/{name}")];
        let [shape, range] = ["shape", "data_offsets"].map(|field| {
            let numbers = about[field].as_array().unwrap().iter();
            numbers.map(|n| n.as_u64().unwrap() as usize).collect::<Vec<_>>()
        });
        let data = &bytes[8 + length..][range[0]..range[1]];
        let values = data.as_chunks::<4>().0.iter().map(|v| f64::from(f32::from_le_bytes(*v)));
        (shape, values.collect::<Vec<_>>())
    };
    let (shape, tokens) = tensor("tokens");
    let (b, n, d) = (shape[0], shape[1] / 2, shape[2]);
    let pairs = || tokens.chunks_exact(2 * d); // x, then (y, 0, …)
    let xs: Vec<f64> = pairs().flat_map(|pair| pair[..d].to_vec()).collect();
    let ys: Vec<f64> = pairs().map(|pair| pair[d]).collect();
    let prompts: [(&str, &[usize], Values); 2] =
        [("xs", &[b, n, d], Values::Real(&xs)), ("ys", &[b, n], Values::Real(&ys))];
    npz::write(&dir.join("p.npz"), &prompts).unwrap();
    let (shape, outputs) = tensor("predictions");
    npz::write(&dir.join("o.npz"), &[("outputs", &shape, Values::Real(&outputs))]).unwrap();
    let steps: [(&str, &[usize], Values); 2] =
        [("steps", &[1], Values::Whole(&[0])), ("values", &[1, b, n], Values::Real(&outputs))];
    npz::write(&dir.join("theirs.npz"), &steps).unwrap();
}

#[test]
fn an_import_is_checked_by_the_outputs_of_pytorch() {
    let dir = with(&[]);
    let dir = dir.path();
    for (name, heads) in [("garg.pt", "2"), ("bare.pt", "4"), ("half.pt", "4"), ("lstm.pt", "1")] {
        pytorch(dir, name);
        let state = golden(name);
        let import =
            ["import", &state, "--heads", heads, "--out", "m.safetensors", "--check", "p.npz", "o.npz"];
        let said = done(dir, &import);
        says(&said, &["check: the largest difference from o.npz is", "the same network"]);
        says(&said, &["iclab probe m.safetensors", "run:m.safetensors@own"]);
        // the same as a learner: its own output is PyTorch's
        done(dir, "predict run:m.safetensors@own --prompts p.npz --out own.npz");
        let line = "compare file:own.npz file:theirs.npz --prompts p.npz --measure l2e --from 0 --out c";
        ended(dir, line, 0);
        let off = json(&read(dir.join("c/result.json")))["similarity"][0].as_f64().unwrap();
        assert!(off < 1e-5, "{name}: {off}");
    }
    fs::remove_file(dir.join("m.safetensors")).unwrap();
    pytorch(dir, "garg.pt");
    let state = golden("garg.pt");
    let import = ["import", &state, "--heads", "4", "--out", "m.safetensors", "--check", "p.npz", "o.npz"];
    let (said, _) = ended(dir, &import, 1);
    says(&said, &["not the same network, and nothing is written", "accepted: at most 1e-3"]);
    assert!(!dir.join("m.safetensors").exists());
    done(dir, "sample --dim 3 --points 6 --prompts 2 --out long.npz");
    let import = |prompts: &str, words: &[&str]| {
        let line = ["import", &state, "--out", "m.safetensors", "--check", prompts, "o.npz"];
        refused_with(dir, &line, words);
    };
    import("long.npz", &["o.npz", "array 'outputs' has shape (2, 4)", "(2, 6)"]);
    import("o.npz", &["o.npz", "no array 'xs'"]);
}

#[test]
fn an_imported_network_is_asked_what_it_can_hold() {
    let dir = with(&[]);
    let dir = dir.path();
    done(dir, &["import", &golden("garg.pt"), "--heads", "2", "--out", "m.safetensors"]); // 10 positions
    let found = done(dir, "compare run:m.safetensors newton --steps-b 0..=6 --prompts 16 --out c");
    says(&found, &["linear on gaussian inputs, d=3, 16 prompts"]);
    says(&read(dir.join("c/plan.toml")), &["dim = 3", "points = 5"]);
    says(&done(dir, "probe m.safetensors --look 16"), &["3 dimensions, 5 points"]);
    let refused = |line: &str, words: &[&str]| refused_with(dir, line, words);
    refused("compare run:m.safetensors newton --points 6 --out x", &["6 points for m", "at most 5"]);
    refused("probe m.safetensors --points 6", &["6 points for m", "at most 5"]);
    // a file of prompts, or what is asked for, comes before what it could hold
    fs::remove_file(dir.join("m.readouts.safetensors")).unwrap();
    done(dir, "sample --dim 2 --points 4 --prompts 9 --out p.npz");
    done(dir, "predict run:m.safetensors --prompts p.npz --out o.npz");
    says(&done(dir, "probe m.safetensors --look 16"), &["2 dimensions, 4 points"]);
    let (_, notes) = ended(dir, "compare run:m.safetensors newton --points 5 --prompts 16 --out c", 0);
    says(&notes, &["its read-outs were fitted to 4 points (here 5)"]);
}
