//! Training as a user meets it: runs that can be killed at any moment, resumed, and end with the same bits.

mod common;

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use common::{
    TINY, command, done, done_json, ended, entries, json, modified, only_run, read, refused_with, says,
    stopped_by, wait_for, with,
};

/// A directory with `tiny.toml`.
fn tiny(experiment: &str) -> TempDir {
    with(&[("tiny.toml", experiment)])
}

/// The same of so many steps.
fn tiny_of(steps: u64) -> TempDir {
    tiny(&of_steps(steps))
}

fn of_steps(steps: u64) -> String {
    TINY.replace("steps = 400", &format!("steps = {steps}"))
}

/// Everything of a run that must not depend on interruptions: weights, moments, and metrics but for the clock.
fn essence(run: &Path) -> (Vec<u8>, Vec<Value>, Vec<Vec<u8>>) {
    let checkpoint = std::fs::read(run.join("checkpoint.safetensors")).unwrap();
    let text = read(run.join("metrics.jsonl"));
    let rows = text.lines().map(|line| {
        let mut row = json(line);
        row.as_object_mut().unwrap().remove("seconds");
        row
    });
    let mut kept: Vec<_> = std::fs::read_dir(run.join("kept")).unwrap().map(|e| e.unwrap().path()).collect();
    kept.sort();
    (checkpoint, rows.collect(), kept.iter().map(|p| std::fs::read(p).unwrap()).collect())
}

#[test]
fn a_run_killed_at_random_moments_ends_with_the_same_bits() {
    let straight = tiny(TINY);
    done(straight.path(), "train tiny.toml");
    let expected = essence(&only_run(straight.path()));
    assert_eq!(expected.2.len(), 3);

    let killed = tiny(TINY);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut kills = 0;
    // Few writes, so that kills come between them; a write after every step, so that they come during one; by the clock.
    let commands = ["", " --checkpoint-every 1", " --checkpoint-every 0.003s"]
        .map(|more| format!("train tiny.toml{more}"));
    for attempt in 0..2000 {
        let mut child = command(killed.path(), &commands[attempt % commands.len()]).spawn().unwrap();
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
    assert!(essence(&only_run(killed.path())) == expected, "{kills} kills changed the run");
}

#[test]
fn checkpoints_are_taken_by_the_clock_unless_steps_are_asked_for() {
    let dir = tiny(&of_steps(1_000_000).replace("checkpoint_every = 11\n", ""));
    for every in ["0.05s", "3"] {
        let line = format!("train tiny.toml --checkpoint-every {every}");
        let mut child = command(dir.path(), &line).spawn().unwrap();
        wait_for("a checkpoint", || holds(dir.path(), "checkpoint.safetensors"));
        let first = modified(only_run(dir.path()).join("checkpoint.safetensors"));
        wait_for("another", || modified(only_run(dir.path()).join("checkpoint.safetensors")) != first);
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(only_run(dir.path()).join("checkpoint.safetensors")).unwrap();
    }
    refused_with(dir.path(), "train tiny.toml --checkpoint-every 3h", &["--checkpoint-every", "3h", "30s"]);
}

#[cfg(unix)]
#[test]
fn a_request_to_stop_saves_first() {
    let dir = tiny(&of_steps(1_000_000).replace("checkpoint_every = 11", "checkpoint_every = 1000000"));
    let child = command(dir.path(), "train tiny.toml").spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    stopped_by(child, "-INT");
    assert!(only_run(dir.path()).join("checkpoint.safetensors").exists());
}

#[test]
fn a_finished_run_is_not_trained_again_and_tells_its_result() {
    let dir = tiny_of(30);
    let first = done(dir.path(), "train tiny.toml --json");
    let run = only_run(dir.path());
    let before = modified(run.join("checkpoint.safetensors"));
    assert_eq!(first, done(dir.path(), "train tiny.toml --json"));
    assert_eq!(before, modified(run.join("checkpoint.safetensors")));
    let result = json(&first);
    assert_eq!(result["errors"].as_array().unwrap().len(), 6);
    assert!((result["bayes_floor"].as_f64().unwrap() - 1.0).abs() < 1e-12); // (3+2+1)/6
    assert!(entries(&run).iter().any(|name| name.starts_with("events.out.tfevents")));
}

#[test]
fn training_lowers_the_loss() {
    let plain = TINY.lines().filter(|line| !line.starts_with("dims =") && !line.starts_with("points = {"));
    let longer = plain
        .collect::<Vec<_>>()
        .join("\n")
        .replace("steps = 400", "steps = 1500")
        .replace("batch = 8", "batch = 64");
    let dir = tiny(&longer.replace("rate = 1e-3", "rate = 3e-3"));
    let loss = done_json(dir.path(), "train tiny.toml --json")["mean_loss"].as_f64().unwrap();
    assert!(loss < 2.6, "predicting zero costs 3, the trained network {loss}");
}

#[test]
fn seeds_and_steps_make_other_runs() {
    let dir = tiny_of(5);
    for more in ["", "--seed 1", "--steps 6"] {
        done(dir.path(), &format!("train tiny.toml {more}"));
    }
    assert_eq!(entries(&dir.path().join("runs")).len(), 3);
}

#[test]
fn fields_are_set_on_the_command_line_and_recorded() {
    let dir = tiny_of(5);
    done(dir.path(), "train tiny.toml --set training.rate=3e-4 --set training.optimiser=muon --device cpu");
    let plan = read(only_run(dir.path()).join("plan.toml"));
    says(&plan, &["rate = 0.0003", "optimiser = \"muon\"", "steps = 5"]);
    // the run is that of a file which says the same
    let same = of_steps(5).replace("rate = 1e-3", "rate = 3e-4\noptimiser = \"muon\"");
    std::fs::write(dir.path().join("same.toml"), same).unwrap();
    done(dir.path(), "train same.toml");
    assert_eq!(entries(&dir.path().join("runs")).len(), 1);
    refused_with(
        dir.path(),
        "train tiny.toml --set training.rat=1",
        &["training.rat=1", "did you mean rate"],
    );
    refused_with(dir.path(), "train tiny.toml --set rate", &["FIELD=VALUE"]);
}

#[test]
fn the_other_kind_of_file_is_named_with_its_command() {
    let plan = "name = \"s\"\nbase = \"tiny.toml\"\n[axes]\ntraining.seed = [0, 1]\n";
    let dir = with(&[("tiny.toml", TINY), ("plan.toml", plan)]);
    refused_with(
        dir.path(),
        "train plan.toml",
        &["plan.toml: this is a plan of a sweep", "iclab sweep plan.toml"],
    );
    refused_with(
        dir.path(),
        "sweep tiny.toml",
        &["tiny.toml: this is an experiment", "iclab train tiny.toml"],
    );
}

#[cfg(unix)]
#[test]
fn without_a_terminal_progress_is_plain_lines_and_json_is_undisturbed() {
    let dir = tiny_of(1_000_000_000_000);
    let mut train = command(dir.path(), "train tiny.toml --device cpu --json");
    let child = train.env("ICLAB_PROGRESS", "0.5").spawn().unwrap();
    std::thread::sleep(Duration::from_millis(7_000));
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("tiny seed 0: step ")).collect();
    assert!(lines.len() >= 3, "{said}");
    says(lines[0], &[" of 1,000,000,000,000", ", loss "]);
    assert!(!lines[0].contains("left"), "no time left before it is known: {}", lines[0]);
    says(lines[lines.len() - 1], &[" steps/s, about ", " days left"]);
    // what takes long is said once, before most of it
    assert_eq!(said.matches("note: this run takes about ").count(), 1, "{said}");
    assert_eq!(json(&String::from_utf8(output.stdout).unwrap())["unfinished"], true);
}

#[test]
fn bad_experiments_get_one_clear_sentence() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("rate = 1e-3", "rate = -1", &["training.rate", "-1", "above 0"]),
        ("rate = 1e-3", "rat = 1e-3", &["rat", "line"]),
        ("heads = 2", "heads = 3", &["network.heads", "3", "divisor"]),
        ("positions = 12", "positions = 8", &["network.positions", "8", "12 (two per point)"]),
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
        let dir = tiny(&TINY.replacen(from, to, 1));
        refused_with(dir.path(), "train tiny.toml", &[&["tiny.toml"], *words].concat());
        assert!(!dir.path().join("runs").exists());
    }
    refused_with(with(&[]).path(), "train absent.toml", &["absent.toml"]);
}

#[test]
fn a_loss_that_explodes_stops_the_run_and_keeps_the_last_checkpoint() {
    let wild = TINY
        .replace("rate = 1e-3", "rate = 1e18")
        .replace("clip = 1.0\n", "")
        .replace("warmup = 0.1", "warmup = 1.0");
    let dir = tiny(&wild.replace("checkpoint_every = 11", "checkpoint_every = 1"));
    refused_with(dir.path(), "train tiny.toml", &["step", "last checkpoint is untouched"]);
}

#[test]
fn damaged_checkpoints_are_named_and_left_alone() {
    let dir = tiny_of(1000000);
    let mut child = command(dir.path(), "train tiny.toml").spawn().unwrap();
    wait_for("a checkpoint", || holds(dir.path(), "checkpoint.safetensors"));
    child.kill().unwrap();
    child.wait().unwrap();
    let path = only_run(dir.path()).join("checkpoint.safetensors");
    let good = std::fs::read(&path).unwrap();
    let mut other = good.clone();
    other[20] ^= 0xff;
    for bad in [&good[..good.len() / 2], &good[..4], &b"hello"[..], &other[..]] {
        std::fs::write(&path, bad).unwrap();
        refused_with(dir.path(), "train tiny.toml", &["checkpoint.safetensors"]);
        assert_eq!(std::fs::read(&path).unwrap(), bad, "a damaged file is evidence");
    }
}

#[test]
fn an_unwritable_place_is_named() {
    let dir = tiny(TINY);
    std::fs::write(dir.path().join("occupied"), "x").unwrap();
    refused_with(dir.path(), "train tiny.toml --runs occupied", &["occupied"]);
}

/// Whether this machine has a CUDA device: then what is said about its absence is not.
fn has_cuda() -> bool {
    engine::cuda::Device::open(0).is_ok()
}

#[test]
fn the_device_is_said_and_its_absence_named() {
    let dir = tiny_of(5);
    let both = "train tiny.toml --device cpu --precision tf32";
    refused_with(dir.path(), both, &["--precision", "CUDA"]);
    let said = ended(dir.path(), "train tiny.toml --device cpu", 0).1;
    assert!(said.starts_with("training on the CPU (") && said.lines().count() == 1, "{said}");
    if has_cuda() {
        return;
    }
    for line in ["train tiny.toml --seed 1", "bench train --experiment small"] {
        let line = format!("{line} --device cuda");
        refused_with(dir.path(), &line, &["no CUDA device", "the CPU still works"]);
    }
    assert_eq!(entries(&dir.path().join("runs")).len(), 1, "nothing was begun");
    let said = ended(dir.path(), "train tiny.toml --seed 2", 0).1;
    assert!(said.starts_with("training on the CPU (") && said.lines().count() == 1, "{said}");
    says(&said, &["no CUDA device: "]);
}

#[test]
fn several_runs_in_one_command() {
    let short = of_steps(12);
    let dir = with(&[("tiny.toml", &short), ("other.toml", &short.replace("\"tiny\"", "\"other\""))]);
    let said = done(dir.path(), "train tiny.toml other.toml --seeds 2 --device cpu");
    assert_eq!(said.lines().count(), 4, "{said}");
    assert_eq!(entries(&dir.path().join("runs")).len(), 4);
    // The same bits as alone, one object for one run, an array for several.
    let one = done_json(tiny(&short).path(), "train tiny.toml --seed 1 --device cpu --json");
    let all = done_json(dir.path(), "train tiny.toml other.toml --seeds 2 --json");
    let all = all.as_array().unwrap();
    assert_eq!(all.iter().map(|run| run["seed"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 0, 1]);
    assert_eq!(all[1]["errors"], one["errors"]);
    says(all[3]["run"].as_str().unwrap(), &["other-"]);
    // None is asked for twice.
    refused_with(dir.path(), "train tiny.toml ./tiny.toml", &["same run"]);
}

#[test]
fn one_failing_run_does_not_lose_the_others() {
    let short = of_steps(12);
    let wild = short.replace("rate = 1e-3", "rate = 1e18").replace("clip = 1.0\n", "");
    let dir = with(&[("tiny.toml", &short), ("wild.toml", &wild.replace("\"tiny\"", "\"wild\""))]);
    let (out, said) = ended(dir.path(), "train tiny.toml wild.toml --seeds 2 --device cpu --json", 2);
    says(&said, &["2 of 4 runs failed", "wild-", "the loss is"]);
    let failed: Vec<bool> =
        json(&out).as_array().unwrap().iter().map(|run| run["error"].is_string()).collect();
    assert_eq!(failed, [false, false, true, true]);
}

#[cfg(unix)]
#[test]
fn a_request_to_stop_saves_what_is_begun_of_several() {
    let dir = tiny_of(1_000_000);
    let child = command(dir.path(), "train tiny.toml --seeds 2 --device cpu").spawn().unwrap();
    wait_for("a row of metrics", || holds(dir.path(), "metrics.jsonl"));
    says(&stopped_by(child, "-INT"), &["not begun; the same command goes on"]);
}

/// Whether the first run there is has a file with something in it.
fn holds(dir: &Path, file: &str) -> bool {
    let runs = std::fs::read_dir(dir.join("runs")).into_iter().flatten().flatten();
    runs.take(1).any(|run| std::fs::metadata(run.path().join(file)).is_ok_and(|m| m.len() > 0))
}

#[test]
fn runs_go_on_only_where_they_were_begun() {
    let dir = tiny_of(12);
    done(dir.path(), "train tiny.toml --device cpu");
    let run = only_run(dir.path());
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
    let words = ["checkpoint.safetensors", "begun on cuda tf32", "--device cuda --precision tf32"];
    refused_with(dir.path(), "train tiny.toml --device cpu", &words);
    let other = if has_cuda() { "train tiny.toml --device cuda" } else { "train tiny.toml" };
    refused_with(dir.path(), other, &["begun on cuda tf32"]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    // A checkpoint that does not say is the CPU's, and auto goes on there.
    fake(None);
    done(dir.path(), "train tiny.toml");
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
