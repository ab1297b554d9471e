//! `iclab patch`: maps, their plan, and what cannot be patched.

mod common;

use std::fs;

use common::{done, only_run, refused_with, with};

#[test]
fn labels_begin_in_the_y_tokens_and_inputs_in_the_query() {
    let dir = with(&[]);
    let place = dir.path();
    done(place, "train miniature --steps 3 --set network.layers=2 --set network.width=16");
    let run = only_run(place);
    let run = run.display();
    let said = done(place, &format!("patch {run} --prompts 8 --pairs 5 --device cpu --out labels"));
    assert!(said.contains("Answers follow the same inputs with labels of another function"), "{said}");
    let json = |out: &str| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(place.join(out).join("result.json")).unwrap()).unwrap()
    };
    let labels = json("labels");
    assert_eq!(labels["places"], serde_json::json!(["y tokens", "x tokens", "query"]));
    let first = &labels["follows"][0];
    let value = |share: &serde_json::Value| share["value"].as_f64().unwrap();
    assert_eq!(
        (value(&first[0]), value(&first[1]), value(&first[2])),
        (1.0, 0.0, 0.0),
        "before the first layer"
    );
    for file in ["index.html", "plan.toml", "figures/follows.svg", "tables/follows.csv"] {
        assert!(place.join("labels").join(file).is_file(), "{file}");
    }
    assert_eq!(labels["device"], "cpu");
    done(place, "patch --plan labels/plan.toml --device cpu --out again");
    assert_eq!(json("again"), labels);
    let line =
        format!("patch {run} --prompts 8 --pairs 5 --by-token --part attention --donor both --out tokens");
    done(place, &line);
    let tokens = json("tokens");
    assert_eq!(tokens["places"].as_array().unwrap().len(), 11);
    assert_eq!(tokens["places"][3], "y2");
}

#[test]
fn what_cannot_be_patched_is_said() {
    let dir = with(&[]);
    let place = dir.path();
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models");
    for (line, said) in [
        (format!("patch {models}/r1-fast --out x"), "but no weights; accepted: a network with weights"),
        (
            format!("patch {models}/r7 --prompts 8 --out x"),
            "only a Transformer has blocks with named activations",
        ),
        (format!("patch {models}/r1 --pairs 41 --out x"), "41 pairs; accepted: 1 to 40"),
        ("patch nothing --out x".into(), "there is no such run"),
        ("patch r1 --donor labls --out x".into(), "labls"),
        ("patch --plan labels.toml --out x".into(), "labels.toml"),
        (
            format!("patch {models}/r1 --device cpu --precision tf32 --out x"),
            "--precision is for CUDA devices",
        ),
    ] {
        refused_with(place, &line, &[said]);
        assert!(!place.join("x").exists(), "{line}");
    }
}
