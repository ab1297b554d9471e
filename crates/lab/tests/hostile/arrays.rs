//! Prompts, predictions, constructions and read-outs.

use std::io::{Cursor, Write};

use hostile::{
    Cost, Member, Npy, Random, Reader, bend_npz, bend_safetensors, bend_text, check_file, join, npz, split,
};
use zip::write::SimpleFileOptions;

use crate::{COST, folder, reader, said, tiny};
use lab::compare::recorded_weights::{self, RecordedWeights};
use lab::constructions::{Constructed, Recipe, Variant, build, file};
use lab::data::npz::read_prompts;
use lab::data::prompts::{Prompts, Task};
use lab::data::seed::Seed;
use lab::learners::Learner;
use lab::learners::recorded::Recorded;
use lab::networks::experiment::TaskSpec;
use lab::networks::{NetworkSpec, Weights};
use lab::patching::{Donor, RecordedPatches};
use lab::probe::Probed;
use lab::probe::saved::SavedReadOuts;
use lab::solvers;

/// What small bombs unpack to, beside what inputs are worth.
const BOMBS: Cost = Cost { times: 24, plus: 16 << 20 };

fn prompts() -> Prompts {
    Task::new("linear", "gaussian", 2, 3).unwrap().sample(Seed(0), "eval", 0, 2)
}

/// float64 as a file has them.
pub fn floats(values: impl IntoIterator<Item = f64>) -> Vec<u8> {
    values.into_iter().flat_map(f64::to_le_bytes).collect()
}

/// uint64 as a file has them.
pub fn whole(values: impl IntoIterator<Item = u64>) -> Vec<u8> {
    values.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// A member of so many bytes of zeros, a thousand times smaller.
pub fn bomb(name: &str, unpacked: usize) -> Member {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    zip.start_file(name, options).unwrap();
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({},), }}\n", unpacked / 8);
    let length = (header.len() as u16).to_le_bytes();
    zip.write_all(&[b"\x93NUMPY\x01\0", &length[..], header.as_bytes()].concat()).unwrap();
    zip.write_all(&vec![0; unpacked]).unwrap();
    let bytes = zip.finish().unwrap().into_inner();
    let field = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let start = 30 + usize::from(bytes[26]) + usize::from(bytes[28]);
    let stored = bytes[start..start + field(18) as usize].to_vec();
    Member { name: name.into(), stored, method: 8, unpacked: (field(22), field(14)) }
}

#[test]
fn files_of_prompts() {
    hostile::alone!();
    let prompts = prompts();
    let good = [
        Npy::new("xs", "<f8", "(2, 3, 2)", floats(prompts.xs.iter().copied())),
        Npy::new("ys", "<f8", "(2, 3)", floats(prompts.ys.iter().copied())),
        Npy::new("fingerprint", "<u8", "(2,)", whole(prompts.digest())),
    ];
    let bombs = [bomb("xs.npy", 1 << 20), bomb("fingerprint.npy", 2 << 20)];
    let dir = folder();
    let path = dir.path().join("prompts.npz");
    std::fs::write(&path, npz(&good)).unwrap();
    assert_eq!(read_prompts(&path).unwrap().digest(), prompts.digest());
    let read = |path: &std::path::Path| {
        let found = read_prompts(path).map_err(said)?;
        let (b, n, d) = found.xs.dim();
        assert!(found.ys.dim() == (b, n) && b * n * d > 0);
        assert!(found.xs.iter().chain(&found.ys).all(|v| v.is_finite()));
        Ok(())
    };
    let make = |random: &mut Random| {
        let count = 2 + random.below(2); // the digest is the last, and may be left out
        bend_npz(random, &good[..count], &bombs)
    };
    let reader = Reader { cost: BOMBS, ..reader("npz-prompts", "prompts.npz") };
    check_file(&reader, &path, make, read);
}

#[test]
fn files_of_predictions() {
    hostile::alone!();
    let prompts = prompts();
    let good = [
        Npy::new("steps", "<u8", "(3,)", whole([0, 1, 5])),
        Npy::new("values", "<f8", "(3, 2, 3)", floats((0..18).map(f64::from))),
        Npy::new("diverged", "<u8", "(3,)", whole([0, 0, 1])),
        Npy::new("fingerprint", "<u8", "(2,)", whole(prompts.digest())),
    ];
    let bombs = [bomb("values.npy", 1 << 20), bomb("diverged.npy", 2 << 20)];
    let dir = folder();
    let path = dir.path().join("mine.npz");
    let read = |path: &std::path::Path| {
        let found = Recorded::open(path).map_err(said)?;
        let steps = found.default_steps();
        let said = found.trajectory(&prompts, &steps).map_err(said)?;
        assert_eq!(said.values.dim(), (steps.len(), 2, 3));
        Ok(())
    };
    let make = |random: &mut Random| {
        let count = 2 + random.below(3);
        bend_npz(random, &good[..count], &bombs)
    };
    let reader = Reader { cost: BOMBS, ..reader("npz-predictions", "mine.npz") };
    check_file(&reader, &path, make, read);
}

/// Changes a safetensors file; half the time one of its entries of metadata, in words that are still read.
fn bend_entries(random: &mut Random, good: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    let (header, values) = split(good);
    let parsed: serde_json::Value = serde_json::from_slice(header).unwrap();
    if let Some(entries) = parsed["__metadata__"].as_object().filter(|_| random.once_in(2)) {
        let mut changed = parsed.clone();
        let names: Vec<&String> = entries.keys().collect();
        let name = names[random.below(names.len())];
        let mut text = entries[name].as_str().unwrap_or_default().as_bytes().to_vec();
        let other = text.clone();
        bend_text(random, &mut text, &other);
        changed["__metadata__"][name] = String::from_utf8_lossy(&text).into_owned().into();
        bytes = join(changed.to_string().as_bytes(), values);
    } else {
        bend_safetensors(random, &mut bytes, good);
    }
    bytes
}

#[test]
fn files_of_recorded_predictions() {
    hostile::alone!();
    let (dir, prompts) = (folder(), prompts());
    let path = dir.path().join("predictions.safetensors");
    Recorded::of(&*solvers::build("gd").unwrap(), &prompts).unwrap().write(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    let read = |path: &std::path::Path| {
        Recorded::is(path);
        let found = Recorded::read(path, "predictions").map_err(said)?;
        found.trajectory(&prompts, &found.default_steps()).map(drop).map_err(said)
    };
    check_file(&reader("predictions", "predictions"), &path, |random| bend_entries(random, &good), read);
}

#[test]
fn files_of_recorded_weights() {
    hostile::alone!();
    let dir = folder();
    let path = dir.path().join("induced.safetensors");
    let asked = recorded_weights::questions(&tiny().task.build().unwrap(), Seed(0), 3);
    let gd = solvers::build("gd").unwrap();
    RecordedWeights::of(&*gd, &asked).unwrap().write(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    let read = |path: &std::path::Path| {
        let kept = RecordedWeights::read(path).map_err(said)?;
        if let Some(found) = kept.find("gd", &asked, &gd.default_steps()) {
            assert_eq!(found.values.dim().0, 3);
        }
        Ok(())
    };
    check_file(&reader("induced-weights", "induced"), &path, |random| bend_entries(random, &good), read);
}

#[test]
fn files_of_recorded_patches() {
    hostile::alone!();
    let dir = folder();
    let path = dir.path().join("patched.safetensors");
    let task = TaskSpec { points: 11, ..tiny().task };
    let mut network = tiny().network;
    if let NetworkSpec::Gpt2 { positions, .. } = &mut network {
        *positions = 22;
    }
    let network = network.build(task.dim, task.points).unwrap();
    let params = network.layout().initial(&Seed(0));
    let weights = Weights::new(network, params);
    RecordedPatches::of(&weights, &task, &|_| ()).unwrap().write(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    let pair = Donor::Labels.pairs(&task.build().unwrap(), Seed(0), 3);
    let read = |path: &std::path::Path| {
        let found = RecordedPatches::read(path).map_err(said)?.find([&pair.0, &pair.1]);
        if let Some(found) = found {
            assert!(found.base.len() == 3 && found.patched.iter().flatten().all(|of| of.len() == 3));
        }
        Ok(())
    };
    let make = |random: &mut Random| {
        let mut bytes = good.clone();
        bend_safetensors(random, &mut bytes, &good);
        bytes
    };
    check_file(&reader("patches", "patched"), &path, make, read);
}

#[test]
fn files_of_constructions() {
    hostile::alone!();
    let (dir, prompts) = (folder(), prompts());
    let path = dir.path().join("w.safetensors");
    let files = [Variant::Gd, Variant::ALL[1], Variant::Paper].map(|variant| {
        let recipe = Recipe { variant, iterations: 2, dim: 2, pairs: 2, step: 0.1, label_bound: 8.0 };
        file::write(&path, &build(&recipe).unwrap(), "words").unwrap();
        std::fs::read(&path).unwrap()
    });
    let read = |path: &std::path::Path| {
        let found = file::read(path).map_err(said)?;
        let learner = Constructed::new("w.safetensors", found);
        learner.trajectory(&prompts, &learner.default_steps()).map(drop).map_err(said)
    };
    let make = |random: &mut Random| {
        let file = random.below(files.len());
        bend_entries(random, &files[file])
    };
    let cost = Cost { times: 64, ..COST };
    check_file(&Reader { cost, ..reader("construction", "w.safetensors") }, &path, make, read);
}

#[test]
fn files_of_read_outs() {
    hostile::alone!();
    let (dir, experiment) = (folder(), tiny());
    let path = dir.path().join("readouts.safetensors");
    let network = experiment.network.build(3, 6).unwrap();
    let params = network.layout().initial(&Seed(1));
    let task = experiment.task.build().unwrap();
    let probed = Probed::fit("tiny".into(), Weights::new(network, params), &task, Seed(0), 64).unwrap();
    let saved = SavedReadOuts {
        checkpoint: "0".repeat(16),
        task: experiment.task.clone(),
        seed: 0,
        fit: probed.fitted().unwrap().clone(),
        read_outs: probed.read_outs().to_vec(),
    };
    saved.write(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    let read = |path: &std::path::Path| {
        let found = SavedReadOuts::read(path).map_err(said)?;
        assert!(found.read_outs.iter().all(|one| one.affine().iter().all(|v| v.is_finite())));
        found.fits(probed.weights());
        Ok(())
    };
    check_file(&reader("read-outs", ""), &path, |random| bend_entries(random, &good), read);
}
