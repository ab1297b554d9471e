//! `iclab reproduce` from run to run: what is kept, what is measured again, and what is trained first.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::{
    command, complaints, done, done_json, ended, entries, hardly_trained, iclab, json, modified, only_run,
    read, refused_with, says, wait_for, with,
};
use serde_json::Value;

/// Runs `iclab reproduce` on few prompts, whose claims need not hold; returns what it printed.
fn reproduce(at: &Path, line: &str) -> String {
    let output = iclab(at, &format!("reproduce {line}"));
    let said = complaints(&output);
    assert!(output.status.success(), "iclab reproduce {line}: {said}");
    assert!(said.lines().all(|line| line.is_empty() || line.starts_with("note: ")), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

fn ledger(report: &Path) -> Value {
    json(&read(report.join("ledger.json")))
}

/// The claims of every analysis.
fn claims(report: &Path) -> Vec<Value> {
    ledger(report)["analyses"].as_array().unwrap().iter().map(|g| g["claims"].clone()).collect()
}

/// Which analyses came from the cache.
fn kept(report: &Path) -> BTreeMap<String, bool> {
    let pair = |g: &Value| (g["analysis"].as_str().unwrap().into(), g["from_cache"].as_bool().unwrap());
    ledger(report)["analyses"].as_array().unwrap().iter().map(pair).collect()
}

fn expect(report: &Path, wanted: &[(&str, bool)]) {
    let wanted: BTreeMap<String, bool> = wanted.iter().map(|(id, kept)| (id.to_string(), *kept)).collect();
    assert_eq!(kept(report), wanted);
}

/// All files of a cache, by analysis.
fn cached(at: &Path) -> BTreeMap<String, PathBuf> {
    let builds = fs::read_dir(at.join(".iclab/cache")).into_iter().flatten().flatten();
    let files = builds.flat_map(|build| fs::read_dir(build.path()).unwrap().flatten());
    let id =
        |path: &Path| path.file_stem().unwrap().to_string_lossy().rsplit_once('-').unwrap().0.to_string();
    let files = files.map(|f| f.path()).filter(|path| path.extension().is_some_and(|e| e == "json"));
    files.map(|path| (id(&path), path)).collect()
}

/// Trains one and puts it into the folder of that name.
fn train(at: &Path, seed: u64, folder: &str) {
    fs::write(at.join("t.toml"), hardly_trained("tiny", 20, 41, seed)).unwrap();
    done(at, "train t.toml");
    if at.join(folder).exists() {
        fs::remove_dir_all(at.join(folder)).unwrap();
    }
    fs::rename(only_run(at), at.join(folder)).unwrap();
}

#[test]
fn what_was_found_is_kept_until_an_input_changes() {
    let dir = with(&[]);
    let at = dir.path();
    let line = "--only E2,E3,F26 --prompts 32 --out r";
    reproduce(at, line);
    expect(&at.join("r"), &[("E2", false), ("E3", false), ("F26", false)]);
    let files = |report: &Path| -> BTreeMap<String, Vec<u8>> {
        let folder = report.join("figures");
        entries(&folder).into_iter().map(|f| (f.clone(), fs::read(folder.join(f)).unwrap())).collect()
    };
    let (drawn, said) = (files(&at.join("r")), claims(&at.join("r")));
    let printed = reproduce(at, line);
    says(&printed, &["3 of 3 analyses kept"]);
    expect(&at.join("r"), &[("E2", true), ("E3", true), ("F26", true)]);
    assert!(files(&at.join("r")) == drawn && claims(&at.join("r")) == said, "as it was, to the byte");
    // one more question costs only itself
    reproduce(at, "--only E2,E6,F26 --prompts 32 --out r");
    expect(&at.join("r"), &[("E2", true), ("E6", false), ("F26", true)]);
    for changed in ["--prompts 33", "--prompts 32 --seed 1", "--prompts 32 --fresh", "--prompts 32 --cache c"]
    {
        reproduce(at, &format!("--only E2,E3 {changed} --out r"));
        expect(&at.join("r"), &[("E2", false), ("E3", false)]);
    }
    assert!(at.join("c").is_dir());
    let rerun = &ledger(&at.join("r"))["analyses"][0]["rerun"];
    assert_eq!(rerun, "iclab reproduce --only E2 --prompts 32");
}

#[test]
fn a_changed_network_costs_what_rests_on_it() {
    let dir = with(&[]);
    let at = dir.path();
    train(at, 1, "net");
    let line = "--only E2,Q6,F27 --model r1=net --prompts 16 --out r";
    reproduce(at, line);
    reproduce(at, line);
    // the first of them fitted read-outs and saved them, which is no change
    expect(&at.join("r"), &[("E2", true), ("F27", true), ("Q6", true)]);
    let before = ledger(&at.join("r"))["analyses"].clone();
    train(at, 2, "net");
    reproduce(at, line);
    expect(&at.join("r"), &[("E2", true), ("F27", false), ("Q6", false)]);
    assert_ne!(ledger(&at.join("r"))["analyses"][2]["claims"], before[2]["claims"]);
    // the former network is remembered, too
    train(at, 1, "net");
    reproduce(at, line);
    reproduce(at, line);
    expect(&at.join("r"), &[("E2", true), ("F27", true), ("Q6", true)]);
}

#[test]
fn damaged_findings_are_measured_again() {
    let dir = with(&[]);
    let at = dir.path();
    let line = "--only E2,E3 --prompts 16 --out r";
    reproduce(at, line);
    let files = cached(at);
    let (path, other) = (&files["E3"], &files["E2"]);
    let whole = fs::read(path).unwrap();
    let mut flipped = whole.clone();
    let middle = whole.len() / 2;
    flipped[middle] = if flipped[middle] == b'1' { b'2' } else { b'1' };
    let foreign = fs::read(other).unwrap();
    let cases = [&whole[..whole.len() / 2], &flipped, b"", b"{}\n{}", b"\xff\xfe\n", &foreign];
    for (i, damaged) in cases.into_iter().enumerate() {
        fs::write(path, damaged).unwrap();
        reproduce(at, line);
        assert!(kept(&at.join("r"))["E2"] && !kept(&at.join("r"))["E3"], "case {i}");
    }
    reproduce(at, line);
    expect(&at.join("r"), &[("E2", true), ("E3", true)]); // it is whole again
    // a cache that cannot be written costs time and nothing else
    reproduce(at, "--only E2 --prompts 16 --out r --cache r/plan.toml");
}

#[test]
fn killed_and_started_again_it_goes_on() {
    let dir = with(&[]);
    let at = dir.path();
    let line = "--only E2,E3,TH2,TH5,F26,E1,E4,F2 --prompts 128 --out";
    let mut child = command(at, &format!("reproduce {line} r")).spawn().unwrap();
    wait_for("something kept", || !cached(at).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    let by_then = cached(at).len();
    reproduce(at, &format!("{line} r"));
    let again = kept(&at.join("r"));
    assert_eq!((again.len(), again.values().filter(|kept| **kept).count()), (8, by_then));
    // and ends where an uninterrupted one ends
    let together = claims(&at.join("r"));
    reproduce(at, &format!("{line} whole --fresh"));
    assert_eq!(claims(&at.join("whole")), together);
}

#[test]
fn two_reproductions_into_one_folder_are_refused_and_users_files_stay() {
    let dir = with(&[]);
    let at = dir.path();
    let line = "reproduce --only E2,E3,TH2,TH5,F26,E1,E4,F2 --prompts 256 --out r";
    let mut child = command(at, line).spawn().unwrap();
    wait_for("the lock", || at.join("r/.iclab-lock").exists());
    let holder = format!("is being written by process {}", child.id());
    refused_with(at, "reproduce --only E3 --prompts 16 --out r", &["r: ", &holder]);
    refused_with(at, "compare newton gd --prompts 16 --out r", &["r: ", &holder]);
    child.kill().unwrap();
    child.wait().unwrap();
    // killed, it holds nothing
    reproduce(at, "--only E3 --prompts 16 --out r");
    fs::write(at.join("r/figures/mine.svg"), "mine").unwrap();
    fs::create_dir(at.join("r/notes")).unwrap();
    let before = entries(&at.join("r/figures"));
    reproduce(at, "--only E2 --prompts 16 --out r");
    let after = entries(&at.join("r/figures"));
    assert!(after.contains(&"mine.svg".to_string()) && after != before, "{before:?} {after:?}");
    assert!(after.iter().all(|name| name == "mine.svg" || name.starts_with("e2-")), "{after:?}");
    assert!(at.join("r/notes").is_dir() && !at.join("r/.iclab-lock").exists());
}

#[cfg(unix)]
#[test]
fn interrupted_it_says_how_to_go_on_and_leaves_no_traces() {
    let dir = with(&[]);
    let line = "reproduce --only E2,E3,TH2,TH5,F26,E1,E4,F2 --prompts 256 --out r";
    let child = command(dir.path(), line).spawn().unwrap();
    wait_for("something kept", || !cached(dir.path()).is_empty());
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.starts_with("unfinished: ") && said.contains("the same command goes on"), "{said}");
    // a report of what was found by then, or nothing of one
    let report = dir.path().join("r");
    assert_eq!(report.exists(), report.join("index.html").is_file());
    assert!(!report.join(".iclab-lock").exists() && !report.join(".iclab-new").exists());
}

#[test]
fn quick_trains_a_miniature_once_and_asks_nothing_larger() {
    let dir = with(&[]);
    let at = dir.path();
    fs::create_dir(at.join("experiments")).unwrap();
    let absent = "reproduce --quick --only M1 --experiments absent";
    refused_with(at, absent, &["absent/miniature.toml", "--experiments"]);
    fs::write(at.join("experiments/miniature.toml"), hardly_trained("miniature", 5, 16, 0)).unwrap();
    refused_with(at, "reproduce --quick --only F3", &["F3", "miniature"]);
    reproduce(at, "--quick --only M1,E2 --prompts 16 --device cpu --out r");
    let runs = entries(&at.join("runs"));
    assert_eq!(runs.len(), 1);
    expect(&at.join("r"), &[("E2", false), ("M1", false)]);
    reproduce(at, "--quick --only M1,E2 --prompts 16 --out r");
    expect(&at.join("r"), &[("E2", true), ("M1", true)]);
    // the command that is given to run it again does
    let rerun = ledger(&at.join("r"))["analyses"][1]["rerun"].as_str().unwrap().to_string();
    reproduce(at, &format!("{} --out again", rerun.strip_prefix("iclab reproduce ").unwrap()));
    expect(&at.join("again"), &[("M1", true)]);
}

#[test]
fn from_scratch_trains_what_is_asked_and_leaves_models_alone() {
    let dir = with(&[]);
    let at = dir.path();
    fs::create_dir_all(at.join("models/r1")).unwrap();
    let none = "reproduce --from-scratch --only Q6 --experiments models";
    refused_with(at, none, &["models", "r1-fast.toml"]);
    fs::create_dir(at.join("recipes")).unwrap();
    for (file, seed) in [("r1-fast", 1), ("r6-8-fast", 2)] {
        fs::write(at.join(format!("recipes/{file}.toml")), hardly_trained(file, 20, 41, seed)).unwrap();
    }
    let line = "--from-scratch --experiments recipes --device cpu --prompts 16 --out r";
    reproduce(at, &format!("{line} --only Q6,E2"));
    let page = read(at.join("r/index.html"));
    says(&page, &["by its fast recipe", "not of the paper"]);
    assert_eq!(entries(&at.join("runs")).len(), 1, "what nobody asks is not trained");
    expect(&at.join("r"), &[("E2", false), ("Q6", false)]);
    let result = only_run(at).join("result.json");
    let before = modified(&result);
    reproduce(at, &format!("{line} --only Q6,E2"));
    assert_eq!(modified(&result), before, "a finished run is used again");
    expect(&at.join("r"), &[("E2", true), ("Q6", true)]);
    assert_eq!(entries(&at.join("models/r1")), [] as [&str; 0]);
    refused_with(at, "reproduce --from-scratch --model r1=models/r1", &["--model"]);
    // r1 and r1-fast are then one network
    fs::write(at.join("recipes/r1-relu-fast.toml"), hardly_trained("r1-relu-fast", 20, 41, 3)).unwrap();
    reproduce(at, &format!("{line} --only Q6,Q10,E2"));
    assert_eq!(entries(&at.join("runs")).len(), 2);
    expect(&at.join("r"), &[("E2", true), ("Q6", false), ("Q10", false)]);
    let rerun = ledger(&at.join("r"))["analyses"][2]["rerun"].as_str().unwrap().to_string();
    says(&rerun, &["--only Q10", "--model r1-fast=runs/r1-fast-", "--model r1-relu=runs/r1-relu-fast-"]);
}

#[test]
fn from_scratch_a_training_that_fails_ends_it_and_keeps_what_was_found() {
    let dir = with(&[]);
    let at = dir.path();
    fs::create_dir(at.join("recipes")).unwrap();
    let hopeless = hardly_trained("r1-fast", 20, 41, 1).replace("rate = 1e-3", "rate = 1e30");
    fs::write(at.join("recipes/r1-fast.toml"), hopeless).unwrap();
    let line =
        "reproduce --from-scratch --experiments recipes --device cpu --prompts 16 --out r --only Q6,E2";
    says(&ended(at, line, 2).1, &["training failed", "the loss is"]);
    reproduce(at, "--only E2 --prompts 16 --out r");
    expect(&at.join("r"), &[("E2", true)]);
}

#[test]
fn a_report_is_written_that_claims_can_read() {
    let dir = with(&[]);
    let at = dir.path();
    let claims = || done_json(at, "claims --report r --json").as_array().unwrap().len();
    says(&done(at, "reproduce --only E3,th5 --prompts 64 --out r"), &["7 claims: ✓ 7 hold"]);
    assert_eq!(claims(), 7);
    let files = [
        ".iclab-files",
        "errata.html",
        "figures",
        "index.html",
        "ledger.html",
        "ledger.json",
        "plan.toml",
        "tables",
        "theory.html",
    ];
    assert_eq!(entries(&at.join("r")), files);
    // an older report is replaced as a whole
    done(at, "reproduce --only E2 --prompts 64 --out r");
    assert_eq!(claims(), 2);
    assert_eq!(entries(at), [".iclab", "r"]);
    // a claim that fails turns the exit code to 1 where that is asked for
    let ledger = at.join("r/ledger.json");
    fs::write(&ledger, read(&ledger).replacen("\"verdict\": \"holds\"", "\"verdict\": \"fails\"", 1))
        .unwrap();
    says(&ended(at, "claims --report r --strict", 1).0, &["✗"]);
    says(&ended(at, "claims --report r", 0).0, &["✗"]);
    fs::write(&ledger, "{").unwrap();
    refused_with(at, "claims --report r", &["ledger.json"]);
}

#[test]
fn a_claim_that_cannot_be_shown_fails_and_the_exit_code_says_so() {
    // On 16 prompts no step limit lies below 0.01: the erratum cannot be shown.
    let dir = with(&[]);
    let line = "reproduce --only E7 --prompts 16 --seed 3 --out r";
    ended(dir.path(), line, 0);
    ended(dir.path(), &format!("{line} --strict"), 1);
    ended(dir.path(), "reproduce --only E3 --prompts 64 --out s --strict", 0);
    assert!(dir.path().join("r/index.html").exists());
}

#[test]
#[cfg(unix)]
fn a_reader_that_goes_away_ends_it_quietly() {
    let dir = with(&[]);
    for line in ["list", "list --json", "man", "completions bash", "reproduce --only E2,E3 --prompts 16"] {
        let mut child = command(dir.path(), line).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.is_empty(), "iclab {line} | head: {said}");
    }
}

#[test]
fn two_reports_are_held_against_each_other() {
    let dir = with(&[]);
    let at = dir.path();
    done(at, "reproduce --only E3,th5 --prompts 64 --device cpu --out a");
    done(at, "reproduce --only E3,th5 --prompts 64 --out b --fresh");
    let same = ["7 claims: every verdict is the same; the largest difference is 0", "E3."];
    says(&ended(at, "claims --report a --against b", 0).0, &same);
    let ledger = at.join("b/ledger.json");
    fs::write(&ledger, read(&ledger).replacen("\"verdict\": \"holds\"", "\"verdict\": \"fails\"", 1))
        .unwrap();
    says(&ended(at, "claims --report a --against b", 1).0, &["1 verdict differs", "DIFFERS"]);
    let (shown, _) = ended(at, "claims --report a --against b --json", 1);
    assert!(shown.contains("\"differs\": true") && shown.contains("\"largest\": 0.0"));
    done(at, "reproduce --only E2 --prompts 64 --out c");
    says(&ended(at, "claims --report a --against c", 1).0, &["–", "inf"]);
    refused_with(at, "claims --report a --against nowhere", &["nowhere", "holds no report"]);
    refused_with(at, "reproduce --only E3 --device gpu --out d", &["gpu", "auto, cpu, cuda"]);
}
