//! Training as a user meets it: runs that can be killed at any moment, resumed, and end with the same bits.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use common::{TINY, command, done, entries, iclab, refused};

fn with(experiment: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("tiny.toml"), experiment).unwrap();
    dir
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// The one run under `runs`.
fn run_dir(dir: &Path) -> PathBuf {
    let mut entries = std::fs::read_dir(dir.join("runs")).unwrap();
    let run = entries.next().unwrap().unwrap().path();
    assert!(entries.next().is_none());
    run
}

/// Everything of a run that must not depend on interruptions: weights, moments, and metrics but for the clock.
fn essence(run: &Path) -> (Vec<u8>, Vec<Value>, Vec<Vec<u8>>) {
    let checkpoint = std::fs::read(run.join("checkpoint.safetensors")).unwrap();
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let rows = text.lines().map(|line| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        row.as_object_mut().unwrap().remove("seconds");
        row
    });
    let mut kept: Vec<_> = std::fs::read_dir(run.join("kept")).unwrap().map(|e| e.unwrap().path()).collect();
    kept.sort();
    (checkpoint, rows.collect(), kept.iter().map(|p| std::fs::read(p).unwrap()).collect())
}

#[test]
fn a_run_killed_at_random_moments_ends_with_the_same_bits() {
    let straight = with(TINY);
    done(straight.path(), &["train", "tiny.toml"]);
    let expected = essence(&run_dir(straight.path()));
    assert_eq!(expected.2.len(), 3);

    let killed = with(TINY);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut kills = 0;
    for attempt in 0..2000 {
        let mut child = command(killed.path(), &["train", "tiny.toml"]).spawn().unwrap();
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // The first attempts die early; then one may live to the end.
        if attempt < 26 {
            std::thread::sleep(Duration::from_micros(4_000 + (state >> 33) % 60_000));
            if child.try_wait().unwrap().is_none() {
                child.kill().unwrap(); // SIGKILL
                kills += 1;
            }
        }
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("error"), "after {kills} kills: {stderr}");
        if output.status.success() {
            if kills >= 20 {
                break;
            }
            // finished too soon: take the last part back and let it be killed again
            std::fs::remove_dir_all(killed.path().join("runs")).unwrap();
        }
    }
    assert!(kills >= 20, "only {kills} kills");
    assert!(essence(&run_dir(killed.path())) == expected, "{kills} kills changed the run");
}

#[cfg(unix)]
#[test]
fn a_request_to_stop_saves_first() {
    let dir = with(
        &TINY
            .replace("steps = 400", "steps = 1000000")
            .replace("checkpoint_every = 11", "checkpoint_every = 1000000"),
    );
    let child = command(dir.path(), &["train", "tiny.toml"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("saved; the same command goes on"), "{said}");
    assert!(run_dir(dir.path()).join("checkpoint.safetensors").exists());
}

#[test]
fn a_finished_run_is_not_trained_again_and_tells_its_result() {
    let dir = with(&TINY.replace("steps = 400", "steps = 30"));
    let first = done(dir.path(), &["train", "tiny.toml", "--json"]);
    let before =
        std::fs::metadata(run_dir(dir.path()).join("checkpoint.safetensors")).unwrap().modified().unwrap();
    assert_eq!(first, done(dir.path(), &["train", "tiny.toml", "--json"]));
    assert_eq!(
        before,
        std::fs::metadata(run_dir(dir.path()).join("checkpoint.safetensors")).unwrap().modified().unwrap()
    );
    let result: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(result["errors"].as_array().unwrap().len(), 6);
    assert!((result["bayes_floor"].as_f64().unwrap() - 1.0).abs() < 1e-12); // (3+2+1)/6
    assert!(
        run_dir(dir.path())
            .read_dir()
            .unwrap()
            .any(|e| { e.unwrap().file_name().to_string_lossy().starts_with("events.out.tfevents") })
    );
}

#[test]
fn training_lowers_the_loss() {
    let plain = TINY.lines().filter(|line| !line.starts_with("dims =") && !line.starts_with("points = {"));
    let longer = plain
        .collect::<Vec<_>>()
        .join("\n")
        .replace("steps = 400", "steps = 1500")
        .replace("batch = 8", "batch = 64");
    let dir = with(&longer.replace("rate = 1e-3", "rate = 3e-3"));
    let result: Value = serde_json::from_str(&done(dir.path(), &["train", "tiny.toml", "--json"])).unwrap();
    let loss = result["mean_loss"].as_f64().unwrap();
    assert!(loss < 2.6, "predicting zero costs 3, the trained network {loss}");
}

#[test]
fn seeds_and_steps_make_other_runs() {
    let dir = with(&TINY.replace("steps = 400", "steps = 5"));
    done(dir.path(), &["train", "tiny.toml"]);
    done(dir.path(), &["train", "tiny.toml", "--seed", "1"]);
    done(dir.path(), &["train", "tiny.toml", "--steps", "6"]);
    assert_eq!(std::fs::read_dir(dir.path().join("runs")).unwrap().count(), 3);
}

#[test]
fn bad_experiments_get_one_clear_sentence() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("rate = 1e-3", "rate = -1", &["training.rate", "-1", "above 0"]),
        ("rate = 1e-3", "rat = 1e-3", &["rat", "line"]),
        ("heads = 2", "heads = 3", &["network.heads", "3", "divisor"]),
        ("positions = 12", "positions = 8", &["network.positions", "8", "at least 12"]),
        ("kind = \"gpt2\"", "kind = \"gpt3\"", &["gpt3"]),
        ("function = \"linear\"", "function = \"lineer\"", &["did you mean linear"]),
        ("steps = 400", "steps = 0", &["training.steps"]),
        ("batch = 8", "batch = 0", &["training.batch"]),
        ("end = 3, over", "end = 4, over", &["training.dims", "up to the task's 3"]),
        ("over = 0.5", "over = 0.5, by = 1, every = 2", &["training.dims", "either"]),
        ("log_every = 7", "log_every = 0", &["training.log_every"]),
        ("name = \"tiny\"", "name = \"../tiny\"", &["name", "letters"]),
        ("[task]", "[tsk]", &["tsk"]),
    ];
    for (from, to, words) in cases {
        assert!(TINY.contains(from));
        let dir = with(&TINY.replacen(from, to, 1));
        let sentence = refused(dir.path(), &["train", "tiny.toml"]);
        assert!(sentence.contains("tiny.toml"), "{sentence}");
        words.iter().for_each(|word| assert!(sentence.contains(word), "{to}: '{sentence}' lacks '{word}'"));
        assert!(!dir.path().join("runs").exists());
    }
    let dir = TempDir::new().unwrap();
    assert!(refused(dir.path(), &["train", "absent.toml"]).contains("absent.toml"));
}

#[test]
fn a_loss_that_explodes_stops_the_run_and_keeps_the_last_checkpoint() {
    let wild = TINY
        .replace("rate = 1e-3", "rate = 1e18")
        .replace("clip = 1.0\n", "")
        .replace("warmup = 0.1", "warmup = 1.0");
    let dir = with(&wild.replace("checkpoint_every = 11", "checkpoint_every = 1"));
    let sentence = refused(dir.path(), &["train", "tiny.toml"]);
    assert!(sentence.contains("step") && sentence.contains("last checkpoint is untouched"), "{sentence}");
}

#[test]
fn damaged_checkpoints_are_named_and_left_alone() {
    let dir = with(&TINY.replace("steps = 400", "steps = 1000000"));
    let child = command(dir.path(), &["train", "tiny.toml"]).spawn().unwrap();
    let mut child = child;
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let runs = dir.path().join("runs");
        if runs.exists() && run_dir(dir.path()).join("checkpoint.safetensors").exists() {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "no checkpoint in a minute");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let path = run_dir(dir.path()).join("checkpoint.safetensors");
    let good = std::fs::read(&path).unwrap();
    let mut other = good.clone();
    other[20] ^= 0xff;
    for bad in [&good[..good.len() / 2], &good[..4], &b"hello"[..], &other[..]] {
        std::fs::write(&path, bad).unwrap();
        let sentence = refused(dir.path(), &["train", "tiny.toml"]);
        assert!(sentence.contains("checkpoint.safetensors"), "{sentence}");
        assert_eq!(std::fs::read(&path).unwrap(), bad, "a damaged file is evidence");
    }
}

#[test]
fn an_unwritable_place_is_named() {
    let dir = with(TINY);
    std::fs::write(dir.path().join("occupied"), "x").unwrap();
    let sentence = refused(dir.path(), &["train", "tiny.toml", "--runs", "occupied"]);
    assert!(sentence.contains("occupied"), "{sentence}");
}

/// Whether this machine has a CUDA device: then what is said about its absence is not.
fn has_cuda() -> bool {
    engine::cuda::Device::open(0).is_ok()
}

#[test]
fn the_device_is_said_and_its_absence_named() {
    let dir = with(&TINY.replace("steps = 400", "steps = 5"));
    let sentence = refused(dir.path(), &["train", "tiny.toml", "--device", "cpu", "--precision", "tf32"]);
    assert!(sentence.contains("--precision") && sentence.contains("CUDA"), "{sentence}");
    let output = iclab(dir.path(), &["train", "tiny.toml", "--device", "cpu"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("training on the CPU (") && said.lines().count() == 1, "{said}");
    if has_cuda() {
        return;
    }
    for command in [&["train", "tiny.toml", "--seed", "1"][..], &["bench", "train", "--experiment", "small"]]
    {
        let sentence = refused(dir.path(), &[command, &["--device", "cuda"]].concat());
        assert!(
            sentence.contains("no CUDA device") && sentence.contains("the CPU still works"),
            "{sentence}"
        );
    }
    assert_eq!(std::fs::read_dir(dir.path().join("runs")).unwrap().count(), 1, "nothing was begun");
    let output = iclab(dir.path(), &["train", "tiny.toml", "--seed", "2"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.starts_with("training on the CPU ("), "{said}");
    assert!(said.contains("no CUDA device: ") && said.lines().count() == 1, "{said}");
}

#[test]
fn several_runs_in_one_command() {
    let short = TINY.replace("steps = 400", "steps = 12");
    let dir = with(&short);
    std::fs::write(dir.path().join("other.toml"), short.replace("name = \"tiny\"", "name = \"other\""))
        .unwrap();
    let said = done(dir.path(), &["train", "tiny.toml", "other.toml", "--seeds", "2", "--device", "cpu"]);
    assert_eq!(said.lines().count(), 4, "{said}");
    assert_eq!(entries(&dir.path().join("runs")).len(), 4);
    // The same bits as alone, one object for one run, an array for several.
    let alone = with(&short);
    let one: Value =
        json(&done(alone.path(), &["train", "tiny.toml", "--seed", "1", "--device", "cpu", "--json"]));
    let all: Value = json(&done(dir.path(), &["train", "tiny.toml", "other.toml", "--seeds", "2", "--json"]));
    let all = all.as_array().unwrap();
    assert_eq!(all.iter().map(|run| run["seed"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 0, 1]);
    assert_eq!(all[1]["errors"], one["errors"]);
    assert!(all[3]["run"].as_str().unwrap().contains("other-"));
    // None is asked for twice.
    let sentence = refused(dir.path(), &["train", "tiny.toml", "./tiny.toml"]);
    assert!(sentence.contains("same run"), "{sentence}");
}

#[test]
fn one_failing_run_does_not_lose_the_others() {
    let short = TINY.replace("steps = 400", "steps = 12");
    let dir = with(&short);
    let wild = short.replace("rate = 1e-3", "rate = 1e18").replace("clip = 1.0\n", "");
    std::fs::write(dir.path().join("wild.toml"), wild.replace("name = \"tiny\"", "name = \"wild\"")).unwrap();
    let args = ["train", "tiny.toml", "wild.toml", "--seeds", "2", "--device", "cpu", "--json"];
    let output = iclab(dir.path(), &args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("2 of 4 runs failed") && said.contains("wild-") && said.contains("the loss is"),
        "{said}"
    );
    let all = json(&String::from_utf8(output.stdout).unwrap());
    let failed: Vec<bool> = all.as_array().unwrap().iter().map(|run| run["error"].is_string()).collect();
    assert_eq!(failed, [false, false, true, true]);
}

#[cfg(unix)]
#[test]
fn a_request_to_stop_saves_what_is_begun_of_several() {
    let dir = with(&TINY.replace("steps = 400", "steps = 1000000"));
    let child =
        command(dir.path(), &["train", "tiny.toml", "--seeds", "2", "--device", "cpu"]).spawn().unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !dir.path().join("runs").exists() || read_any_metrics(dir.path()).is_empty() {
        assert!(std::time::Instant::now() < deadline, "no row of metrics in a minute");
        std::thread::sleep(Duration::from_millis(50));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("saved; the same command goes on"), "{said}");
    assert!(said.contains("not begun; the same command goes on"), "{said}");
}

/// The metrics of the first run there is.
fn read_any_metrics(dir: &Path) -> String {
    let run = std::fs::read_dir(dir.join("runs")).unwrap().next();
    run.and_then(|run| std::fs::read_to_string(run.unwrap().path().join("metrics.jsonl")).ok())
        .unwrap_or_default()
}

#[test]
fn runs_go_on_only_where_they_were_begun() {
    let dir = with(&TINY.replace("steps = 400", "steps = 12"));
    done(dir.path(), &["train", "tiny.toml", "--device", "cpu"]);
    let run = run_dir(dir.path());
    std::fs::remove_file(run.join("result.json")).unwrap(); // as if it were interrupted at the end
    let path = run.join("checkpoint.safetensors");
    let experiment = lab::networks::experiment::Experiment::read(&dir.path().join("tiny.toml")).unwrap();
    let layout = experiment.network.build(3, 6).unwrap().layout();
    let saved = engine::model::checkpoint::load(&path, &layout).unwrap();
    assert_eq!(saved.metadata["device"], "cpu");
    let fake = |device: Option<&str>| {
        let mut metadata = saved.metadata.clone();
        metadata.remove("device");
        metadata.extend(device.map(|name| ("device".into(), name.into())));
        engine::model::checkpoint::save(&path, &layout, &saved.params, saved.optimiser.as_ref(), &metadata)
            .unwrap();
    };
    fake(Some("cuda tf32"));
    let before = std::fs::read(&path).unwrap();
    let sentence = refused(dir.path(), &["train", "tiny.toml", "--device", "cpu"]);
    for word in ["checkpoint.safetensors", "begun on cuda tf32", "--device cuda --precision tf32"] {
        assert!(sentence.contains(word), "'{sentence}' lacks '{word}'");
    }
    if has_cuda() {
        let sentence = refused(dir.path(), &["train", "tiny.toml", "--device", "cuda"]);
        assert!(sentence.contains("begun on cuda tf32"), "{sentence}");
    } else {
        let sentence = refused(dir.path(), &["train", "tiny.toml"]);
        assert!(sentence.contains("begun on cuda tf32"), "{sentence}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
    // A checkpoint that does not say is the CPU's, and auto goes on there.
    fake(None);
    done(dir.path(), &["train", "tiny.toml"]);
}

#[test]
fn every_shipped_experiment_is_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            let experiment =
                lab::networks::experiment::Experiment::read(&path).unwrap_or_else(|e| panic!("{e}"));
            // other seeds of a network are the same experiment
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let seed = experiment.training.seed;
            let named = stem.replace(&format!("-seed{seed}"), "");
            assert_eq!(named, experiment.name, "{stem}");
            count += 1;
        }
    }
    assert!(count >= 19, "{count}");
}
