//! Sweeps on one machine, as a user meets them.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use common::{
    TINY, checkpoints, command, done, done_json, ended, entries, iclab, json, modified, only_run, read,
    refused_with, says, stopped_by, wait_for, with,
};

const PLAN: &str = r#"
name = "small"
about = "Two rates, two seeds."
base = "tiny.toml"
[set]
training.steps = 60
training.keep = 0
[axes]
training.rate = [1e-3, 2e-3]
training.seed = { from = 0, to = 1 }
[quality]
loss = 3.2
[test]
inputs = ["gaussian", "skewed:kappa=10"]
"#;

/// A directory with `tiny.toml` and this plan.
fn planned(plan: &str) -> TempDir {
    with(&[("tiny.toml", TINY), ("plan.toml", plan)])
}

fn status(dir: &Path) -> Vec<Value> {
    done_json(dir, "sweep status plan.toml --json").as_array().unwrap().clone()
}

fn states(dir: &Path) -> Vec<String> {
    status(dir).iter().map(|row| row["state"].as_str().unwrap().to_string()).collect()
}

#[test]
fn points_are_ordinary_runs_with_the_same_bits_however_they_are_trained() {
    let dir = planned(PLAN);
    assert_eq!(states(dir.path()), ["not begun"; 4]);
    assert!(!dir.path().join("runs").exists(), "to look is not to write");
    let said = done(dir.path(), "sweep plan.toml --jobs 2");
    says(&said, &["4 points: 4 finished"]);
    let expected = checkpoints(&dir.path().join("runs"), "tiny-");
    assert_eq!(expected.len(), 4);
    // One at a time, and by `iclab train` from the points' own plans.
    done(dir.path(), "sweep plan.toml --jobs 1 --runs one");
    assert!(checkpoints(&dir.path().join("one"), "tiny-") == expected);
    for name in expected.keys() {
        let plan = dir.path().join("runs").join(name).join("plan.toml");
        done(dir.path(), &["train", plan.to_str().unwrap(), "--runs", "trained"]);
    }
    assert!(checkpoints(&dir.path().join("trained"), "tiny-") == expected);
    // Finished points are not touched again, and a wider plan only trains what is new.
    let written = || -> Vec<_> {
        let file = |name: &String| dir.path().join("runs").join(name).join("checkpoint.safetensors");
        expected.keys().map(|name| modified(file(name))).collect()
    };
    let before = written();
    std::fs::write(dir.path().join("plan.toml"), PLAN.replace("to = 1", "to = 2")).unwrap();
    let said = done(dir.path(), "sweep plan.toml");
    assert_eq!(said.lines().filter(|line| line.contains("60 steps")).count(), 2, "{said}");
    assert_eq!(before, written());
    assert_eq!(checkpoints(&dir.path().join("runs"), "tiny-").len(), 6);
}

#[cfg(unix)]
#[test]
fn a_cancelled_sweep_and_a_killed_one_go_on_and_end_with_the_same_bits() {
    let plan = PLAN.replace("training.steps = 60", "training.steps = 3000\ntraining.checkpoint_every = 50");
    let straight = planned(&plan);
    done(straight.path(), "sweep plan.toml");
    let dir = planned(&plan);
    for kill in [false, true, false] {
        let mut child = command(dir.path(), "sweep plan.toml --jobs 2").spawn().unwrap();
        let mut over = false;
        wait_for("a run in training, or the end", || {
            over = child.try_wait().unwrap().is_some();
            over || states(dir.path()).contains(&"running".to_string())
        });
        if over {
            break; // faster than anybody could look
        }
        // Nobody else may touch it meanwhile.
        refused_with(dir.path(), "sweep plan.toml", &["being trained already (process "]);
        std::thread::sleep(Duration::from_millis(150));
        if kill {
            child.kill().unwrap();
            child.wait().unwrap();
        } else if child.try_wait().unwrap().is_none() {
            let said = done(dir.path(), "sweep cancel plan.toml");
            let output = child.wait_with_output().unwrap();
            let code = if said.contains("nobody is training it") { 0 } else { 130 };
            let complaints = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(code) || output.status.success(), "{complaints}");
            assert!(
                said.contains("has saved its runs and stopped") || said.contains("nobody is training it"),
                "{said}"
            );
        }
        assert!(!states(dir.path()).contains(&"running".to_string()));
    }
    done(dir.path(), "sweep plan.toml");
    assert_eq!(states(dir.path()), ["finished"; 4]);
    assert!(
        checkpoints(&dir.path().join("runs"), "tiny-") == checkpoints(&straight.path().join("runs"), "tiny-")
    );
    says(&done(dir.path(), "sweep cancel plan.toml"), &["nobody is training it"]);
}

#[cfg(unix)]
#[test]
fn sigusr1_saves_like_any_request_to_stop() {
    let dir = planned(PLAN);
    std::fs::write(dir.path().join("long.toml"), TINY.replace("steps = 400", "steps = 1000000")).unwrap();
    let child = command(dir.path(), "train long.toml").spawn().unwrap();
    let runs = dir.path().join("runs");
    wait_for("a checkpoint", || {
        let begun = runs.is_dir() && !entries(&runs).is_empty();
        begun && only_run(dir.path()).join("checkpoint.safetensors").exists()
    });
    // Two processes never train one run.
    refused_with(dir.path(), "train long.toml", &["another process is training this run"]);
    stopped_by(child, "-USR1");
    let log = read(only_run(dir.path()).join("log.txt"));
    says(&log, &["step 0: taken up on cpu", "saved and left, as asked"]);
    assert!(!log.contains("failed"), "the process that came second changed nothing: {log}");
}

#[test]
fn failed_points_are_told_with_their_logs_and_trained_again_on_request_only() {
    let wild = PLAN.replace("training.rate = [1e-3, 2e-3]", "training.rate = [1e-3, 1e18]");
    let dir = planned(&wild);
    std::fs::write(dir.path().join("tiny.toml"), TINY.replace("clip = 1.0\n", "")).unwrap();
    let said = ended(dir.path(), "sweep plan.toml", 2).1;
    says(
        &said,
        &["2 of 4 points failed; the others are saved", "the loss is", "training.rate=1000000000000000000"],
    );
    assert_eq!(states(dir.path()), ["finished", "finished", "failed", "failed"]);
    let logs = |dir: &Path| -> usize {
        let runs =
            entries(&dir.join("runs")).into_iter().map(|name| dir.join("runs").join(name).join("log.txt"));
        runs.filter_map(|log| std::fs::read_to_string(log).ok())
            .map(|log| log.matches("taken up").count())
            .sum()
    };
    assert_eq!(logs(dir.path()), 4);
    let said = ended(dir.path(), "sweep plan.toml", 2).1;
    says(&said, &["failed before, and --retry", "failed: step"]);
    assert_eq!(logs(dir.path()), 4, "nothing was trained");
    let shown = done(dir.path(), "sweep status plan.toml");
    says(&shown, &["the last lines of their logs", "failed: step"]);
    ended(dir.path(), "sweep plan.toml --retry", 2);
    assert_eq!(logs(dir.path()), 6, "those that failed, and no others");
}

#[test]
fn bad_plans_get_one_clear_sentence() {
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "training.rate = [1e-3, 2e-3]",
            "training.rat = [1e-3]",
            &["axis 'training.rat'", "unknown field `rat`"],
        ),
        ("training.rate = [1e-3, 2e-3]", "trainin.rate = [1e-3]", &["axis 'trainin.rate'", "unknown field"]),
        (
            "training.rate = [1e-3, 2e-3]",
            "training.rate = [\"fast\"]",
            &["axis 'training.rate'", "invalid type"],
        ),
        (
            "training.rate = [1e-3, 2e-3]",
            "training.rate = [1e-3, -1.0]",
            &["point training.rate=-1", "above 0"],
        ),
        (
            "training.rate = [1e-3, 2e-3]",
            "training.rate = [1e-3, 1e-3]",
            &["same plan", "training.rate=0.001"],
        ),
        (
            "training.rate = [1e-3, 2e-3]",
            "training.rate = 1",
            &["axis 'training.rate' is 1", "a list, or a range"],
        ),
        ("training.rate = [1e-3, 2e-3]", "\"training.seed\" = [5]", &["change the same field"]),
        ("to = 1", "to = 20000", &["more than 10000 points"]),
        ("to = 1", "too = 1", &["training.seed", "no 'too'"]),
        ("training.steps = 60", "training.steps = 0", &["training.steps", "at least 1"]),
        ("training.steps = 60", "network.widht = 3", &["unknown field `widht`"]),
        ("loss = 3.2", "loss = 3.2\nexcess = 1.0", &["quality", "either"]),
        ("\"skewed:kappa=10\"", "\"skewd\"", &["test.inputs", "did you mean skewed"]),
        ("name = \"small\"", "name = \"a/b\"", &["name", "letters"]),
        ("name = \"small\"", "nam = \"small\"", &["nam", "line 2"]),
        ("base = \"tiny.toml\"", "base = \"absent.toml\"", &["absent.toml"]),
        ("[test]", "[slurm]\npartitoin = \"x\"\n[test]", &["partitoin", "partition"]),
        ("[test]", "[slurm]\nthrottle = 0\n[test]", &["throttle"]),
    ];
    for (from, to, words) in cases {
        assert!(PLAN.contains(from), "{from}");
        let dir = planned(&PLAN.replacen(from, to, 1));
        for line in ["sweep plan.toml", "sweep status plan.toml"] {
            refused_with(dir.path(), line, &[&[".toml"], *words].concat());
            assert!(!dir.path().join("runs").exists());
        }
    }
    let dir = planned(PLAN);
    refused_with(dir.path(), "sweep absent.toml", &["absent.toml"]);
    let none = "no point is finished (4 points: 4 not begun)";
    refused_with(dir.path(), "sweep collect plan.toml --out out", &[none]);
    assert!(!dir.path().join("out").exists());
}

#[test]
fn without_sbatch_nothing_is_begun() {
    let dir = planned(PLAN);
    let output = command(dir.path(), "sweep plan.toml --on slurm").env("PATH", "/nowhere").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    says(&said, &["there is no sbatch on this machine", "--on local"]);
    assert!(!dir.path().join("runs").exists());
    done(dir.path(), "sweep plan.toml");
}

#[test]
fn a_place_that_cannot_be_written_is_named_and_the_rest_is_trained() {
    let dir = planned(PLAN);
    std::fs::write(dir.path().join("occupied"), "x").unwrap();
    refused_with(dir.path(), "sweep plan.toml --runs occupied", &["occupied"]);
    // A file where one run should be.
    let run = PathBuf::from(status(dir.path())[2]["run"].as_str().unwrap());
    std::fs::create_dir(dir.path().join("runs")).unwrap();
    std::fs::write(dir.path().join(&run), "x").unwrap();
    says(&ended(dir.path(), "sweep plan.toml", 2).1, &["1 of 4 points failed", "cannot create"]);
    std::fs::remove_file(dir.path().join(&run)).unwrap();
    done(dir.path(), "sweep plan.toml");
    assert_eq!(states(dir.path()), ["finished"; 4]);
}

/// Needs the right to mount; where that is missing the test says so.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_and_the_sweep_goes_on_when_there_is_room() {
    let dir = planned(PLAN);
    let runs = dir.path().join("runs");
    std::fs::create_dir(&runs).unwrap();
    let mount = |options: &str| {
        let mut command = Command::new("mount");
        let mounted = command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&runs).output();
        mounted.is_ok_and(|output| output.status.success())
    };
    if !mount("size=160k") {
        println!("skipped: a small file system cannot be mounted here");
        return;
    }
    let output = iclab(dir.path(), "sweep plan.toml --jobs 1");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let unfinished = states(dir.path()).iter().filter(|state| *state != "finished").count();
    assert!(mount("remount,size=20m"));
    let again = iclab(dir.path(), "sweep plan.toml --retry");
    let after = states(dir.path());
    let bits = checkpoints(&runs, "tiny-");
    Command::new("umount").arg(&runs).status().unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("No space left on device") && !said.contains("panicked"), "{said}");
    assert!(unfinished > 0);
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(after, ["finished"; 4]);
    let straight = planned(PLAN);
    done(straight.path(), "sweep plan.toml");
    assert!(bits == checkpoints(&straight.path().join("runs"), "tiny-"));
}

#[test]
fn a_collection_has_every_run_its_means_and_a_figure_per_axis() {
    let dir = planned(PLAN);
    done(dir.path(), "sweep plan.toml");
    let said = done(dir.path(), "sweep collect plan.toml --out out --prompts 64");
    let out = dir.path().join("out");
    let csv = read(out.join("points.csv"));
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let results: Vec<f64> = status(dir.path())
        .iter()
        .map(|row| {
            let path = dir.path().join(row["run"].as_str().unwrap()).join("result.json");
            json(&read(path))["mean_loss"].as_f64().unwrap()
        })
        .collect();
    let heads: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let column = heads.iter().position(|head| *head == "mean loss").unwrap();
    let listed: Vec<f64> =
        csv.lines().skip(1).map(|line| line.split(',').nth(column).unwrap().parse().unwrap()).collect();
    assert_eq!(listed, results);
    // Two seeds: mean ± 12.706 · half their distance.
    let means = read(out.join("tables/sweep-means.csv"));
    let mean = (results[0] + results[1]) / 2.0;
    let half = 12.706 * (results[0] - results[1]).abs() / 2.0;
    let expected = format!("{mean:.4} [{:.4}, {:.4}]", mean - half, mean + half);
    assert!(means.contains(&expected) && said.contains(&expected), "{expected}: {means}");
    for figure in [
        "axis-training-rate",
        "axis-training-seed",
        "sweep-errors",
        "sweep-matches",
        "sweep-quality",
        "sweep-crosswise",
    ] {
        for ending in ["svg", "png", "csv"] {
            assert!(out.join(format!("figures/{figure}.{ending}")).is_file(), "{figure}.{ending}");
        }
    }
    for table in ["sweep-slopes", "sweep-quality", "sweep-crosswise"] {
        assert_eq!(read(out.join(format!("tables/{table}.csv"))).lines().count(), 3);
    }
    let page = read(out.join("index.html"));
    says(&page, &["Two rates, two seeds.", "4 of 4 points"]);
    says(&page, &["All 4 runs are finished. Error/d after all pairs is from"]);
    assert!(std::fs::metadata(out.join("points.npz")).unwrap().len() > 1000);
    // A collection of some of the runs says so, and replaces the older one.
    std::fs::write(dir.path().join("plan.toml"), PLAN.replace("to = 1", "to = 2")).unwrap();
    let said = ended(dir.path(), "sweep collect plan.toml --out out --prompts 64", 0).1;
    says(&said, &["4 of 6 points are finished"]);
    says(&read(out.join("index.html")), &["4 of 6 runs are finished.", "only those are collected"]);
}

#[test]
fn every_shipped_sweep_is_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/sweeps");
    let mut counts = BTreeMap::new();
    for name in entries(&folder) {
        let sweep = lab::networks::sweeps::Sweep::read(&folder.join(&name)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(name, format!("{}.toml", sweep.name));
        counts.insert(name, sweep.points.len());
    }
    let expected = [("kappa.toml", 12), ("miniature.toml", 6), ("r1-seeds.toml", 5), ("widths.toml", 20)];
    assert_eq!(counts, expected.map(|(name, count)| (name.to_string(), count)).into());
}
