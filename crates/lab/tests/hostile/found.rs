//! What hostile inputs have found, each once.

use std::path::Path;

use hostile::{Npy, archive, measured, npz};
use lab::constructions::{Recipe, Variant, build, file};
use lab::data::npz::read_prompts;
use lab::learners::recorded::Recorded;
use lab::networks::experiment::{Change, Experiment};
use lab::networks::models::{Card, FileRecord};

use crate::arrays::{bomb, floats, whole};
use crate::{TINY, folder};

fn tiny_with(from: &str, to: &str) -> Result<Experiment, String> {
    assert!(TINY.contains(from));
    Experiment::parse(&TINY.replace(from, to), Path::new("x.toml")).map_err(|error| error.to_string())
}

#[track_caller]
fn says(sentence: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(sentence.contains(word), "'{sentence}' lacks '{word}'"));
}

#[test]
fn a_small_file_is_no_reason_for_gigabytes() {
    hostile::alone!();
    let dir = folder();
    let path = dir.path().join("bomb.npz");
    std::fs::write(&path, archive(&[bomb("xs.npy", 80 << 20)], None)).unwrap();
    assert!(path.metadata().unwrap().len() < 200_000);
    let (read, used) = measured(|| read_prompts(&path));
    says(&read.unwrap_err().to_string(), &["bomb.npz", "'xs'", "64 MiB", "accepted"]);
    assert!(used < 1 << 20, "{used} bytes");
}

#[test]
fn brackets_in_a_header_do_not_take_for_ever() {
    let dir = folder();
    let path = dir.path().join("deep.npz");
    for open in ["[", "(", "{", "{'a': ", "[("] {
        let shape = format!("({}2, 3, 2)", open.repeat(500));
        std::fs::write(&path, npz(&[Npy::new("xs", "<f8", &shape, vec![0; 96])])).unwrap();
        says(&read_prompts(&path).unwrap_err().to_string(), &["deep.npz", "'xs'", "not in .npy format"]);
    }
}

#[test]
fn numbers_of_layers_do_not_overflow() {
    let dir = folder();
    let path = dir.path().join("w.safetensors");
    let recipe =
        Recipe { variant: Variant::Gd, iterations: 2, dim: 2, pairs: 2, step: 0.1, label_bound: 8.0 };
    file::write(&path, &build(&recipe).unwrap(), "words").unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let (header, values) = hostile::split(&bytes);
    let header =
        String::from_utf8_lossy(header).replace("\\\"before\\\":", "\\\"before\\\":18446744073709551615");
    // Whatever number stood there follows, which makes it too large: it goes.
    let header = header.replacen("184467440737095516150", "18446744073709551615", 1);
    let header = header.replacen("184467440737095516151", "18446744073709551615", 1);
    std::fs::write(&path, hostile::join(header.as_bytes(), values)).unwrap();
    says(&file::read(&path).unwrap_err().to_string(), &["w.safetensors", "before"]);
}

#[test]
fn ramps_do_not_overflow() {
    let experiment = tiny_with("by = 1, every = 60", "by = 9223372036854775807, every = 1").unwrap();
    let ramp = experiment.training.points.unwrap();
    assert_eq!([0, 1, 2, 400].map(|step| ramp.at(step, 400)), [2, 6, 6, 6]);
}

#[test]
fn experiments_that_no_machine_could_hold_are_refused() {
    let keep = tiny_with("keep = 3", "keep = 4000000000000").unwrap_err();
    says(&keep, &["x.toml", "training.keep", "4000000000000", "at most 100000"]);
    let positions = tiny_with("positions = 12", "positions = 9223372036854775807").unwrap_err();
    says(&positions, &["x.toml", "network.positions", "12 (two per point) to 1048576"]);
}

#[test]
fn cards_list_what_lies_beside_them() {
    let dir = folder();
    for name in ["/dev/zero", "../plan.toml", "a/../../b"] {
        let files = [(name.to_string(), FileRecord::of(b""))].into();
        let said = Card { files, ..Card::default() }.verify(dir.path()).unwrap_err().to_string();
        says(&said, &["card.toml", name, "accepted: files in its own folder"]);
    }
}

#[test]
fn paths_of_fields_have_an_end() {
    let deep = format!("{}a=1", "a.".repeat(100_000));
    assert!(deep.parse::<Change>().unwrap_err().contains("accepted: FIELD=VALUE"));
}

#[test]
fn a_count_that_is_no_number_excuses_nothing() {
    let dir = folder();
    let path = dir.path().join("mine.npz");
    let arrays = [
        Npy::new("steps", "<u8", "(1,)", whole([1])),
        Npy::new("values", "<f8", "(1, 1, 2)", floats([0.0, f64::INFINITY])),
        Npy::new("diverged", "<f8", "(1,)", floats([f64::NAN])),
    ];
    std::fs::write(&path, npz(&arrays)).unwrap();
    let said = Recorded::open(&path).err().expect("refused").to_string();
    says(&said, &["mine.npz", "inf at [0, 0, 1]", "accepted: finite numbers"]);
}
