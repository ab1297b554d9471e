//! The journeys of the guide, run as they are printed: every fenced command, in order, page by page, with smaller settings.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide")
}

/// A fenced block: the words after the fence, and what is inside.
struct Block {
    info: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(guide().join(page)).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(Block { info: info.into(), text: String::new() }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none() && !blocks.is_empty(), "{page}: a fence is not closed, or there is none");
    blocks
}

/// Runs shell commands with `iclab` on the path; exit code 1 only says that a claim does not hold on few prompts.
fn shell(at: &Path, commands: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_iclab")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut said = String::new();
    for line in commands.lines().filter(|line| !line.trim().is_empty()) {
        let output =
            Command::new("sh").args(["-c", line]).env("PATH", &path).current_dir(at).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{line}: {error}");
        assert!(!error.contains("panicked") && !error.contains("error:"), "{line}: {error}");
        said += &String::from_utf8_lossy(&output.stdout);
    }
    said
}

/// Runs a page in a folder: files are written, commands run; what is marked slow must at least be understood.
fn run(page: &str, at: &Path, smaller: &[(&str, &str)]) -> String {
    let mut said = String::new();
    for block in blocks(page) {
        let mut text = block.text.clone();
        for (from, to) in smaller {
            text = text.replace(from, to);
        }
        let words: Vec<&str> = block.info.split(' ').collect();
        match words[..] {
            ["sh"] => said += &shell(at, &text),
            ["sh", "slow"] => {
                let mut words = text.split_whitespace().filter(|w| !w.starts_with("cargo"));
                if words.next() == Some("iclab") {
                    let verb = words.next().unwrap();
                    let help = shell(at, &format!("iclab {verb} --help"));
                    let known = |word: &&str| !word.starts_with("--") || help.contains(*word);
                    assert!(words.all(|word| known(&word)), "{page}: {text}");
                }
            }
            ["toml", file] => std::fs::write(at.join(file), text).unwrap(),
            ["python"] => python(at, &text),
            ["rust", file] => {
                let code = std::fs::read_to_string(guide().join("../..").join(file)).unwrap();
                assert!(code.contains(&block.text), "{page}: the code is not that of {file}");
            }
            _ => panic!("{page}: a block of {:?}", block.info),
        }
    }
    said
}

/// Python where it has numpy; elsewhere an algorithm of ours makes the same file.
fn python(at: &Path, code: &str) {
    let numpy = Command::new("python3").args(["-c", "import numpy"]).output();
    if numpy.is_ok_and(|output| output.status.success()) {
        let output = Command::new("python3").args(["-c", code]).current_dir(at).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    } else {
        shell(at, "iclab predict gd --steps 1..=6 --prompts p.npz --out mine.npz");
    }
}

#[test]
fn reproduce() {
    let dir = TempDir::new().unwrap();
    let said = run("reproduce.md", dir.path(), &[]);
    assert!(said.contains("2 of 2 analyses kept"), "{said}");
    assert!(dir.path().join("f26/ledger.json").is_file());
}

#[test]
fn own_variant() {
    let dir = TempDir::new().unwrap();
    let smaller =
        [("steps = 2000", "steps = 20"), ("width = 64", "width = 16"), ("--prompts 256", "--prompts 32")];
    run("own-variant.md", dir.path(), &smaller);
    for folder in ["newton", "gd"] {
        assert!(dir.path().join(folder).join("index.html").is_file());
    }
}

#[test]
fn own_pytorch_model() {
    let dir = TempDir::new().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden/garg.pt");
    std::fs::copy(golden, dir.path().join("state.pt")).unwrap();
    // the checkpoint of the tests has room for five points in three dimensions
    run("own-pytorch-model.md", dir.path(), &[("--look 16", "--look 16 --dim 3 --points 5")]);
    assert!(dir.path().join("mine/index.html").is_file());
}

#[test]
fn add_a_solver() {
    let dir = TempDir::new().unwrap();
    run("add-a-solver.md", dir.path(), &[]);
    assert!(dir.path().join("two/index.html").is_file());
}

#[test]
fn every_page_and_picture_that_is_named_is_there() {
    for entry in std::fs::read_dir(guide()).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            let file = link.split('#').next().unwrap();
            let here = file.is_empty() || file.contains("://") || guide().join(file).exists();
            assert!(here, "{}: {link}", path.display());
        }
    }
}
