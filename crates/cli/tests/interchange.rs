//! `iclab import` and `iclab export` as a user meets them.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{done, entries, refused_with, says, with};

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
