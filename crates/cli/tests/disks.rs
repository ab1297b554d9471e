//! Disks that are full, folders that cannot be written, writers that are killed: one sentence, exit code 2, and nothing
//! half-written; the same command does it once it can.

#![cfg(target_os = "linux")]

mod common;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use common::{TINY, command, complaints, done, entries, hardly_trained, only_run, with};

/// What writes, with the bytes of disk with which it certainly can, in KiB; targets lie under `t`.
const WRITERS: [(&str, u32); 10] = [
    ("sample --dim 3 --points 6 --prompts 300 --out t/s.npz", 128),
    ("predict newton --prompts p.npz --out t/o.npz", 256),
    ("construct newton --dim 2 --points 3 --iterations 2 --out t/w.safetensors", 1024),
    ("export tiny.safetensors --out t/e.safetensors", 256),
    ("export tiny.safetensors --out t/e --max-shard-size 8KB", 256),
    ("train tiny.toml --steps 30 --device cpu --runs t/runs", 2048),
    ("compare newton gd --dim 3 --points 6 --prompts 16 --out t/c", 4096),
    ("reproduce --only E3 --prompts 16 --fresh --cache kept --out t/r", 4096),
    ("models --models t/shelf add r1 small", 4096),
    ("import exported.safetensors --out t/i.safetensors", 256),
];

/// A folder with prompts, a checkpoint and a run to read from.
fn workplace() -> TempDir {
    let dir = with(&[("tiny.toml", TINY), ("small.toml", &hardly_trained("small", 20, 41, 0))]);
    let at = dir.path();
    done(at, "sample --dim 3 --points 6 --prompts 64 --out p.npz");
    done(at, "train tiny.toml --steps 5 --device cpu");
    std::fs::copy(only_run(at).join("checkpoint.safetensors"), at.join("tiny.safetensors")).unwrap();
    std::fs::remove_dir_all(at.join("runs")).unwrap();
    done(at, "export tiny.safetensors --out exported.safetensors");
    done(at, "train small.toml --device cpu");
    std::fs::rename(only_run(at), at.join("small")).unwrap();
    // read-outs are kept beside a network when it is first asked
    done(at, "models --models first add r1 small");
    std::fs::create_dir(at.join("t")).unwrap();
    dir
}

/// Files below a folder with their bytes.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in entries(dir) {
        let path = dir.join(&name);
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            found.insert(name, std::fs::read(path).unwrap());
        }
    }
    found
}

/// Runs a shell line in a mount namespace of its own, in which it may mount; what is mounted goes with it.
fn in_namespace(at: &Path, line: &str) -> Output {
    let mut shell = Command::new("unshare");
    let shell = shell.args(["--map-root-user", "--mount", "sh", "-c", line]).current_dir(at);
    shell.env_remove("ICLAB_MODELS").env_remove("COLUMNS").output().expect("util-linux's unshare")
}

/// Whether this system lets a test mount something; says so where not.
fn may_mount(what: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let able = Command::new("unshare").arg("--version").output().is_ok()
        && in_namespace(dir.path(), "mount -t tmpfs none .").status.success();
    if !able {
        println!("skipped: {what}, as nothing can be mounted here");
    }
    able
}

/// A refusal: exit code 2 and one sentence that names a file under `t`.
#[track_caller]
fn refused(line: &str, output: &Output) {
    let said = complaints(output);
    let sentence = said.lines().filter(|line| !line.starts_with("note: ")).collect::<Vec<_>>();
    assert_eq!(output.status.code(), Some(2), "iclab {line}: {said}");
    assert!(sentence.len() == 1 && sentence[0].starts_with("error: "), "iclab {line}: {said}");
    assert!(sentence[0].contains("t/") && !said.contains("panicked"), "iclab {line}: {said}");
}

/// Names that no user should find: of a run they are removed when it is taken up.
fn leftovers(names: impl Iterator<Item = String>) -> Vec<String> {
    names
        .filter(|name| name.contains(".part") || name.contains(".iclab-new") || name.contains(".iclab-ready"))
        .collect()
}

#[test]
fn full_disks() {
    if !may_mount("full disks") {
        return;
    }
    let dir = workplace();
    let at = dir.path();
    let program = env!("CARGO_BIN_EXE_iclab");
    for (line, enough) in WRITERS {
        // From no room at all to plenty: the disk is full at one file after the other.
        let sizes = (2..=12).map(|power| 1 << power).take_while(|size| *size <= enough);
        for (refusals, size) in sizes.enumerate() {
            let script = format!(
                "mount -t tmpfs -o size={size}k none t || exit 99\n{program} {line}\ncode=$?\nrm -rf after\n\
                 cp -r t after\nexit $code"
            );
            let output = in_namespace(at, &script);
            if output.status.code() == Some(0) {
                assert!(refusals > 0, "iclab {line}: {size} KiB were no full disk");
                break;
            }
            refused(line, &output);
            let left = files(&at.join("after"));
            assert_eq!(leftovers(left.keys().cloned()), [""; 0], "iclab {line}, {size} KiB");
            // Of a run what is whole stays, and of several files those that were; of a folder nothing.
            let folder =
                ["compare", "reproduce", "models", "--max-shard"].iter().any(|word| line.contains(word));
            assert!(!folder || left.is_empty(), "iclab {line}, {size} KiB: {:?}", left.keys());
            assert!(size < enough, "iclab {line}: {size} KiB should do: {}", complaints(&output));
        }
    }
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let dir = workplace();
    let at = dir.path();
    std::fs::write(at.join("t/s.npz"), "old").unwrap();
    // Files of a block at most; the signal that says so is ignored, and the write fails.
    let line = "sample --dim 3 --points 6 --prompts 300 --out t/s.npz";
    let script = format!("trap '' XFSZ; ulimit -f 1; exec {} {line}", env!("CARGO_BIN_EXE_iclab"));
    let output = Command::new("sh").args(["-c", &script]).current_dir(at).output().unwrap();
    refused(line, &output);
    assert_eq!(files(&at.join("t")), [("s.npz".to_string(), b"old".to_vec())].into());
}

#[test]
fn folders_that_cannot_be_written() {
    if !may_mount("folders that cannot be written") {
        return;
    }
    let dir = workplace();
    let at = dir.path();
    let program = env!("CARGO_BIN_EXE_iclab");
    for (line, _) in WRITERS {
        let script =
            format!("mount --bind t t && mount -o remount,bind,ro t || exit 99\nexec {program} {line}");
        refused(line, &in_namespace(at, &script));
        assert_eq!(entries(&at.join("t")), [""; 0], "iclab {line}");
    }
}

#[test]
fn a_file_in_the_way_of_a_folder() {
    let dir = workplace();
    let at = dir.path();
    std::fs::remove_dir(at.join("t")).unwrap();
    std::fs::write(at.join("t"), "mine").unwrap();
    for (line, _) in WRITERS {
        refused(line, &command(at, line).output().unwrap());
        assert_eq!(common::read(at.join("t")), "mine", "iclab {line}");
    }
}

/// Writers that are killed, large enough that writing takes a while, and whether they write over what is there.
const KILLED: [(&str, bool); 10] = [
    ("sample --dim 20 --points 41 --prompts 500 --out t/s.npz", true),
    ("predict newton --steps 0..=24 --prompts p.npz --out t/o.npz", true),
    ("construct newton --dim 2 --points 3 --iterations 2 --out t/w.safetensors", true),
    ("import exported.safetensors --out t/i.safetensors", true),
    ("export small/checkpoint.safetensors --out t/e.safetensors", true),
    ("export tiny.safetensors --out t/e --max-shard-size 8KB", false),
    ("export small --hub t/h", false),
    ("compare newton gd --dim 3 --points 6 --prompts 16 --out t/c", true),
    ("models --models t/shelf add r1 small", true),
    ("reproduce --only E3 --prompts 16 --fresh --cache t/kept --out t/r", true),
];

/// What the kernel sends to who writes beyond `ulimit -f`.
const SIGXFSZ: i32 = 25;

/// When a writer is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// When a file has grown to so many blocks of 512 bytes and is to grow on (SIGXFSZ); the others are SIGKILL.
    Blocks(usize),
    /// As soon as something is being written.
    Begun,
    /// As soon as files of a folder move to their places.
    Moving,
}

/// Whether something has begun to be written under `t`, or to move to its place.
fn has_come(at: &Path, moment: Moment) -> bool {
    let mut folders = vec![at.join("t")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
            let begun = name.ends_with(".part") && !name.starts_with(".iclab-");
            let moving = name == ".iclab-ready";
            if begun && matches!(moment, Moment::Begun) || moving && matches!(moment, Moment::Moving) {
                return true;
            }
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    false
}

/// Runs a command and kills it; false when it was over before.
fn killed(at: &Path, line: &str, moment: Moment) -> bool {
    if let Moment::Blocks(blocks) = moment {
        let program = env!("CARGO_BIN_EXE_iclab");
        let script = format!("ulimit -c 0; ulimit -f {blocks}; exec {program} {line}");
        let output = Command::new("sh").args(["-c", &script]).current_dir(at).output().unwrap();
        let signal = output.status.signal();
        assert!(output.status.success() || signal == Some(SIGXFSZ), "iclab {line}: {output:?}");
        return signal.is_some();
    }
    let mut child = command(at, line).spawn().unwrap();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(0), "iclab {line}");
            return false;
        }
        if has_come(at, moment) {
            child.kill().unwrap();
            child.wait().unwrap();
            return true;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Whether a file is what its writer wrote; pages and records of their own time differ each time, and have an end.
fn is_whole(name: &str, bytes: &[u8], expected: &[u8]) -> bool {
    match name.rsplit_once('.') {
        Some((_, "html")) => bytes.trim_ascii_end().ends_with(b"</html>"),
        Some((_, "json")) if name.starts_with("kept/") => {
            bytes.split(|byte| *byte == b'\n').all(|line| serde_json::from_slice::<Value>(line).is_ok())
        }
        Some((_, "json")) => serde_json::from_slice::<Value>(bytes).is_ok(),
        _ => bytes == expected,
    }
}

/// Puts these files under `t`, in place of all that is there.
fn put(at: &Path, files: &BTreeMap<String, Vec<u8>>) {
    std::fs::remove_dir_all(at.join("t")).unwrap();
    std::fs::create_dir(at.join("t")).unwrap();
    for (name, bytes) in files {
        let path = at.join("t").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

#[test]
fn killed_writers() {
    let dir = workplace();
    let at = dir.path();
    for (line, writes_over) in KILLED {
        done(at, line);
        let whole = files(&at.join("t"));
        // What stood there before: a file of the user's, or a folder that iclab wrote, which has nothing else to compare.
        let folder = whole.keys().any(|name| name.contains('/'));
        let older = |(name, bytes): (&String, &Vec<u8>)| {
            (name.clone(), if folder { bytes.clone() } else { b"older".to_vec() })
        };
        let older: BTreeMap<_, _> = whole.iter().map(older).filter(|_| writes_over).collect();
        let largest = whole.values().map(Vec::len).max().unwrap_or(0);
        let nothing = BTreeMap::new();
        let moment = if folder && writes_over { Moment::Moving } else { Moment::Begun };
        let (first, largest) = (Moment::Blocks(1), Moment::Blocks((largest - 1) / 512));
        let rounds = [(moment, &older), (first, &older), (largest, &nothing)];
        for (moment, before) in rounds {
            put(at, before);
            let in_time = killed(at, line, moment);
            assert!(in_time || !matches!(moment, Moment::Blocks(_)), "iclab {line}, {moment:?}");
            let after = files(&at.join("t"));
            let lost = before.keys().find(|name| !after.contains_key(*name));
            assert_eq!(lost, None, "iclab {line}, {moment:?}: a file that stood there is gone");
            for (name, bytes) in after {
                let temporary = name.contains(".part") || name.contains(".iclab-");
                let stood = before.get(&name) == Some(&bytes);
                let written = whole.get(&name).is_some_and(|expected| is_whole(&name, &bytes, expected));
                assert!(temporary || stood || written, "iclab {line}, {moment:?}: {name} is half-written");
            }
        }
        // The last round left something, which goes.
        let left = files(&at.join("t")).into_keys().any(|name| !whole.contains_key(&name));
        assert!(left, "iclab {line}: {:?}", entries(&at.join("t")));
        done(at, line);
        let after = files(&at.join("t"));
        assert!(after.keys().eq(whole.keys()), "iclab {line}: {:?} and not {:?}", after.keys(), whole.keys());
        let differs = after.iter().find(|(name, bytes)| !is_whole(name, bytes, &whole[*name]));
        assert_eq!(differs.map(|(name, _)| name), None, "iclab {line}");
        put(at, &nothing);
    }
}
