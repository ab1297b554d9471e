//! What is exported comes back: the same in float32, rounded in float16, in one file or in shards.

use std::fs;
use std::path::Path;

use engine::interchange::hf::{ExportOptions, Names, Precision, export, parse};
use engine::interchange::{ByteSize, Imported, NETWORK, import, load_model, network_to_json, save_model};
use engine::model::checkpoint;
use engine::model::networks::{Gpt2Config, Network};
use engine::model::ops::{Activation, AttentionKind, Mask};
use engine::model::optim::{OptimiserState, adam::AdamConfig};
use safetensors::tensor::{Dtype, TensorView};

use crate::common::{rough_params, tiny_gpt2, tiny_lstm};
use crate::imported;

fn models() -> Vec<Imported> {
    let relu = Network::Gpt2(Gpt2Config { activation: Activation::Relu, ..tiny_gpt2() });
    let made = [Network::Gpt2(tiny_gpt2()), relu, tiny_lstm()].map(|network| {
        let params = rough_params(&network);
        Imported { network, params, step: Some(500_001), dropped: Vec::new(), heads_assumed: false }
    });
    let mut read = vec![imported("garg.pt", 2), imported("lstm.pt", 1)];
    read.iter_mut().for_each(|model| model.dropped.clear());
    read.extend(made);
    read
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn float32_is_the_identity() {
    for (index, model) in models().iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        for style in [Names::HuggingFace, Names::Garg] {
            for max_shard in [None, Some(ByteSize(2_500))] {
                let options = ExportOptions { names: style, max_shard, ..Default::default() };
                let target = folder.path().join(format!("{style:?}{}", max_shard.is_some()));
                let files = export(&target, model, &options).unwrap();
                assert_eq!(import(&target, None).unwrap(), *model, "model {index}");
                let shards =
                    files.iter().filter(|(name, _)| name.extension().unwrap() == "safetensors").count();
                assert_eq!(shards > 1, max_shard.is_some());
                for (file, bytes) in &files {
                    assert_eq!(fs::metadata(file).unwrap().len(), *bytes);
                    let weights = file.extension().unwrap() == "safetensors";
                    assert!(!weights || max_shard.is_none_or(|most| *bytes <= most.0), "{bytes}");
                }
                if max_shard.is_some() {
                    let index = target.join("model.safetensors.index.json");
                    assert_eq!(files.last().unwrap().0, index, "the index comes last");
                    assert_eq!(import(&index, None).unwrap(), *model);
                }
            }
        }
        let file = folder.path().join("one.safetensors");
        export(&file, model, &ExportOptions::default()).unwrap();
        assert_eq!(import(&file, None).unwrap(), *model);
        let bytes = fs::read(&file).unwrap();
        export(&file, model, &ExportOptions::default()).unwrap();
        assert!(fs::read(&file).unwrap() == bytes, "the same network gives the same bytes");
        assert!(names(folder.path()).iter().all(|name| !name.contains("part")));
    }
}

#[test]
fn float16_rounds_to_nearest() {
    for mut model in models() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("half.safetensors");
        let options = ExportOptions { precision: Precision::F16, ..Default::default() };
        model.params[..3].copy_from_slice(&[1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0, 65504.0]);
        export(&target, &model, &options).unwrap();
        let back = import(&target, None).unwrap();
        assert_eq!(back.network, model.network);
        assert_eq!(back.params[..3], [1.0, 1.0 + 4.0 / 2048.0, 65504.0], "ties go to even");
        for (found, exact) in back.params.iter().zip(&model.params) {
            assert!((found - exact).abs() <= exact.abs() / 2048.0 + 3e-8, "{found} for {exact}");
        }
        assert!(fs::metadata(&target).unwrap().len() < 2 * model.params.len() as u64 + 5_000);
        // beyond the range of float16 nothing is written
        model.params[0] = 1e6;
        let lost = folder.path().join("lost.safetensors");
        let sentence = export(&lost, &model, &options).unwrap_err().to_string();
        assert!(sentence.contains("_read_in.weight") && sentence.contains("65504"), "{sentence}");
        assert!(!lost.exists());
    }
}

#[test]
fn bfloat16_is_read() {
    let model = &models()[2];
    let layout = model.network.layout();
    let tensors: Vec<_> = layout
        .iter()
        .map(|(spec, place)| {
            let cut = |value: &f32| value.to_bits().to_le_bytes()[2..].to_vec();
            (
                spec.name.clone(),
                spec.shape.clone(),
                place.of(&model.params).iter().flat_map(cut).collect::<Vec<u8>>(),
            )
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (name.clone(), TensorView::new(Dtype::BF16, shape.clone(), bytes).unwrap())
    });
    let bytes = safetensors::serialize(views, None).unwrap();
    let back = parse(Path::new("b.safetensors"), bytes, Some(2)).unwrap();
    for (found, exact) in back.params.iter().zip(&model.params) {
        assert_eq!(found.to_bits(), exact.to_bits() & 0xffff_0000);
    }
}

#[test]
fn the_engines_own_checkpoints_are_read_too() {
    let model = &models()[2];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.safetensors");
    let metadata = [(NETWORK.to_string(), network_to_json(&model.network))].into();
    let layout = model.network.layout();
    checkpoint::save(&path, &layout, &model.params, None, &metadata).unwrap();
    assert_eq!(import(&path, None).unwrap().params, model.params);
    assert!(import(&path, Some(1)).unwrap_err().to_string().contains("states 2 heads"));
    // with the optimiser's state, as training writes it
    let mut adam = OptimiserState::new(AdamConfig::default(), layout.len());
    adam.step = 12;
    checkpoint::save(&path, &layout, &model.params, Some(&adam), &metadata).unwrap();
    assert_eq!(load_model(&path).unwrap(), Imported { step: Some(12), ..model.clone() });
    save_model(&path, model, [("name".into(), "small".into())]).unwrap();
    assert_eq!(load_model(&path).unwrap(), *model);
    assert_eq!(checkpoint::load(&path, &layout).unwrap().metadata["name"], "small");
}

#[test]
fn the_engines_own_checkpoints_must_name_a_network_that_fits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.safetensors");
    let model = &models()[2];
    let other = Network::Gpt2(Gpt2Config { width: 4096, ..tiny_gpt2() });
    for (json, word) in [
        (None, "no `network`"),
        (Some("{}".to_string()), "missing field"),
        (Some(network_to_json(&tiny_lstm())), "tensor"),
        (Some(network_to_json(&other)), "too small"),
    ] {
        let metadata = json.map(|json| (NETWORK.to_string(), json)).into_iter().collect();
        checkpoint::save(&path, &model.network.layout(), &model.params, None, &metadata).unwrap();
        let sentence = load_model(&path).unwrap_err().to_string();
        assert!(sentence.contains(word) && sentence.starts_with(&path.display().to_string()), "{sentence}");
    }
}

#[test]
fn impossible_exports_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let model = &models()[2];
    let small = ExportOptions { max_shard: Some(ByteSize(1_000)), ..Default::default() };
    let few = ExportOptions { max_shard: Some(ByteSize(2_500)), ..Default::default() };
    let full = AttentionKind { mask: Mask::Full, ..Default::default() };
    let network = Network::Gpt2(Gpt2Config { attention: full, ..tiny_gpt2() });
    let odd = Imported { network, ..model.clone() };
    fs::create_dir(folder.path().join("taken")).unwrap();
    fs::write(folder.path().join("taken/mine.txt"), "mine").unwrap();
    let plain = ExportOptions::default();
    for (target, model, options, word) in [
        ("new", model, &small, "cannot hold the tensor"),
        ("new.safetensors", model, &few, "accepted: a folder"),
        ("new", &odd, &plain, "causal softmax"),
        ("taken", model, &plain, "exists already"),
        ("taken/mine.txt", model, &plain, "exists already"),
        ("absent/new", model, &plain, "cannot write"),
        ("absent/new.safetensors", model, &plain, "cannot write"),
    ] {
        let sentence = export(&folder.path().join(target), model, options).unwrap_err().to_string();
        assert!(sentence.contains(word), "{sentence}");
        assert_eq!(
            (names(folder.path()), names(&folder.path().join("taken"))),
            (vec!["taken".into()], vec!["mine.txt".into()])
        );
    }
    fs::create_dir(folder.path().join("empty")).unwrap();
    assert!(export(&folder.path().join("empty"), model, &few).is_ok(), "an empty folder is filled");
}

#[test]
fn damaged_shards_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("model");
    let few = ExportOptions { max_shard: Some(ByteSize(2_500)), ..Default::default() };
    export(&target, &models()[2], &few).unwrap();
    let second = names(&target).into_iter().find(|name| name.starts_with("model-00002")).unwrap();
    let [index, shard] = ["model.safetensors.index.json", &second].map(|name| target.join(name));
    let (text, bytes) = (fs::read_to_string(&index).unwrap(), fs::read(&shard).unwrap());
    let refused = |word: &str| {
        let sentence = import(&target, None).unwrap_err().to_string();
        assert!(sentence.contains(word) && sentence.starts_with(&target.display().to_string()), "{sentence}");
    };
    fs::write(&shard, &bytes[..bytes.len() - 1]).unwrap();
    refused("not a whole safetensors file");
    fs::remove_file(&shard).unwrap();
    refused("cannot read");
    fs::write(&shard, &bytes).unwrap();
    fs::write(&index, text.replace("model-00002", "../model-00002")).unwrap();
    refused("beside the index");
    fs::write(&index, text.replacen("wpe.weight", "wpe.other", 1)).unwrap();
    refused("not in the index");
    fs::write(&index, "{}").unwrap();
    refused("no index of shards");
}
