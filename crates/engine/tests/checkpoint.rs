//! Checkpoints come back bit for bit; damaged ones are refused in words and never panic.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{normals, rough_params, tiny_gpt2, tiny_lstm};
use engine::model::checkpoint::{CheckpointError, load, parse, save};
use engine::model::networks::{Gpt2Config, Network};
use engine::model::optim::{OptimiserState, adam::AdamConfig};
use engine::model::parameters::ParamLayout;

fn sample() -> (ParamLayout, Vec<f32>, OptimiserState, BTreeMap<String, String>) {
    let network = Network::Gpt2(tiny_gpt2());
    let layout = network.layout();
    let mut adam = OptimiserState::new(AdamConfig { beta2: 0.98, ..Default::default() }, layout.len());
    adam.mean = normals("mean", layout.len(), 1.0);
    adam.square = normals("square", layout.len(), 1.0).iter().map(|x| x * x).collect();
    adam.step = 12_345;
    let metadata = BTreeMap::from([("config".to_string(), "name = \"ü\"".to_string())]);
    (layout, rough_params(&network), adam, metadata)
}

#[test]
fn a_checkpoint_comes_back_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("step.safetensors");
    let (layout, params, adam, metadata) = sample();
    save(&path, &layout, &params, Some(&adam), &metadata).unwrap();
    let found = load(&path, &layout).unwrap();
    assert_eq!((&found.params, found.optimiser.as_ref(), &found.metadata), (&params, Some(&adam), &metadata));
    // Over an older file, and with weights alone; nothing else is left in the folder.
    save(&path, &layout, &params, None, &metadata).unwrap();
    assert_eq!(load(&path, &layout).unwrap().optimiser, None);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let (layout, params, adam, metadata) = sample();
    let gone = folder.path().join("gone").join("step.safetensors");
    let error = save(&gone, &layout, &params, Some(&adam), &metadata).unwrap_err();
    assert!(error.to_string().contains("step.safetensors: cannot write"), "{error}");
    // A folder stands where the file should go: the rename fails and no part stays behind.
    let blocked = folder.path().join("blocked");
    std::fs::create_dir_all(blocked.join("inside")).unwrap();
    assert!(save(&blocked, &layout, &params, None, &metadata).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn messages_name_file_tensor_expected_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("step.safetensors");
    let (layout, params, adam, metadata) = sample();
    save(&path, &layout, &params, Some(&adam), &metadata).unwrap();
    let wider = Network::Gpt2(Gpt2Config { positions: 11, ..tiny_gpt2() }).layout();
    let error = load(&path, &wider).unwrap_err();
    assert!(matches!(&error, CheckpointError::Mismatch { tensor, .. } if tensor == "wpe.weight"), "{error}");
    let text = error.to_string();
    for part in ["step.safetensors", "wpe.weight", "F32 [11, 8]", "F32 [10, 8]"] {
        assert!(text.contains(part), "{text}");
    }
    let deeper = Network::Gpt2(Gpt2Config { layers: 3, ..tiny_gpt2() }).layout();
    let missing = load(&path, &deeper).unwrap_err();
    assert!(matches!(missing, CheckpointError::Missing { tensor, .. } if tensor == "h.2.ln_1.weight"));
    let shallower = Network::Gpt2(Gpt2Config { layers: 1, ..tiny_gpt2() }).layout();
    assert!(matches!(load(&path, &shallower), Err(CheckpointError::Foreign { .. })));
    assert!(load(&path, &tiny_lstm().layout()).is_err());
    assert!(matches!(load(&folder.path().join("none"), &layout), Err(CheckpointError::Io { .. })));
}

#[test]
fn corrupt_bytes_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("step.safetensors");
    let (layout, params, adam, metadata) = sample();
    save(&path, &layout, &params, Some(&adam), &metadata).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let name = Path::new("mutant");
    let mut refused = 0;
    for cut in (0..bytes.len()).step_by(97) {
        assert!(parse(name, &bytes[..cut], &layout).is_err(), "cut at {cut}");
    }
    // Bytes of the header replaced one at a time, by values that matter to JSON and to lengths.
    for case in 0..20_000usize {
        let mut mutant = bytes.clone();
        let at = case.wrapping_mul(2_654_435_761) % header;
        mutant[at] = [0, 0xff, b'9', b'"', b'{', b'-'][case % 6];
        refused += usize::from(parse(name, &mutant, &layout).is_err());
    }
    assert!(refused > 15_000, "{refused} of 20000 refused");
}
