//! Files of other programs: PyTorch's own checkpoints give PyTorch's own predictions, exports come back, and nothing
//! that a file holds is executed, believed or paid for with more memory than the file is worth.

#[path = "interchange/build.rs"]
mod build;
mod common;
#[path = "interchange/fuzz.rs"]
mod fuzz;
#[path = "interchange/hostile.rs"]
mod hostile;
#[path = "interchange/round_trip.rs"]
mod round_trip;

use std::path::{Path, PathBuf};

use common::relative;
use engine::interchange::{self, DEFAULT_HEADS, Imported, InterchangeError};
use engine::model::networks::{Gpt2Config, LstmConfig, Mode, Network};
use safetensors::SafeTensors;

#[global_allocator]
static COUNTING: ::hostile::Counting = ::hostile::Counting;

/// A file made by `scripts/golden/make_interchange.py`.
pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A golden checkpoint, read.
pub fn imported(name: &str, heads: usize) -> Imported {
    interchange::import(&golden(name), Some(heads)).unwrap_or_else(|error| panic!("{error}"))
}

fn predictions_agree(name: &str, model: &Imported) {
    let bytes = std::fs::read(golden("interchange.safetensors")).expect("golden file");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let read = |key: &str| {
        let view = file.tensor(&format!("{key}/{name}")).expect("golden tensor");
        let values: Vec<f32> =
            view.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        (view.shape().to_vec(), values)
    };
    let (shape, tokens) = read("tokens");
    let mut runner = model.network.runner(shape[0], shape[1], Mode::Infer).unwrap();
    runner.set_tokens(&tokens).unwrap();
    runner.forward(&model.params);
    let error = relative(runner.predictions(), &read("predictions").1);
    assert!(error < 1e-5, "{name}: predictions differ from PyTorch's by {error}");
}

#[test]
fn checkpoints_of_garg_et_al_predict_as_in_pytorch() {
    let model = imported("garg.pt", 2);
    let config =
        Gpt2Config { features: 3, positions: 10, width: 8, layers: 2, heads: 2, ..Default::default() };
    assert_eq!(model.network, Network::Gpt2(config));
    assert_eq!(model.step, Some(2));
    let dropped = ["_backbone.h.0.attn.bias", "_backbone.h.0.attn.masked_bias", "_backbone.wte.weight"];
    assert!(
        dropped.iter().all(|name| model.dropped.iter().any(|found| found == name)),
        "{:?}",
        model.dropped
    );
    assert_eq!(model.dropped.len(), 5);
    predictions_agree("garg.pt", &model);
}

#[test]
fn bare_state_dicts_halves_and_views_predict_as_in_pytorch() {
    for name in ["bare.pt", "half.pt", "views.pt"] {
        let model = imported(name, 4);
        assert_eq!((model.network.layers(), model.step), (1, None));
        predictions_agree(name, &model);
    }
    assert_eq!(imported("bare.pt", 4).params, imported("views.pt", 4).params);
}

#[test]
fn lstms_predict_as_in_pytorch() {
    let model = imported("lstm.pt", 3);
    assert_eq!(model.network, Network::Lstm(LstmConfig { features: 2, width: 6, layers: 2 }));
    assert_eq!(model.step, Some(7));
    predictions_agree("lstm.pt", &model);
}

#[test]
fn heads_are_asked_for_or_the_papers() {
    let Network::Gpt2(config) = interchange::import(&golden("bare.pt"), None).unwrap().network else {
        panic!("a GPT-2")
    };
    assert_eq!(config.heads, DEFAULT_HEADS);
    let error = interchange::import(&golden("bare.pt"), Some(3)).unwrap_err();
    assert!(
        error.to_string().contains("heads") && error.to_string().contains("divide the width 8"),
        "{error}"
    );
}

#[test]
fn foreign_files_are_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let whole = std::fs::read(golden("lstm.pt")).unwrap();
    let cases = [
        (golden("legacy.pt"), "before PyTorch 1.6"),
        (golden("module.pt"), "not executed"),
        (golden("gpt2.safetensors"), "not of this network"),
        (file("empty.pt", b""), "no PyTorch checkpoint"),
        (file("text.pt", b"weights: none"), "no PyTorch checkpoint"),
        (file("cut.pt", &whole[..whole.len() / 2]), "damaged or cut off"),
        (file("other.pt", &build::zip(&[("a/readme.txt", b"hello")])), "no data.pkl"),
        (file("bent.pt", &build::zip(&[("a/data.pkl", b"\x80\x02}\xffu.")])), "byte 3"),
        (file("old.pt", &build::zip(&[("a/data.pkl", b"(dp0\n.")])), "protocol 0 or 1"),
        (file("new.pt", &build::zip(&[("a/data.pkl", b"\x80\x06}.")])), "protocol 6"),
        (file("lines.pt", &build::zip(&[("a/data.pkl", b"\x80\x02I1\n.")])), "no opcode 0x49"),
        (folder.path().join("absent.pt"), "cannot read"),
        (folder.path().to_path_buf(), "neither"),
    ];
    for (path, word) in cases {
        let sentence = interchange::import(&path, None).unwrap_err().to_string();
        assert!(sentence.contains(word), "{sentence}");
        assert!(sentence.starts_with(&path.display().to_string()) && !sentence.contains('\n'), "{sentence}");
    }
}

#[test]
fn missing_and_unexpected_tensors_are_listed() {
    let mut state = build::lstm();
    state.retain(|tensor| tensor.name != "_backbone.bias_hh_l0");
    state.push(build::Tensor::float("head.weight", &[2, 2]));
    let error = build::read(&state).unwrap_err();
    let InterchangeError::Names { missing, unexpected, .. } = &error else { panic!("{error}") };
    assert_eq!(
        (&missing[..], &unexpected[..]),
        (&["lstm.bias_hh_l0".into()][..], &["head.weight".into()][..])
    );
    assert_eq!(
        error.to_string(),
        "hostile.pt: tensor missing: `lstm.bias_hh_l0`; tensor not of this network: `head.weight`"
    );
    assert!(build::read(&build::lstm()).is_ok());
}
