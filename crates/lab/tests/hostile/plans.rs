//! Experiments, changes to them, and sweeps.

use std::path::Path;

use hostile::{Cost, Random, Reader, check, check_file};

use crate::{COST, TINY, bent, folder, reader, said};
use lab::networks::experiment::{Change, Experiment};
use lab::networks::pace::Work;
use lab::networks::sweeps::Sweep;

/// An experiment that was accepted can be written, named, and asked what it would take.
fn usable(experiment: &Experiment) {
    let again = Experiment::parse(&experiment.to_toml(), Path::new("again.toml"));
    assert_eq!(again.unwrap(), *experiment);
    let training = &experiment.training;
    let kept = training.kept_steps();
    assert!(kept.iter().all(|step| *step <= training.steps));
    for step in [0, 1, training.steps / 2, training.steps] {
        let dims = training.dims.map_or(1, |ramp| ramp.at(step, training.steps));
        let points = training.points.map_or(1, |ramp| ramp.at(step, training.steps));
        assert!((1..=experiment.task.dim).contains(&dims) && (1..=experiment.task.points).contains(&points));
    }
    assert!(Work::of(experiment, "cuda bf16").after(0).is_finite());
}

fn texts() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let read = |name: &&str| std::fs::read(folder.join(name)).unwrap();
    ["miniature.toml", "r7.toml"].iter().map(read).chain([TINY.as_bytes().to_vec()]).collect()
}

/// Layouts of a thousand layers are worth a few megabytes.
const LAYERS: Cost = Cost { plus: 32 << 20, ..COST };

#[test]
fn experiments() {
    hostile::alone!();
    let (dir, texts) = (folder(), texts());
    let path = dir.path().join("mine.toml");
    let read = |path: &Path| {
        let experiment = Experiment::read(path).map_err(said)?;
        usable(&experiment);
        Ok(())
    };
    let reader = Reader { cost: LAYERS, ..reader("experiment", "mine.toml") };
    check_file(&reader, &path, |random| bent(random, &texts), read);
}

#[test]
fn changes() {
    hostile::alone!();
    let dir = folder();
    let path = dir.path().join("mine.toml");
    std::fs::write(&path, TINY).unwrap();
    let texts = [
        "training.rate=3e-4",
        "training.dims={start=1,end=3,over=0.5}",
        "network.heads=2",
        "task.inputs=skewed:kappa=10",
        "task.function=linear:noise=0.1",
    ];
    let texts = texts.map(|text| text.as_bytes().to_vec());
    let read = |bytes: Vec<u8>| {
        let change = String::from_utf8_lossy(&bytes).parse::<Change>().map_err(said)?;
        let experiment = Experiment::read_changed(&path, &[change]).map_err(said)?;
        usable(&experiment);
        Ok(())
    };
    check(&Reader { cost: LAYERS, ..reader("change", "") }, |random| bent(random, &texts), read);
}

#[test]
fn sweeps() {
    hostile::alone!();
    let dir = folder();
    std::fs::write(dir.path().join("base.toml"), TINY).unwrap();
    let text = "name = \"mine\"\nabout = \"what for\"\nbase = \"base.toml\"\n[set]\nname = \"point\"\ntask.dim = 3\n\
                training.steps = 50\n[axes]\nnetwork.width = [8, 32]\ntraining.seed = { from = 0, to = 2 }\n\
                training.rate = { from = 1e-4, to = 1e-3, times = 10 }\n[quality]\nexcess = 0.3\n[test]\n\
                inputs = [\"gaussian\", \"skewed:kappa=10\"]\n[slurm]\ntime = \"00:30:00\"\ncpus = 1\nthrottle = 2\n";
    let (path, stored) = (dir.path().join("sweep.toml"), dir.path().join("plan.toml"));
    std::fs::write(&path, text).unwrap();
    let good = Sweep::read(&path).unwrap().to_toml().into_bytes();
    let read = |path: &Path| {
        let sweep = Sweep::read(path).map_err(said)?;
        assert!(sweep.points.iter().all(|point| point.values.len() == sweep.fields.len()));
        sweep.points.iter().take(3).for_each(|point| drop((sweep.label(point), sweep.group(point))));
        sweep.dir(Path::new("runs"));
        Ok(())
    };
    // A plan of a few words may ask for thousands of points.
    let cost = Cost { plus: 256 << 20, ..COST };
    let texts = [text.as_bytes().to_vec()];
    let make = |random: &mut Random| bent(random, &texts);
    // A message may be about the base.
    check_file(&Reader { cost, ..reader("sweep", dir.path().to_str().unwrap()) }, &path, make, read);
    let read = |path: &Path| {
        let sweep = Sweep::stored(path).map_err(said)?;
        sweep.points.iter().for_each(|point| drop((sweep.label(point), sweep.group(point))));
        sweep.dir(Path::new("runs"));
        Ok(())
    };
    let texts = [good];
    check_file(&reader("stored-sweep", "plan.toml"), &stored, |random| bent(random, &texts), read);
}
