//! Hostile inputs for the readers of other programs' files: whatever the bytes, a value or a sentence comes back, soon and
//! cheaply.

use std::collections::BTreeMap;
use std::path::Path;

use ::hostile::{
    Cost, NUMBERS, Random, Reader, bend, bend_safetensors, bend_text, check, check_file, place, share,
};
use engine::interchange::hf::{self, ExportOptions};
use engine::interchange::{Imported, load_model, network_from_json, network_to_json};
use engine::model::checkpoint::{self, metadata, save};
use engine::model::networks::Network;
use engine::model::optim::OptimiserState;
use engine::model::optim::adam::AdamConfig;
use engine::text::plain;

use crate::build::{self, Tensor};
use crate::common::{rough_params, tiny_gpt2, tiny_lstm};
use crate::golden;

const COST: Cost = Cost { times: 16, plus: 1 << 20 };

const OPCODES: &[u8] = b"().012FIJKLMNPQRSTUVX]abcdeghijlopqrstu}GBC\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98";

const PIECES: [&[u8]; 14] = [
    b"]q\x00h\x00a",
    b"}q\x00h\x00h\x00s",
    b"r\xff\xff\xff\xff",
    b"j\xff\xff\xff\xff",
    b"cos\nsystem\n",
    b"X\x02\x00\x00\x00os\x93",
    b"ccollections\nOrderedDict\n)R",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ctorch\nFloatStorage\n",
    b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"I99999999999999999999\n",
    b"p4294967295\ng4294967295\n",
    b"\x81R\x92b",
];

/// Mutations that know pickle.
fn bend_pickle(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = random.below(bytes.len());
    match random.below(8) {
        0..=3 => bend(random, bytes, other),
        4 => {
            let codes: Vec<u8> = (0..1 + random.below(16)).map(|_| random.of(OPCODES)).collect();
            bytes.splice(at..at, codes);
        }
        5 => {
            let end = (at + 1).min(bytes.len());
            bytes.splice(at..end, [random.of(OPCODES)]);
        }
        6 => {
            let piece = random.of(&PIECES).repeat(1 + random.below(4));
            bytes.splice(at..at, piece);
        }
        _ => {
            // deep nesting, long runs
            let (code, times) = (random.of(b"(])}2\x85\x94"), 1 << random.below(12));
            bytes.splice(at..at, vec![code; times]);
        }
    }
}

/// A pickle of opcodes that each find what they need, in no order that makes sense.
fn pickle(random: &mut Random) -> Vec<u8> {
    const TEXTS: [&str; 6] = ["_read_in.weight", "model_state_dict", "step", "storage", "cpu", "é"];
    let mut out = b"\x80\x02".to_vec();
    let (mut depth, mut known, mut marks) = (0usize, 0u8, Vec::new());
    let most = if random.once_in(40) { 4000 } else { 60 };
    for _ in 0..1 + random.below(most) {
        // the opcode with what follows it, and how the stack grows
        let (code, change) = match random.below(20) {
            0..=3 => (build::text(random.of(&TEXTS)), 1),
            4 | 5 => (build::int(random.of(&NUMBERS) as i64), 1),
            6 => (vec![random.of(b"N)]}\x88\x89")], 1),
            7 => (random.of(&PIECES[6..9]).to_vec(), 1),
            8 => {
                marks.push(depth);
                (b"(".to_vec(), 0)
            }
            9 if depth > 0 && known < 250 => {
                known += 1;
                (vec![b'q', known - 1], 0)
            }
            10 if known > 0 => (vec![b'h', random.below(known.into()) as u8], 1),
            11 if depth > 0 => (vec![random.of(b"\x85Q")], 0),
            12 if depth > 1 => (vec![random.of(b"\x86aRb0")], -1),
            13 if depth > 2 => (vec![random.of(b"\x87s")], -2),
            14 => ([b"G".as_slice(), &f64::NAN.to_be_bytes()].concat(), 1),
            15 | 16 => {
                // what takes all since the last mark
                let Some(under) = marks.pop() else { continue };
                let code = random.of(b"teu1");
                let left = under + usize::from(code == b't');
                (vec![code], left as isize - depth as isize)
            }
            _ => continue,
        };
        out.extend(code);
        depth = depth.saturating_add_signed(change);
    }
    out.push(b'.');
    out
}

/// A network whose tensors say wrong things about themselves.
fn state(random: &mut Random) -> Vec<Tensor> {
    let mut state = build::lstm();
    for _ in 0..1 + random.below(3) {
        let count = state.len();
        let from = state[random.below(count)].clone();
        let tensor = &mut state[random.below(count)];
        let number = match random.below(3) {
            0 => random.of(&NUMBERS) as i64,
            1 => random.below(40) as i64,
            _ => -(random.below(9) as i64),
        };
        match random.below(9) {
            0 => tensor.offset = number,
            1 => tensor.elements = number,
            2 => tensor.bytes = random.below(400),
            3 => tensor.key = from.key,
            4 => (tensor.shape, tensor.stride) = (from.shape, from.stride),
            5 => {
                tensor.class =
                    random.of(&["HalfStorage", "DoubleStorage", "LongStorage", "BFloat16Storage", "x"])
            }
            6 => tensor.shape.push(number),
            7 => {
                let axis = random.below(tensor.stride.len());
                tensor.stride[axis] = number;
            }
            _ => {
                let axis = random.below(tensor.shape.len());
                tensor.shape[axis] = number;
            }
        }
    }
    state
}

/// A sentence as the program prints it.
fn said(error: impl ToString) -> String {
    plain(&error.to_string())
}

/// What is accepted is whole: as many values as the network has.
fn whole(read: Result<Imported, impl ToString>) -> Result<(), String> {
    let model = read.map_err(said)?;
    assert_eq!(model.params.len(), model.network.layout().len());
    Ok(())
}

/// Sentences about archives are short and plain by themselves.
fn archive(bytes: Vec<u8>) -> Result<(), String> {
    let read = build::read_bytes(bytes).map_err(|error| error.to_string());
    assert!(read.as_ref().err().is_none_or(|error| *error == said(error)), "{read:?}");
    whole(read)
}

fn reader(name: &str) -> Reader<'_> {
    Reader { name, cost: COST, named: "" }
}

/// PyTorch's own files.
fn files() -> Vec<Vec<u8>> {
    let names = ["lstm.pt", "views.pt", "bare.pt", "half.pt", "module.pt"];
    names.iter().map(|name| std::fs::read(golden(name)).unwrap()).collect()
}

#[test]
fn pickles() {
    ::hostile::alone!();
    let unpacked: Vec<_> = files().iter().map(|bytes| build::members(bytes)).collect();
    let of = |index: usize| {
        unpacked[index].iter().find(|(name, _)| name.ends_with("data.pkl")).map(|(_, bytes)| bytes).unwrap()
    };
    let make = |random: &mut Random| {
        let index = random.below(unpacked.len());
        let (mut bytes, other) = (of(index).clone(), of(random.below(unpacked.len())));
        for _ in 0..1 + random.below(3) {
            bend_pickle(random, &mut bytes, other);
        }
        let members = unpacked[index].iter();
        let changed =
            members.map(|(name, old)| (name, if name.ends_with("data.pkl") { &bytes } else { old }));
        build::zip(&changed.collect::<Vec<_>>())
    };
    let accepted = check(&reader("pickle"), make, archive);
    // Mutations that touch nothing of importance must not be the rule.
    assert!(accepted <= share("pickle") / 2, "{accepted} mutated pickles were read");
}

#[test]
fn opcodes_and_tensors_that_lie() {
    ::hostile::alone!();
    let make = |random: &mut Random| match random.below(2) {
        0 => build::zip(&[("archive/data.pkl", pickle(random))]),
        _ => build::checkpoint(&state(random)),
    };
    check(&reader("pickle-opcodes"), make, archive);
}

/// A file of PyTorch's with a few bytes changed, often in the central directory at its end, which a zip reader believes first.
fn bent_archive(random: &mut Random, files: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = files[random.below(files.len())].clone();
    let other = &files[random.below(files.len())];
    for _ in 0..1 + random.below(3) {
        if random.once_in(2) {
            bend(random, &mut bytes, other);
        } else {
            let tail = bytes.len().saturating_sub(1 + random.below(2_000));
            let mut end = bytes.split_off(tail);
            bend(random, &mut end, other);
            bytes.extend(end);
        }
    }
    bytes
}

#[test]
fn archives() {
    ::hostile::alone!();
    let files = files();
    check(&reader("pt"), |random| bent_archive(random, &files), archive);
}

/// A case for whose claimed members `ZipArchive` reserves a table of a hundred times its size.
#[test]
fn a_directory_that_is_not_there_costs_nothing() {
    ::hostile::alone!();
    let bytes = bent_archive(&mut Random::of_case(3, "pt", 24_732), &files());
    let length = bytes.len();
    let raw = bytes.clone();
    let (_, reserved) = ::hostile::measured(|| zip::ZipArchive::new(std::io::Cursor::new(raw)).is_ok());
    assert!(reserved > 100 * length, "{reserved} bytes for {length}: the case shows nothing any more");
    let (read, used) = ::hostile::measured(|| archive(bytes));
    assert!(read.is_err() && used < 2 * length, "{used} bytes in use for {length}: {read:?}");
}

/// A small network of each kind.
fn models() -> [Imported; 2] {
    [Network::Gpt2(tiny_gpt2()), tiny_lstm()].map(|network| {
        let params = rough_params(&network);
        Imported { network, params, step: Some(7), dropped: Vec::new(), heads_assumed: false }
    })
}

#[test]
fn safetensors() {
    ::hostile::alone!();
    let dir = tempfile::tempdir_in(place()).unwrap();
    let mut files = vec![std::fs::read(golden("interchange.safetensors")).unwrap()];
    for model in models() {
        let path = dir.path().join("x.safetensors");
        hf::export(&path, &model, &ExportOptions::default()).unwrap();
        files.push(std::fs::read(path).unwrap());
    }
    let make = |random: &mut Random| {
        let mut bytes = files[random.below(files.len())].clone();
        let other = &files[random.below(files.len())];
        (0..1 + random.below(2)).for_each(|_| bend_safetensors(random, &mut bytes, other));
        bytes
    };
    check(&reader("safetensors"), make, |bytes| whole(hf::parse(Path::new("x"), bytes, None)));
}

#[test]
fn indices_of_shards() {
    ::hostile::alone!();
    let dir = tempfile::tempdir_in(place()).unwrap();
    let folder = dir.path().join("shards");
    let options = ExportOptions { max_shard: Some("4KB".parse().unwrap()), ..Default::default() };
    hf::export(&folder, &models()[0], &options).unwrap();
    let index = folder.join("model.safetensors.index.json");
    let good = std::fs::read(&index).unwrap();
    whole(hf::read(&index, None)).unwrap();
    let stored: u64 = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    let cost = Cost { times: 16, plus: (1 << 20) + 8 * stored as usize };
    let make = |random: &mut Random| {
        let mut bytes = good.clone();
        bend_text(random, &mut bytes, &good);
        bytes
    };
    check_file(&Reader { name: "shards", cost, named: "" }, &index, make, |path| whole(hf::read(path, None)));
}

#[test]
fn checkpoints() {
    ::hostile::alone!();
    let dir = tempfile::tempdir_in(place()).unwrap();
    let path = dir.path().join("checkpoint.safetensors");
    let files = models().map(|model| {
        let layout = model.network.layout();
        let moments = OptimiserState { step: 5, ..OptimiserState::new(AdamConfig::default(), layout.len()) };
        let about =
            [("network", network_to_json(&model.network)), ("step", "5".into()), ("window", "{}".into())];
        let about: BTreeMap<String, String> = about.map(|(key, value)| (key.into(), value)).into();
        save(&path, &layout, &model.params, Some(&moments), &about).unwrap();
        std::fs::read(&path).unwrap()
    });
    let make = |random: &mut Random| {
        let mut bytes = files[random.below(2)].clone();
        (0..1 + random.below(2)).for_each(|_| bend_safetensors(random, &mut bytes, &files[0]));
        bytes
    };
    let layout = Network::Gpt2(tiny_gpt2()).layout();
    let read = |path: &Path| {
        metadata(path).map_err(said)?;
        let plain = checkpoint::load(path, &layout).map_err(said).map(|found| {
            let moments =
                found.optimiser.map_or(layout.len(), |state| state.mean.len().min(state.square.len()));
            assert_eq!((found.params.len(), moments), (layout.len(), layout.len()));
        });
        whole(load_model(path)).and(plain)
    };
    let named = Reader { named: "checkpoint.safetensors", ..reader("checkpoint") };
    check_file(&named, &path, make, read);
}

#[test]
fn networks_as_json() {
    ::hostile::alone!();
    let good = models().map(|model| network_to_json(&model.network).into_bytes());
    let make = |random: &mut Random| {
        let mut bytes = good[random.below(2)].clone();
        (0..1 + random.below(2)).for_each(|_| bend_text(random, &mut bytes, &good[0]));
        bytes
    };
    check(&reader("network-json"), make, |bytes| {
        let network = network_from_json(&String::from_utf8_lossy(&bytes)).map_err(said)?;
        assert!(network.features() > 0 && network.layers() > 0 && network.width() > 0);
        Ok(())
    });
}
