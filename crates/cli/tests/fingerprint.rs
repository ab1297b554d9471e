//! `iclab fingerprint`: algorithms are named, files of predictions take part, and what cannot be measured is refused.

mod common;

use std::path::Path;

use serde_json::Value;

use common::{done, done_json, ended, entries, json, read, refused_with, says, with};

const SMALL: &str = "--dim 5 --points 16 --prompts 64 --out f --json";

/// The algorithms that the learner may be.
fn names(found: &Value) -> Vec<&str> {
    found["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn newton_from_the_identity_is_named_and_is_gradient_descent_with_twice_the_steps() {
    let dir = with(&[]);
    let found = done_json(dir.path(), &format!("fingerprint newton:start=identity --steps 0..=6 {SMALL}"));
    let named = names(&found);
    assert!(named.contains(&"newton:start=identity") && named.contains(&"gd:eta=fro"), "{named:?}");
    assert!(!named.contains(&"newton") && !named.contains(&"cg"), "{named:?}");
    assert_eq!(found["unit"], "norm", "its start is 1/‖S‖_F");
    let gd = found["candidates"].as_array().unwrap().iter().find(|c| c["name"] == "gd:eta=fro").unwrap();
    let says: Vec<bool> = serde_json::from_value(found["informative"].clone()).unwrap();
    for k in (0..says.len()).filter(|k| says[*k]) {
        assert_eq!(gd["steps"][k], 1 << k, "{gd}");
    }
    let order = found["worth"]["order"].as_f64().unwrap();
    assert!((order - 2.0).abs() < 0.1, "{order}");
    let files = [
        ".iclab-files",
        "figures",
        "fingerprint.npz",
        "index.html",
        "ledger.json",
        "plan.toml",
        "result.json",
        "tables",
    ];
    assert_eq!(entries(&dir.path().join("f")), files);
    says_of_page(dir.path(), &["Which algorithm is Newton (start=identity)?", "Filters of", "2f − f²"]);
}

fn says_of_page(dir: &Path, words: &[&str]) {
    says(&read(dir.join("f/index.html")), words);
}

#[test]
fn the_answer_is_printed_first() {
    let dir = with(&[]);
    let line = "fingerprint newton --steps 0..=8 --dim 5 --points 16 --prompts 64 --out f";
    let said = done(dir.path(), line);
    assert!(said.starts_with("Closest is newton, which leaves 0.0 % of w − w_OLS; the next, "), "{said}");
    let second = said.lines().nth(1).unwrap();
    assert!(second.contains("each iteration is worth 1.0 Newton iterations (order 2.0): f ← "), "{second}");
    says(&said, &["Which algorithm?", "After 10 pairs", "f/index.html"]);
}

#[test]
fn recorded_predictions_take_part_and_say_what_is_left_out() {
    let dir = with(&[]);
    done(dir.path(), "sample --dim 4 --points 13 --prompts 400 --seed 7 --out p.npz");
    done(dir.path(), "predict newton --steps 0..=7 --prompts p.npz --out o.npz");
    // by the file of its prompts, or by sampling them again
    for prompts in ["--prompts p.npz", "--dim 4 --points 13 --seed 7"] {
        let line = format!("fingerprint file:o.npz --knots 8 --out f --json {prompts}");
        let (said, notes) = ended(dir.path(), &line, 0);
        says(&notes, &["note: file:o.npz answers no fresh queries", "next point of 400 prompts", "left out"]);
        let found = json(&said);
        assert_eq!((names(&found), &found["prompts"]), (vec!["newton"], &Value::from(400)));
        assert!(found["linearity"].is_null());
        for after in found["after"].as_array().unwrap() {
            assert!(after["degrees"].as_array().unwrap().is_empty(), "{after}");
            assert!(after["outside"].as_array().unwrap().is_empty(), "{after}");
        }
        says_of_page(dir.path(), &["answers no fresh queries"]);
    }
    let few = "fingerprint file:o.npz --knots 12 --prompts 100 --dim 4 --points 13 --seed 7 --out g";
    refused_with(
        dir.path(),
        few,
        &["12 knots from 100 prompts", "accepted: from 4 to 5 knots", "240 prompts"],
    );
    let other = "fingerprint file:o.npz --prompts 400 --dim 4 --points 13 --seed 8 --out g";
    refused_with(dir.path(), other, &["made for other prompts"]);
    let against = "fingerprint newton --against file:o.npz --dim 4 --points 13 --out g";
    refused_with(dir.path(), against, &["file:o.npz has recorded predictions", "accepted"]);
    assert!(!dir.path().join("g").exists());
}

#[test]
fn prompts_of_a_file_are_asked_normal_queries() {
    let dir = with(&[]);
    done(dir.path(), "sample --dim 4 --points 13 --prompts 80 --seed 7 --out p.npz");
    let (said, notes) = ended(dir.path(), "fingerprint cg --prompts p.npz --out f --json", 0);
    says(&notes, &["note: p.npz does not tell the distribution of its inputs", "root mean square 0.9"]);
    assert_eq!(names(&json(&said)), ["cg"]);
    says(&read(dir.path().join("f/plan.toml")), &["queries = 8", "pairs = [5, 6, 8]", "prompts = \"p.npz\""]);
}

#[test]
fn directions_without_an_eigenvalue_are_left_out_aloud() {
    let dir = with(&[]);
    let line = format!("fingerprint gd --steps 1,4,16 --pairs 3 --knots 8 {SMALL}");
    let (said, notes) = ended(dir.path(), &line, 0);
    says(
        &notes,
        &["note: 3 pairs in 5 dimensions leave 2 directions without an eigenvalue", "hold up to 0.0 %"],
    );
    assert_eq!(json(&said)["after"][0]["outside"].as_array().unwrap().len(), 3);
}

#[test]
fn a_candidate_is_searched_until_it_diverges() {
    let dir = with(&[]);
    let line = format!("fingerprint newton --against gd:eta=0.2 --against newton {SMALL}");
    let (said, notes) = ended(dir.path(), &line, 0);
    says(&notes, &["note: gd:eta=0.2 diverges on some prompts after step "]);
    assert_eq!(names(&json(&said)), ["newton"]);
}

#[test]
fn a_plan_gives_the_same_bytes() {
    let dir = with(&[]);
    let line = "fingerprint gd:eta=fro --steps pow2:0..=6 --against newton --against gd --against gd:eta=fro --dim 4 \
                --points 10 --prompts 80 --knots 6 --seed 3 --out a";
    done(dir.path(), line);
    done(dir.path(), "fingerprint --plan a/plan.toml --out b");
    let plan = read(dir.path().join("a/plan.toml"));
    says(
        &plan,
        &["unit = \"norm\"", "pairs = [5, 6, 8]", "queries = 8", "steps = \"1,2,4,8,16,32,64\"", "eta=fro"],
    );
    for name in ["plan.toml", "result.json", "fingerprint.npz"] {
        let bytes = |folder: &str| std::fs::read(dir.path().join(folder).join(name)).unwrap();
        assert_eq!(bytes("a"), bytes("b"), "{name}");
    }
    for folder in ["figures", "tables"] {
        let of = |out: &str| dir.path().join(out).join(folder);
        assert_eq!(entries(&of("a")), entries(&of("b")));
        for name in entries(&of("a")) {
            let bytes = |out: &str| std::fs::read(of(out).join(&name)).unwrap();
            assert_eq!(bytes("a"), bytes("b"), "{folder}/{name}");
        }
    }
    done(dir.path(), "compare newton gd --dim 4 --points 9 --prompts 16 --out c");
    refused_with(dir.path(), "fingerprint --plan c/plan.toml --out d", &["plan.toml"]);
}

#[test]
fn what_cannot_be_measured_is_refused_and_nothing_is_written() {
    let dir = with(&[]);
    for (line, words) in [
        ("newtn", &["did you mean newton"][..]),
        ("newton --against newtn", &["did you mean newton"]),
        ("newton --function relu-2nn", &["labels are no linear function of the inputs"]),
        (
            "newton --prompts 4",
            &["12 knots from 4 prompts", "accepted: at least 48 prompts, or 16 with 4 knots"],
        ),
        ("newton --knots 3", &["3 knots", "accepted: from 4 to"]),
        ("newton --queries 0", &["0 queries per prompt; accepted: at least 1"]),
        ("newton --pairs 99", &["99 pairs of prompts with 16 points", "accepted: from 1 to 16"]),
        ("gd:eta=0.5 --steps 1,100", &["gd:eta=0.5 diverges within steps 1,100", "accepted: fewer steps"]),
        ("file:none.npz", &["none.npz"]),
    ] {
        refused_with(dir.path(), &format!("fingerprint {line} --dim 5 --points 16 --out f"), words);
        assert!(entries(dir.path()).is_empty(), "{line}");
    }
}
