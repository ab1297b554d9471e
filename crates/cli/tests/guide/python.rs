//! The pages' Python, where there is none: what stands in for it, and why.

use std::path::Path;
use std::process::Command;

use lab::Prompts;
use lab::data::npz::{self, Values};
use ndarray::{Array2, Array3};
use serde_json::Value;

use super::{Place, repository};

/// Runs a block of Python. PyTorch is in no test: what it gave for a small checkpoint was recorded once
/// (`scripts/golden/make_interchange.py`) and stands in for it. Without numpy an algorithm of ours makes the same file.
pub fn run(place: &mut Place, code: &str) {
    if code.contains("import iclab") || place.page == "docs/guide/python.md" {
        return; // the Python package's own tests run that page, and have the calls of the README
    }
    if code.contains("torch") {
        return recorded(place.dir.path(), "garg.pt");
    }
    if code.contains("wandb") {
        return; // an account of the reader's: nothing is sent from a test
    }
    let numpy = Command::new("python3").args(["-c", "import numpy"]).output();
    if numpy.is_ok_and(|output| output.status.success()) {
        let mut python = Command::new("python3");
        let output = python.args(["-c", code]).current_dir(place.dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    } else {
        place.shell("iclab predict gd --steps 1..=6 --prompts p.npz --out mine.npz");
    }
}

/// Prompts and what PyTorch predicted for them: `p.npz` and `outputs.npz`, as the page's Python writes them.
fn recorded(at: &Path, checkpoint: &str) {
    let tokens = golden(&format!("tokens/{checkpoint}"));
    let predictions = golden(&format!("predictions/{checkpoint}"));
    let [b, n2, d] = tokens.0[..] else { panic!("tokens [b, 2n, d]") };
    let token = |b: usize, t: usize, k: usize| tokens.1[(b * n2 + t) * d + k];
    let xs = Array3::from_shape_fn((b, n2 / 2, d), |(b, t, k)| token(b, 2 * t, k));
    let ys = Array2::from_shape_fn((b, n2 / 2), |(b, t)| token(b, 2 * t + 1, 0));
    let prompts = Prompts::new(xs, ys).unwrap();
    npz::write_prompts(&at.join("p.npz"), &prompts).unwrap();
    let digest = prompts.digest();
    let arrays = [
        ("outputs", &predictions.0[..], Values::Real(&predictions.1)),
        (npz::DIGEST, &[b][..], Values::Whole(&digest)),
    ];
    npz::write(&at.join("outputs.npz"), &arrays).unwrap();
}

/// Shape and float32 numbers of a tensor that PyTorch computed.
fn golden(name: &str) -> (Vec<usize>, Vec<f64>) {
    let bytes =
        std::fs::read(repository().join("crates/engine/tests/golden/interchange.safetensors")).unwrap();
    let head = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + head]).unwrap();
    let whole = |value: &Value| value.as_u64().unwrap() as usize;
    let list = |field: &str| header[name][field].as_array().unwrap().iter().map(whole).collect::<Vec<_>>();
    let [from, to] = list("data_offsets")[..] else { panic!("two offsets") };
    let data = &bytes[8 + head + from..8 + head + to];
    let number = |chunk: &[u8]| f64::from(f32::from_le_bytes(chunk.try_into().unwrap()));
    (list("shape"), data.chunks(4).map(number).collect())
}
