//! What is printed, where it goes: full devices, readers who leave, narrow terminals, colours, shells.

mod common;

use std::process::{Command, Stdio};

use common::{TINY, command, done, ended, json, only_run, read, refused_with, says, with};
use serde_json::Value;

/// Commands that print, one of every verb that can be run in a moment in a folder with a report, prompts and a run.
const PRINTING: &[&str] = &[
    "--help",
    "--version",
    "help train",
    "list solvers",
    "list --json",
    "show newton",
    "show tiny",
    "runs",
    "runs --json",
    "models",
    "models --json",
    "claims --report report",
    "claims --report report --json",
    "reproduce --only E3 --prompts 16 --out report",
    "sample --dim 3 --points 6 --prompts 4 --out q.npz",
    "predict newton --prompts p.npz --out o.npz",
    "compare newton gd --dim 3 --points 6 --prompts 8 --out c",
    "construct newton --iterations 1 --dim 2 --points 3 --out w.safetensors",
    "train tiny.toml --steps 5",
    "train tiny.toml --steps 5 --json",
    "train tiny.toml --steps 5 --seeds 2",
    "probe tiny --prompts 64 --look 8",
    "import model.safetensors --out back.safetensors",
    "export tiny.safetensors --out model",
    "doctor --json",
    "bench forward --experiment small --prompts 2",
    "completions bash",
    "man",
    "man compare",
];

#[test]
#[cfg(target_os = "linux")]
fn a_full_device_is_an_error_and_not_a_panic() {
    let dir = with(&[("tiny.toml", TINY)]);
    let at = dir.path();
    done(at, "sample --dim 3 --points 6 --prompts 4 --out p.npz");
    done(at, "reproduce --only E3 --prompts 16 --out report");
    done(at, "train tiny.toml --steps 5");
    std::fs::copy(only_run(at).join("checkpoint.safetensors"), at.join("tiny.safetensors")).unwrap();
    done(at, "export tiny.safetensors --out model.safetensors");
    for line in PRINTING {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command(at, *line).stdout(Stdio::from(full)).output().unwrap();
        let said = common::complaints(&output);
        assert_eq!(output.status.code(), Some(2), "iclab {line}: {said}");
        assert!(
            said.ends_with("error: cannot write to standard output: No space left on device (os error 28)\n"),
            "{line}: {said}"
        );
        assert_eq!(said.matches("error:").count(), 1, "{line}: {said}");
        // and where nobody can be told either, the program still ends as it should
        let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
        let status = command(at, *line).stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(2), "iclab {line}");
    }
    // The work is done all the same.
    assert!(at.join("o.npz").is_file() && at.join("c/index.html").is_file());
}

#[test]
fn a_reader_who_leaves_is_nobodys_error() {
    let dir = with(&[]);
    for line in ["list", "man", "show r1"] {
        let program = env!("CARGO_BIN_EXE_iclab");
        let piped = format!("set -o pipefail; {program} {line} | head -n 1 > first; echo ${{PIPESTATUS[0]}}");
        let output = Command::new("bash").args(["-c", &piped]).current_dir(dir.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
        assert_eq!(read(dir.path().join("first")).lines().count(), 1, "{line}");
    }
}

#[test]
fn a_ledger_fits_the_terminal_and_is_plain_where_it_should_be() {
    let dir = with(&[]);
    let at = dir.path();
    done(at, "reproduce --only E2,E3 --prompts 16 --out r");
    let ledger = |columns: &str| {
        let output = command(at, "claims --report r").env("COLUMNS", columns).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    for (columns, width) in [("40", 40), ("60", 60), ("100", 100), ("250", 100), ("3", 20), ("what", 100)] {
        let text = ledger(columns);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{columns}: {text}");
        assert!(text.lines().any(|line| line.chars().count() == width), "{columns}: a rule fills the line");
        assert!(!text.contains('\x1b'), "no colour where there is no terminal");
        says(&text, &["E2.printed", "E3.right-m1"]);
    }
    assert!(ledger("40").lines().any(|line| line == "✓ holds  E2.printed"));
}

/// What a command prints on a terminal of 24 lines and 50 columns, by util-linux's `script`; `None` where there is none.
fn on_a_terminal(at: &std::path::Path, environment: &str, line: &str) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_iclab");
    let inside = format!("stty rows 24 cols 50; env -u NO_COLOR TERM=xterm {environment} {program} {line}");
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &inside, "/dev/null"]).current_dir(at).env_remove("COLUMNS").stdin(Stdio::null());
    let output = terminal.output().ok()?;
    Some(String::from_utf8(output.stdout).unwrap().replace('\r', ""))
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let dir = with(&[]);
    let at = dir.path();
    done(at, "reproduce --only E3 --prompts 16 --out r");
    let Some(coloured) = on_a_terminal(at, "", "claims --report r") else {
        println!("skipped: there is no `script` to make a terminal");
        return;
    };
    says(&coloured, &["\x1b[32m", "E3.right-m1"]);
    for environment in ["NO_COLOR=1", "TERM=dumb"] {
        let plain = on_a_terminal(at, environment, "claims --report r").unwrap();
        assert!(!plain.contains('\x1b') && plain.contains("E3.right-m1"), "{plain}");
        assert!(plain.lines().all(|line| line.chars().count() <= 50), "{plain}");
    }
    let empty = on_a_terminal(at, "NO_COLOR=", "claims --report r").unwrap();
    assert!(empty.contains("\x1b[32m"), "an empty NO_COLOR asks for nothing");
}

#[test]
fn a_report_that_is_not_there_is_refused() {
    let dir = with(&[]);
    let at = dir.path();
    refused_with(
        at,
        "claims --report TYPO",
        &["TYPO", "ledger.json", "iclab reproduce --out", "reports here: none"],
    );
    done(at, "reproduce --only E3 --prompts 16 --out mine");
    refused_with(at, "claims --report TYPO", &["reports here: mine"]);
    assert!(!at.join(".iclab/cache").join("nothing").exists() && !at.join("TYPO").exists());
}

#[test]
fn help_can_be_asked_for_in_every_way() {
    let dir = with(&[]);
    let help = |line: &str| done(dir.path(), line);
    assert_eq!(help("help --help"), help("help"));
    assert_eq!(help("help -h"), help("help"));
    assert_eq!(help("help train --help"), help("help train"));
    says(&help("models help --help"), &["verify"]);
    refused_with(dir.path(), "help trian", &["trian"]);
}

#[test]
fn bash_completes_what_is_there() {
    let dir = with(&[("tiny.toml", TINY)]);
    let at = dir.path();
    done(at, "train tiny.toml --steps 2");
    let run = only_run(at).file_name().unwrap().to_string_lossy().into_owned();
    let script = done(at, "completions bash");
    let complete = |line: &str| -> Vec<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let (last, at_word) = (words[words.len() - 1], words.len() - 1);
        let ask = format!(
            "{script}\nCOMP_WORDS=({line}) COMP_CWORD={at_word} COMP_TYPE=9\n[ -z '{last}' ] && COMP_WORDS+=('')\n\
             _clap_complete_iclab iclab '{last}' ''\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_iclab")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let output =
            Command::new("bash").args(["-c", &ask]).env("PATH", path).current_dir(at).output().unwrap();
        let offered = String::from_utf8(output.stdout).unwrap();
        offered.lines().filter(|offer| !offer.is_empty()).map(String::from).collect()
    };
    let offers = |line: &str, word: &str| {
        let offered = complete(line);
        assert!(offered.iter().any(|offer| offer == word), "{line}: {word} is not among {offered:?}");
    };
    offers("iclab comp", "compare");
    offers("iclab compare newt", "newton");
    offers("iclab compare newton run:tin", &format!("run:{run}"));
    offers("iclab predict file:ti", "file:tiny.toml");
    offers("iclab reproduce --only F26,E", "F26,E3");
    offers("iclab train mini", "miniature");
    offers("iclab train ti", "tiny.toml");
    offers("iclab show r1-f", "r1-fast");
    offers("iclab sample --inputs sk", "skewed");
    assert!(complete("iclab reproduce --only ti").is_empty(), "an analysis is no file");
}

#[test]
fn one_thing_is_one_thing() {
    let dir = with(&[("tiny.toml", TINY)]);
    let at = dir.path();
    let mut said = done(at, "sample --dim 1 --points 1 --prompts 1 --out p.npz");
    said += &done(at, "predict newton --prompts p.npz --out o.npz");
    said += &done(at, "compare newton gd --dim 3 --points 6 --prompts 1 --out c");
    said += &done(at, "train tiny.toml --steps 1");
    said += &done(at, "show tiny");
    said += &ended(at, "reproduce --only E3 --prompts 16 --out r", 0).0;
    for many in
        ["1 prompts", "1 points", "1 dimensions", "1 steps", "1 cores", "1 runs", "1 analyses", "1 claims"]
    {
        let alone = |text: &str| !text.ends_with(|c: char| c.is_ascii_digit() || c == ',' || c == '.');
        let found = said.match_indices(many).any(|(place, _)| alone(&said[..place]));
        assert!(!found, "'{many}' in: {said}");
    }
    says(&said, &["1 prompt of 1 point in 1 dimension", "1 step"]);
}

#[test]
fn runs_and_names_are_shown_with_what_comes_next() {
    let dir = with(&[("tiny.toml", TINY)]);
    let at = dir.path();
    says(&done(at, "runs"), &["no runs under runs", "iclab train miniature"]);
    done(at, "train tiny.toml --steps 5");
    let run = only_run(at);
    let name = run.file_name().unwrap().to_string_lossy().into_owned();
    let listed = json(&done(at, "runs --json"));
    let field = |name: &str| listed[0][name].clone();
    assert_eq!((field("name"), field("state")), (Value::from(&*name), Value::from("finished")));
    assert_eq!((field("step"), field("steps"), field("experiment")), (5.into(), 5.into(), "tiny".into()));
    assert!(field("loss").as_f64().unwrap() > 0.0);
    says(&done(at, "runs"), &["name", "experiment", "state", &name, "5 of 5", "finished"]);
    let shown = done(at, "show tiny");
    let next = format!("iclab compare run:{name} newton");
    says(
        &shown,
        &[
            &name,
            "linear of gaussian inputs, d=3, 6 points",
            "GPT-2, 2 layers",
            "finished",
            "tensorboard",
            &next,
        ],
    );
    // What is unfinished says so, and the next command takes it to its end.
    std::fs::remove_file(run.join("result.json")).unwrap();
    says(&done(at, "runs"), &["interrupted"]);
    let shown = done(at, "show tiny");
    says(&shown, &["unfinished (interrupted), step 5 of 5"]);
    let next = shown.lines().find_map(|line| line.trim().strip_prefix("next")).unwrap().trim();
    done(at, next.strip_prefix("iclab ").unwrap());
    says(&done(at, "runs"), &["finished"]);
    assert_eq!(only_run(at), run, "the same run");
    // Experiments, algorithms, analyses, and what nobody knows.
    let text = done(at, "show miniature --toml");
    assert_eq!(text, include_str!("../../../experiments/miniature.toml"));
    says(&done(at, "show newton"), &["newton: algorithm", "alpha=fro", "iclab compare newton gd"]);
    says(&done(at, "show f26"), &["F26: analysis", "iclab reproduce --only F26"]);
    says(&done(at, "show r1"), &["r1: model", "not here", "ICLAB_MODELS", "r1: experiment"]);
    done(at, &["export", &run.join("checkpoint.safetensors").to_string_lossy(), "--out", "hf"]);
    done(at, "import hf --out mine.safetensors");
    says(
        &done(at, "show mine.safetensors"),
        &["mine.safetensors: checkpoint", "GPT-2, 2 layers", "run:mine.safetensors"],
    );
    refused_with(at, "show nwton", &["nwton", "did you mean newton"]);
    refused_with(at, "show newton --toml", &["newton", "accepted with --toml"]);
    refused_with(at, "runs --runs absent", &["absent", "is not a directory"]);
}
