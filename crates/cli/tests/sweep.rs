//! Sweeps on one machine, as a user meets them.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use common::{TINY, checkpoints, command, done, entries, iclab, refused};

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

fn with(plan: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("tiny.toml"), TINY).unwrap();
    std::fs::write(dir.path().join("plan.toml"), plan).unwrap();
    dir
}

fn status(dir: &Path) -> Vec<Value> {
    let text = done(dir, &["sweep", "status", "plan.toml", "--json"]);
    serde_json::from_str(&text).unwrap()
}

fn states(dir: &Path) -> Vec<String> {
    status(dir).iter().map(|row| row["state"].as_str().unwrap().to_string()).collect()
}

fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ready() {
        assert!(Instant::now() < deadline, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(30));
    }
}

#[test]
fn points_are_ordinary_runs_with_the_same_bits_however_they_are_trained() {
    let dir = with(PLAN);
    assert_eq!(states(dir.path()), ["not begun"; 4]);
    assert!(!dir.path().join("runs").exists(), "to look is not to write");
    let said = done(dir.path(), &["sweep", "plan.toml", "--jobs", "2"]);
    assert!(said.contains("4 points: 4 finished"), "{said}");
    let expected = checkpoints(&dir.path().join("runs"), "tiny-");
    assert_eq!(expected.len(), 4);
    // One at a time, and by `iclab train` from the points' own plans.
    done(dir.path(), &["sweep", "plan.toml", "--jobs", "1", "--runs", "one"]);
    assert!(checkpoints(&dir.path().join("one"), "tiny-") == expected);
    for name in expected.keys() {
        let plan = dir.path().join("runs").join(name).join("plan.toml");
        done(dir.path(), &["train", plan.to_str().unwrap(), "--runs", "trained"]);
    }
    assert!(checkpoints(&dir.path().join("trained"), "tiny-") == expected);
    // Finished points are not touched again, and a wider plan only trains what is new.
    let modified = |name: &str| {
        std::fs::metadata(dir.path().join("runs").join(name).join("checkpoint.safetensors"))
            .unwrap()
            .modified()
            .unwrap()
    };
    let before: Vec<_> = expected.keys().map(|name| modified(name)).collect();
    std::fs::write(dir.path().join("plan.toml"), PLAN.replace("to = 1", "to = 2")).unwrap();
    let said = done(dir.path(), &["sweep", "plan.toml"]);
    assert_eq!(said.lines().filter(|line| line.contains("60 steps")).count(), 2, "{said}");
    assert_eq!(before, expected.keys().map(|name| modified(name)).collect::<Vec<_>>());
    assert_eq!(checkpoints(&dir.path().join("runs"), "tiny-").len(), 6);
}

#[cfg(unix)]
#[test]
fn a_cancelled_sweep_and_a_killed_one_go_on_and_end_with_the_same_bits() {
    let plan = PLAN.replace("training.steps = 60", "training.steps = 400\ntraining.checkpoint_every = 50");
    let straight = with(&plan);
    done(straight.path(), &["sweep", "plan.toml"]);
    let dir = with(&plan);
    for kill in [false, true, false] {
        let mut child = command(dir.path(), &["sweep", "plan.toml", "--jobs", "2"]).spawn().unwrap();
        wait_for("a run in training", || states(dir.path()).contains(&"running".to_string()));
        // Nobody else may touch it meanwhile.
        let busy = refused(dir.path(), &["sweep", "plan.toml"]);
        assert!(busy.contains("being trained already (process "), "{busy}");
        std::thread::sleep(Duration::from_millis(150));
        if kill {
            child.kill().unwrap();
            child.wait().unwrap();
        } else if child.try_wait().unwrap().is_none() {
            let said = done(dir.path(), &["sweep", "cancel", "plan.toml"]);
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(
                said.contains("has saved its runs and stopped") || said.contains("nobody is training it"),
                "{said}"
            );
        }
        assert!(!states(dir.path()).contains(&"running".to_string()));
    }
    done(dir.path(), &["sweep", "plan.toml"]);
    assert_eq!(states(dir.path()), ["finished"; 4]);
    assert!(
        checkpoints(&dir.path().join("runs"), "tiny-") == checkpoints(&straight.path().join("runs"), "tiny-")
    );
    let said = done(dir.path(), &["sweep", "cancel", "plan.toml"]);
    assert!(said.contains("nobody is training it"), "{said}");
}

#[cfg(unix)]
#[test]
fn sigusr1_saves_like_any_request_to_stop() {
    let dir = with(PLAN);
    std::fs::write(dir.path().join("long.toml"), TINY.replace("steps = 400", "steps = 1000000")).unwrap();
    let child = command(dir.path(), &["train", "long.toml"]).spawn().unwrap();
    let run = || entries(&dir.path().join("runs")).pop().map(|name| dir.path().join("runs").join(name));
    wait_for("a checkpoint", || {
        dir.path().join("runs").is_dir()
            && run().is_some_and(|run| run.join("checkpoint.safetensors").exists())
    });
    // Two processes never train one run.
    let busy = refused(dir.path(), &["train", "long.toml"]);
    assert!(busy.contains("another process is training this run"), "{busy}");
    Command::new("kill").args(["-USR1", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("saved; the same command goes on"), "{said}");
    let log = std::fs::read_to_string(run().unwrap().join("log.txt")).unwrap();
    assert!(log.contains("step 0: taken up on cpu") && log.contains("saved and left, as asked"), "{log}");
    assert!(!log.contains("failed"), "the process that came second changed nothing: {log}");
}

#[test]
fn failed_points_are_told_with_their_logs_and_trained_again_on_request_only() {
    let wild = PLAN.replace("training.rate = [1e-3, 2e-3]", "training.rate = [1e-3, 1e18]");
    let dir = with(&wild);
    std::fs::write(dir.path().join("tiny.toml"), TINY.replace("clip = 1.0\n", "")).unwrap();
    let output = iclab(dir.path(), &["sweep", "plan.toml"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("2 of 4 points failed; the others are saved") && said.contains("the loss is"),
        "{said}"
    );
    assert!(said.contains("training.rate=1000000000000000000"), "{said}");
    assert_eq!(states(dir.path()), ["finished", "finished", "failed", "failed"]);
    let logs = |dir: &Path| -> usize {
        let runs =
            entries(&dir.join("runs")).into_iter().map(|name| dir.join("runs").join(name).join("log.txt"));
        runs.filter_map(|log| std::fs::read_to_string(log).ok())
            .map(|log| log.matches("taken up").count())
            .sum()
    };
    assert_eq!(logs(dir.path()), 4);
    let again = iclab(dir.path(), &["sweep", "plan.toml"]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(2), "{said}");
    assert!(said.contains("failed before, and --retry") && said.contains("failed: step"), "{said}");
    assert_eq!(logs(dir.path()), 4, "nothing was trained");
    let shown = done(dir.path(), &["sweep", "status", "plan.toml"]);
    assert!(shown.contains("the last lines of their logs") && shown.contains("failed: step"), "{shown}");
    assert_eq!(iclab(dir.path(), &["sweep", "plan.toml", "--retry"]).status.code(), Some(2));
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
        let dir = with(&PLAN.replacen(from, to, 1));
        for command in [&["sweep", "plan.toml"][..], &["sweep", "status", "plan.toml"]] {
            let sentence = refused(dir.path(), command);
            words
                .iter()
                .for_each(|word| assert!(sentence.contains(word), "{to}: '{sentence}' lacks '{word}'"));
            assert!(sentence.contains(".toml"), "{sentence}");
            assert!(!dir.path().join("runs").exists());
        }
    }
    let dir = with(PLAN);
    assert!(refused(dir.path(), &["sweep", "absent.toml"]).contains("absent.toml"));
    let sentence = refused(dir.path(), &["sweep", "collect", "plan.toml", "--out", "out"]);
    assert!(sentence.contains("no point is finished (4 points: 4 not begun)"), "{sentence}");
    assert!(!dir.path().join("out").exists());
}

#[test]
fn without_sbatch_nothing_is_begun() {
    let dir = with(PLAN);
    let output = command(dir.path(), &["sweep", "plan.toml", "--on", "slurm"])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("there is no sbatch on this machine") && said.contains("--on local"), "{said}");
    assert!(!dir.path().join("runs").exists());
    done(dir.path(), &["sweep", "plan.toml"]);
}

#[test]
fn a_place_that_cannot_be_written_is_named_and_the_rest_is_trained() {
    let dir = with(PLAN);
    std::fs::write(dir.path().join("occupied"), "x").unwrap();
    assert!(refused(dir.path(), &["sweep", "plan.toml", "--runs", "occupied"]).contains("occupied"));
    // A file where one run should be.
    let run = PathBuf::from(status(dir.path())[2]["run"].as_str().unwrap());
    std::fs::create_dir(dir.path().join("runs")).unwrap();
    std::fs::write(dir.path().join(&run), "x").unwrap();
    let output = iclab(dir.path(), &["sweep", "plan.toml"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("1 of 4 points failed") && said.contains("cannot create"), "{said}");
    std::fs::remove_file(dir.path().join(&run)).unwrap();
    done(dir.path(), &["sweep", "plan.toml"]);
    assert_eq!(states(dir.path()), ["finished"; 4]);
}

/// Needs the right to mount; where that is missing the test says so.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_and_the_sweep_goes_on_when_there_is_room() {
    let dir = with(PLAN);
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
    let output = iclab(dir.path(), &["sweep", "plan.toml", "--jobs", "1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let unfinished = states(dir.path()).iter().filter(|state| *state != "finished").count();
    assert!(mount("remount,size=20m"));
    let again = iclab(dir.path(), &["sweep", "plan.toml", "--retry"]);
    let after = states(dir.path());
    let bits = checkpoints(&runs, "tiny-");
    Command::new("umount").arg(&runs).status().unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("No space left on device") && !said.contains("panicked"), "{said}");
    assert!(unfinished > 0);
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(after, ["finished"; 4]);
    let straight = with(PLAN);
    done(straight.path(), &["sweep", "plan.toml"]);
    assert!(bits == checkpoints(&straight.path().join("runs"), "tiny-"));
}

#[test]
fn a_collection_has_every_run_its_means_and_a_figure_per_axis() {
    let dir = with(PLAN);
    done(dir.path(), &["sweep", "plan.toml"]);
    let said = done(dir.path(), &["sweep", "collect", "plan.toml", "--out", "out", "--prompts", "64"]);
    let out = dir.path().join("out");
    let csv = std::fs::read_to_string(out.join("points.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let results: Vec<f64> = status(dir.path())
        .iter()
        .map(|row| {
            let path = dir.path().join(row["run"].as_str().unwrap()).join("result.json");
            let result: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            result["mean_loss"].as_f64().unwrap()
        })
        .collect();
    let heads: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let column = heads.iter().position(|head| *head == "mean loss").unwrap();
    let listed: Vec<f64> =
        csv.lines().skip(1).map(|line| line.split(',').nth(column).unwrap().parse().unwrap()).collect();
    assert_eq!(listed, results);
    // Two seeds: mean ± 12.706 · half their distance.
    let means = std::fs::read_to_string(out.join("tables/sweep-means.csv")).unwrap();
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
        assert_eq!(
            std::fs::read_to_string(out.join(format!("tables/{table}.csv"))).unwrap().lines().count(),
            3
        );
    }
    let page = std::fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.contains("Two rates, two seeds.") && page.contains("4 of 4 points"));
    assert!(std::fs::metadata(out.join("points.npz")).unwrap().len() > 1000);
    // A collection of some of the runs says so, and replaces the older one.
    std::fs::write(dir.path().join("plan.toml"), PLAN.replace("to = 1", "to = 2")).unwrap();
    let output = iclab(dir.path(), &["sweep", "collect", "plan.toml", "--out", "out", "--prompts", "64"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("4 of 6 points are finished"));
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
