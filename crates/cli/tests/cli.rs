//! The command line as a user meets it: what it lists, its help, its sentences and its exit codes.

mod common;

use serde_json::Value;

use common::{done, done_json, ended, entries, json, read, refused_with, says, with};

#[test]
fn list_shows_every_row_with_its_settings() {
    let dir = with(&[]);
    let text = done(dir.path(), "list");
    let all = done_json(dir.path(), "list --json");
    for (kind, expected) in [
        ("solvers", "newton"),
        ("functions", "relu-2nn"),
        ("inputs", "skewed"),
        ("analyses", "F26"),
        ("experiments", "miniature"),
    ] {
        let rows = all[kind].as_array().unwrap();
        assert!(rows.iter().any(|row| row["name"] == expected), "{kind}");
        for row in rows {
            assert!(text.contains(row["name"].as_str().unwrap()));
            for setting in row["settings"].as_array().unwrap() {
                assert!(text.contains(setting["help"].as_str().unwrap()));
            }
        }
    }
    says(&done(dir.path(), "list solvers"), &["alpha=fro"]);
    says(
        &done(dir.path(), "list networks"),
        &["run:NAME", "ablate=", "patch=", "donor:blocks.2.resid_pre@y"],
    );
}

#[test]
fn bad_arguments_get_one_clear_sentence() {
    let dir = with(&[("a-file", "x")]);
    done(dir.path(), "sample --dim 4 --points 9 --prompts 12 --seed 7 --out p.npz");
    std::fs::create_dir(dir.path().join("foreign")).unwrap();
    std::fs::write(dir.path().join("foreign/thesis.tex"), "precious").unwrap();
    // (arguments, words that the sentence must hold)
    let cases: &[(&str, &[&str])] = &[
        ("predict newtn --prompts p.npz --out o.npz", &["newtn", "did you mean newton"]),
        ("predict gd:eta=-1 --prompts p.npz --out o.npz", &["eta", "-1", "above 0"]),
        ("predict gd:step=1 --prompts p.npz --out o.npz", &["'gd' has no setting 'step'"]),
        ("predict file:absent.npz --prompts p.npz --out o.npz", &["absent.npz"]),
        ("predict ols --steps 0..=3 --prompts p.npz --out o.npz", &["not iterative"]),
        ("predict gd --steps 9..=3 --prompts p.npz --out o.npz", &["9..=3", "empty range"]),
        ("predict gd --steps pow2:0..=99 --prompts p.npz --out o.npz", &["pow2:0..=99"]),
        ("predict gd --prompts absent.npz --out o.npz", &["absent.npz", "No such file"]),
        ("predict gd --prompts a-file --out o.npz", &["a-file", "numpy.savez"]),
        ("predict gd --prompts p.npz --out absent/o.npz", &["absent/o.npz"]),
        ("predict gd --prompts p.npz --out foreign", &["foreign", "is a directory"]),
        ("sample --dim 0 --out o.npz", &["0 dimensions", "1 to 1024"]),
        ("sample --points 0 --out o.npz", &["0 points"]),
        ("sample --prompts 0 --out o.npz", &["0"]),
        ("sample --function lineer --out o.npz", &["did you mean linear"]),
        ("sample --inputs skewed:kappa=0 --out o.npz", &["kappa", "0"]),
        ("sample --function sparse-linear:nonzero=5 --dim 3 --out o.npz", &["nonzero", "at most 3"]),
        ("compare newton gd --prompts 8 --out foreign", &["foreign", "something else"]),
        ("compare newton gd --prompts 8 --out a-file", &["a-file", "is a file"]),
        ("compare newton gd --prompts 0 --out c", &["0", "at least 1"]),
        ("compare newton gd --prompts 8 --from 41 --out c", &["t=41", "below 41"]),
        ("compare newton gd --prompts 8 --queries 3 --measure simw --out c", &["3 queries"]),
        ("compare newton gd --prompts p.npz --measure simw --out c", &["fresh queries"]),
        ("construct newton --out w.bin", &["w.bin", ".safetensors"]),
        (
            "construct newton --out foreign/deep/w.safetensors --dim 2 --points 3",
            &["foreign/deep/w.safetensors"],
        ),
        ("construct newton --iterations -1 --out w.safetensors", &["-1", "0..=4096"]),
        ("construct newton --dim 0 --out w.safetensors", &["'0'", "1..=128"]),
        ("construct newton --points 0 --out w.safetensors", &["'0'", "1..=512"]),
        (
            "construct newton --dim 2 --points 4 --alpha 9 --out w.safetensors",
            &["alpha 9", "convergent range", "below 2/λ²"],
        ),
        ("construct newton --dim 2 --points 4 --alpha -1 --out w.safetensors", &["alpha -1", "above 0"]),
        ("construct newton --dim 2 --points 4 --alpha nan --out w.safetensors", &["alpha NaN", "above 0"]),
        ("construct newton --dim 2 --points 4 --eta 1 --out w.safetensors", &["eta", "--alpha"]),
        (
            "construct gd --dim 2 --points 4 --eta 9 --out w.safetensors",
            &["eta 9", "convergent range", "below 2/λ, λ"],
        ),
        ("construct gd --variant paper --out w.safetensors", &["--variant"]),
        (
            "construct gd --start identity --out w.safetensors",
            &["--start is of Newton's iteration", "none with gd"],
        ),
        (
            "construct newton --variant paper --start identity --out w.safetensors",
            &["--start identity is of two constructions", "--variant compact, residual"],
        ),
        ("construct newton --variant causal --start identity --out w.safetensors", &["--variant compact"]),
        ("construct newton --start ols --out w.safetensors", &["'ols'", "gram, identity"]),
        ("construct newton --start identity --alpha 1 --out w.safetensors", &["--alpha is of", "--eta"]),
        (
            "construct newton --start identity --dim 2 --points 4 --eta 9 --out w.safetensors",
            &["eta 9", "convergent range", "below 2/λ, λ"],
        ),
        ("construct newton --inputs skewd --out w.safetensors", &["did you mean skewed"]),
        ("construct cg --out w.safetensors", &["cg", "newton"]),
        (
            "predict construct:absent.safetensors --prompts p.npz --out o.npz",
            &["absent.safetensors", "No such file"],
        ),
        ("predict construct:a-file --prompts p.npz --out o.npz", &["a-file", "what iclab construct writes"]),
        ("reproduce --only F99 --out c", &["F99"]),
        ("reproduce --only E3 --out foreign", &["foreign"]),
        ("reproduce --only E3 --out /proc/nowhere/report", &["/proc/nowhere"]),
        ("man nothing", &["nothing", "reproduce"]),
    ];
    let before = entries(dir.path());
    for (line, words) in cases {
        refused_with(dir.path(), *line, words);
        assert_eq!(entries(dir.path()), before, "iclab {line} left something behind");
    }
    assert_eq!(read(dir.path().join("foreign/thesis.tex")), "precious");
}

#[test]
fn help_completions_and_manual_exist_for_every_command() {
    let dir = with(&[]);
    let help = done(dir.path(), "--help");
    for command in ["reproduce", "claims", "compare", "construct", "sample", "predict", "list"] {
        says(&help, &[command]);
        says(&done(dir.path(), &[command, "--help"]), &["Examples:"]);
        says(&done(dir.path(), &["man", command]), &[".TH"]);
    }
    // What follows a word is asked of the program: the tests of the terminal do.
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        says(&done(dir.path(), &["completions", shell]), &["iclab", "COMPLETE"]);
    }
}

#[test]
fn the_doctor_names_what_is_missing() {
    let dir = with(&[]);
    let report = json(&ended(dir.path(), "doctor --json", 0).0);
    assert!(report["cpu"]["cores"].as_u64().unwrap() > 0);
    assert_eq!(report["ok"], true);
    assert_eq!(report["checks"][0]["group"], "activations on the CPU");
    assert_eq!(report["checks"][0]["verdict"], "ok");
    let some = json(&ended(dir.path(), "doctor --only queries --json", 0).0);
    assert!(
        some["checks"].as_array().unwrap().iter().all(|c| c["name"].as_str().unwrap().contains("queries"))
    );
    refused_with(dir.path(), "doctor --only nonsense", &["--only nonsense", "accepted"]);
    let Some(missing) = report["cuda"]["missing"].as_str() else {
        assert!(report["checks"].as_array().unwrap().len() > 1);
        return;
    };
    says(&done(dir.path(), "doctor"), &["CPU", "cores", missing, "train on the CPU", "read and patched"]);
}

#[test]
fn benchmarks_keep_records() {
    let dir = with(&[]);
    let record = |what: &str| {
        let line = format!("bench {what} --experiment small --json --out record.json");
        let printed = done_json(dir.path(), &line);
        let kept = json(&read(dir.path().join("record.json")));
        assert_eq!(printed, kept);
        assert_eq!(kept["benchmark"], what.split(' ').next().unwrap());
        kept
    };
    let number = |record: &Value, field: &str| record[field].as_f64().unwrap();
    let step = record("train --device cpu --steps 3");
    assert_eq!((number(&step, "steps"), number(&step, "parameters")), (3.0, 151_937.0));
    assert!(0.0 < number(&step, "best_ms") && number(&step, "best_ms") <= number(&step, "median_ms"));
    let pass = record("forward --prompts 10 --repeat 2");
    assert_eq!((number(&pass, "layers"), number(&pass, "points")), (3.0, 11.0));
    let prompts = number(&pass, "prompts_per_second") * number(&pass, "median_seconds");
    assert!((prompts - 10.0).abs() < 1e-6, "{prompts}");
    let line = done(dir.path(), "bench forward --prompts 1 --experiment small");
    assert!(line.starts_with("small: ") && line.lines().count() == 1, "{line}");
    for what in ["train", "forward"] {
        refused_with(dir.path(), &["bench", what, "--experiment", "r2"], &["'r2'", "small"]);
    }
}
