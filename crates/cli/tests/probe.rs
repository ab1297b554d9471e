//! Probing as a user meets it: read-outs fitted once, kept beside the checkpoint, and clear words when something is wrong.

mod common;

use std::path::PathBuf;

use tempfile::TempDir;

use common::{TINY, done, done_json, ended, json, only_run, read, refused_with, says, with};

/// A directory with one finished run, and where that is.
fn trained() -> (TempDir, PathBuf) {
    let dir = with(&[("tiny.toml", &TINY.replace("steps = 400", "steps = 40"))]);
    done(dir.path(), "train tiny.toml");
    let run = only_run(dir.path());
    (dir, run)
}

#[test]
fn read_outs_are_fitted_once_and_used_by_compare() {
    let (dir, run) = trained();
    let run_text = run.to_str().unwrap();
    let first = done_json(dir.path(), &["probe", run_text, "--json"]);
    assert_eq!(first["layers"].as_array().unwrap().len(), 3);
    assert!(first["fit"]["saved"].is_null() && first["fit"]["targets"] == "ols");
    let written = std::fs::read(run.join("readouts.safetensors")).unwrap();
    let second = done_json(dir.path(), &["probe", run_text, "--json"]);
    assert!(second["fit"]["saved"].as_str().unwrap().ends_with("readouts.safetensors"));
    assert_eq!((&first["layers"], &first["trained"]), (&second["layers"], &second["trained"]));
    // Ablations, in today's spelling, as a patch, and in the older one.
    let compared = ["ablate=zero:1", "patch=zero:blocks.1.out", "skip=1"].map(|how| {
        let line =
            format!("compare run:{run_text},{how} newton --dim 3 --points 6 --prompts 16 --out o --json");
        done_json(dir.path(), &line)["best"].clone()
    });
    assert_eq!(compared[0], compared[1]);
    assert_eq!(compared[0], compared[2]);
    assert_eq!(std::fs::read(run.join("readouts.safetensors")).unwrap(), written);
    says(&done(dir.path(), &["probe", run_text]), &["error/d at t=5", "fitted before"]);
}

#[test]
fn reports_are_written_whole() {
    let (dir, run) = trained();
    let run = run.to_str().unwrap();
    let without = ("--interventions", "interventions-heads", "the error after all pairs grows most");
    let along = ("--over-training", "emergence-maps", "The last layer matches Newton step");
    for (what, figure, answer) in [without, along] {
        says(&done(dir.path(), &["probe", run, what, "--look", "16", "--out", "report"]), &["Newton"]);
        for ending in ["svg", "png", "csv"] {
            assert!(dir.path().join(format!("report/figures/{figure}.{ending}")).is_file());
        }
        says(&read(dir.path().join("report/index.html")), &[answer]);
    }
}

#[test]
fn states_are_read_and_read_again_from_their_plan() {
    let (dir, run) = trained();
    let (at, run) = (dir.path(), run.to_str().unwrap());
    let line = format!("probe {run} --state --steps 0..=3 --prompts 64 --out states");
    says(&done(at, &line), &["its stream explains at most", "shuffled", "selectivity"]);
    for name in
        ["figures/gains.svg", "figures/steps.png", "figures/maps.csv", "tables/controls.csv", "plan.toml"]
    {
        assert!(at.join("states").join(name).is_file(), "{name}");
    }
    done(at, "probe --state --plan states/plan.toml --out again");
    assert_eq!(read(at.join("states/result.json")), read(at.join("again/result.json")));

    done(at, "construct gd++ --iterations 3 --dim 3 --points 6 --out w.safetensors");
    let built =
        done_json(at, "probe construct:w.safetensors --state --read-out mlp --prompts 64 --out built --json");
    assert_eq!(built["algorithm"].as_str().unwrap().split(':').next(), Some("gd++"));
    let decoded = built["decoded"].as_array().unwrap();
    let residual = decoded.iter().find(|d| {
        d["tokens"] == "y tokens" && d["quantity"] == "residual" && d["layer"] == 3 && d["step"] == 2
    });
    assert!(residual.unwrap()["gain"]["value"].as_f64().unwrap() > 0.95, "{residual:?}");

    let state = |more: &str| format!("probe {run} --state --out o {more}");
    refused_with(at, &state("--algorithm cg"), &["cg has no closed form", "accepted: newton, gd, gd++"]);
    refused_with(at, &state("--algorithm newtn"), &["newtn", "newton"]);
    refused_with(at, &state("--read-out tree"), &["tree", "affine, mlp"]);
    refused_with(at, &state("--other-inputs skewed:kapa=3"), &["kapa", "kappa"]);
    refused_with(at, &state("--steps 5..=1"), &["5..=1"]);
    let recorded = concat!("probe ", env!("CARGO_MANIFEST_DIR"), "/../../models/r5 --state --out o");
    refused_with(at, recorded, &["no weights; accepted: a network with weights"]);
    refused_with(at, "probe construct:none.safetensors --state --out o", &["none.safetensors"]);
    assert!(!at.join("o").exists(), "nothing is half-written");
}

#[test]
fn mistakes_are_named() {
    let (dir, run) = trained();
    let at = dir.path();
    let run_text = run.display();
    refused_with(at, "probe nowhere", &["no such run"]);
    let trained_on = "was trained on linear of gaussian inputs, 3 dimensions";
    refused_with(at, &format!("probe {run_text} --dim 4"), &[trained_on]);
    done(at, "sample --dim 3 --points 6 --prompts 4 --out p.npz");
    for how in ["ablate=zero:9", "skip=9"] {
        let line = format!("predict run:{run_text},{how} --prompts p.npz --out o");
        refused_with(at, &line, &["accepted: 1 to 2"]);
    }
    for (how, said) in [
        ("zero:blocks.1.attn.q", "did you mean blocks.1.attn.z?"),
        ("mean:blocks.9.out", "there is no such block; accepted: 1 to 2"),
        ("zero:blocks.2.mlp.hidden@y", "a patch at the y tokens touches nothing"),
        ("zero:blocks.1.out@query", "accepted: zero:, mean: or donor:"),
    ] {
        let line = format!("predict run:{run_text},patch={how} --prompts p.npz --out o");
        refused_with(at, &line, &[said]);
    }
    std::fs::remove_dir_all(run.join("kept")).unwrap();
    refused_with(at, &format!("probe {run_text} --over-training --out o"), &["keep = 20"]);
    std::fs::write(run.join("checkpoint.safetensors"), b"no").unwrap();
    refused_with(at, &format!("probe {run_text}"), &["not a whole safetensors file"]);
    assert!(!at.join("o").exists());
}

#[test]
fn a_run_is_found_by_its_name_and_knows_its_task() {
    let (dir, run) = trained();
    let at = dir.path();
    let folder = run.strip_prefix(at).unwrap().display().to_string();
    let (said, notes) = ended(at, "compare run:tiny newton --prompts 16 --out c", 0);
    assert_eq!(notes, format!("note: tiny is {folder}\n"));
    says(&said, &["linear on gaussian inputs, d=3, 16 prompts"]);
    says(&read(at.join("c/index.html")), &[&format!("tiny is {folder}")]);
    let plan = read(at.join("c/plan.toml"));
    says(&plan, &[&format!("a = \"run:{folder}\""), "dim = 3", "points = 6", "queries = 30"]);
    done(at, "compare --plan c/plan.toml --out again");
    assert_eq!(plan, read(at.join("again/plan.toml")));
    says(&ended(at, "probe tiny --look 16", 0).0, &["3 dimensions, 6 points"]);
    done(at, "sample --dim 3 --points 4 --prompts 5 --out short.npz");
    says(
        &done(at, &format!("predict run:{folder} --prompts short.npz --out o.npz")),
        &["5 prompts of 4 points"],
    );
    // what is asked for wins where it is possible
    let asked =
        format!("compare run:{folder} newton --prompts 16 --out c --inputs skewed:kappa=10 --points 5");
    let (said, notes) = ended(at, &asked, 0);
    says(&notes, &["trained on gaussian inputs (here skewed:kappa=10)"]);
    says(&said, &["skewed:kappa=10 inputs, d=3"]);
    let asked = |more: &str| format!("compare run:{folder} newton --out x {more}");
    refused_with(at, &asked("--points 7"), &["7 points for tiny", "at most 6"]);
    refused_with(at, &asked("--dim 4"), &["4 dimensions for tiny", "at most 3"]);
    refused_with(at, "compare run:tinny newton --out x", &["no such run", "did you mean tiny?"]);
    refused_with(at, &format!("compare {folder} newton --out x"), &[&format!("did you mean run:{folder}?")]);
    refused_with(at, "compare mine.npz newton --out x", &["did you mean file:mine.npz?"]);
    assert!(!at.join("x").exists());
}

#[test]
fn the_own_output_of_a_run_is_that_of_its_trained_read_out() {
    let (dir, run) = trained();
    let (at, run) = (dir.path(), run.display().to_string());
    done(at, "sample --dim 3 --points 6 --prompts 8 --out p.npz");
    done(at, &format!("predict run:{run}@own --prompts p.npz --out own.npz"));
    let line = format!(
        "compare file:own.npz run:{run},readout=trained --prompts p.npz --measure l2e --out c --json"
    );
    let found = done_json(at, &line);
    assert_eq!((&found["steps_a"], &found["best"]), (&json("[2]"), &json("[2]")));
    assert!(found["similarity"][0].as_f64().unwrap() < 1e-12, "{found}");
}
