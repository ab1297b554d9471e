//! Prompts, predictions, constructed weights and comparisons as files: what goes in, what comes out, what is refused.

mod common;

use std::path::Path;

use tempfile::TempDir;

use common::{done, done_json, ended, entries, iclab, json, read, refused_with, says, with};

/// A directory with `p.npz`: 12 prompts of 9 points in 4 dimensions.
fn with_prompts() -> TempDir {
    let dir = with(&[]);
    done(dir.path(), "sample --dim 4 --points 9 --prompts 12 --seed 7 --out p.npz");
    dir
}

#[test]
fn the_same_seed_gives_the_same_file() {
    let dir = with_prompts();
    for (seed, out) in [(7, "again"), (8, "other")] {
        let line = format!("sample --dim 4 --points 9 --prompts 12 --seed {seed} --out {out}.npz");
        done(dir.path(), &line);
    }
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    assert_eq!(read("p.npz"), read("again.npz"));
    assert_ne!(read("p.npz"), read("other.npz"));
}

#[test]
fn predictions_of_a_file_match_the_learner_that_made_it() {
    let dir = with_prompts();
    let said = done(dir.path(), "predict newton --steps 0..=8 --prompts p.npz --out o.npz");
    says(&said, &["newton at steps 0..=8 on 12 prompts of 9 points"]);
    let line = "compare file:o.npz newton --steps-b 0..=8 --prompts p.npz --out c --json";
    assert_eq!(done_json(dir.path(), line)["best"], json("[0,1,2,3,4,5,6,7,8]"));
    let files =
        [".iclab-files", "figures", "index.html", "ledger.json", "plan.toml", "result.json", "tables"];
    assert_eq!(entries(&dir.path().join("c")), files);
    let left = entries(dir.path()).into_iter().find(|name| name.starts_with(".iclab"));
    assert_eq!(left, None, "no temporary files are left");
}

#[test]
fn constructed_weights_predict_what_the_algorithm_does() {
    let dir = with_prompts(); // d = 4, 9 points
    let variants = [("compact", 9, 17), ("compact --start identity", 8, 17), ("paper", 14, 32)];
    for (variant, layers, width) in variants {
        let line = format!(
            "construct newton --variant {variant} --iterations 6 --dim 4 --points 8 --out w.safetensors"
        );
        let size = format!("6 iterations, {layers} layers, width {width}, 2 heads");
        says(&done(dir.path(), &line), &[&size]);
        let result = done_json(dir.path(), &format!("{line} --json"));
        assert!(result["deviation"].as_f64().unwrap() < 1e-9, "{result}");
        says(&read(dir.path().join("w.README.md")), &["## Slots", "Newton"]);
        assert!(std::fs::read(dir.path().join("w.png")).unwrap().starts_with(b"\x89PNG"));
        says(&read(dir.path().join("w.svg")), &["Newton"]);

        let learner = "construct:w.safetensors";
        let said = done(dir.path(), &format!("predict {learner} --prompts p.npz --out o.npz"));
        says(&said, &["at steps 0..=6 on 12 prompts of 9 points"]);
        let solver = result["algorithm"].as_str().unwrap();
        for (learner, measure) in [(learner, "l2e"), ("file:o.npz", "sime")] {
            let line = format!(
                "compare {learner} {solver} --steps-a 0..=6 --steps-b 0..=6 --prompts p.npz \
                 --measure {measure} --out c --json"
            );
            assert_eq!(done_json(dir.path(), &line)["best"], json("[0,1,2,3,4,5,6]"), "{variant}");
        }
    }
    let steps = "predict construct:w.safetensors --steps 7 --prompts p.npz --out x.npz";
    refused_with(dir.path(), steps, &["iterations 0 to 6"]);
    done(dir.path(), "sample --dim 4 --points 10 --prompts 2 --out long.npz");
    let long = "predict construct:w.safetensors --prompts long.npz --out x.npz";
    refused_with(dir.path(), long, &["10 points", "at most 9"]);
}

#[test]
fn the_printed_construction_says_how_wrong_it_is() {
    let dir = with(&[]);
    let deviation = |more: &str| {
        let line = "construct newton --iterations 2 --dim 3 --points 6 --json --out w.safetensors";
        done_json(dir.path(), &format!("{line} {more}"))["deviation"].as_f64().unwrap()
    };
    assert!(deviation("--variant printed") > 0.01);
    assert!(deviation("--variant causal") > 1e-6, "under a causal mask it is not exact");
    assert!(deviation("") < 1e-9);
}

#[test]
fn every_solver_predicts_with_its_own_default_steps() {
    let dir = with_prompts();
    for row in done_json(dir.path(), "list solvers --json")["solvers"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        done(dir.path(), &["predict", name, "--prompts", "p.npz", "--out", "o.npz"]);
    }
}

#[test]
fn a_plan_can_be_run_again() {
    let dir = with(&[]);
    let plan = |d: &str| read(dir.path().join(d).join("plan.toml"));
    for measure in ["sime", "simw", "l2e", "l2w"] {
        let line = format!(
            "compare newton:lambda=0.1 gd --steps-a 0..=9 --out a --json \
             --dim 4 --points 12 --prompts 20 --measure {measure} --from 1"
        );
        let first = done_json(dir.path(), &line);
        let again = done_json(dir.path(), "compare --plan a/plan.toml --out b --json");
        assert_eq!(first, again, "{measure}");
        assert_eq!(plan("a"), plan("b"));
    }
    refused_with(dir.path(), "compare --plan a/result.json --out c", &["result.json"]);
    std::fs::write(dir.path().join("typo.toml"), plan("a").replace("measure", "mesure")).unwrap();
    refused_with(dir.path(), "compare --plan typo.toml --out c", &["typo.toml", "mesure", "line"]);
}

#[test]
fn newton_against_gd_is_exponential() {
    let dir = with(&[]);
    let line = "compare newton gd --steps-a 0..=20 --steps-b pow2:0..=12 --prompts 64 --out c --json";
    let result = done_json(dir.path(), line);
    assert_eq!(result["rate"]["trend"], "exponential");
    assert_eq!(result["best"][13], 128);
    says(&read(dir.path().join("c/index.html")), &["Newton against GD"]);
}

#[test]
fn predictions_need_the_prompts_they_were_made_for() {
    let dir = with_prompts();
    done(dir.path(), "predict newton --steps 0..=3 --prompts p.npz --out o.npz");
    done(dir.path(), "sample --dim 4 --points 9 --prompts 12 --seed 8 --out other.npz");
    done(dir.path(), "sample --dim 4 --points 9 --prompts 20 --seed 7 --out more.npz");
    done(dir.path(), "sample --dim 4 --points 8 --prompts 12 --seed 7 --out short.npz");
    for (prompts, words) in [
        ("other.npz", "file:o.npz was made for other prompts: the fingerprints of 12 of 12 differ"),
        ("more.npz", "made for 12 prompts, and these are 20"),
        ("short.npz", "made for prompts of 9 points, and these have 8"),
        ("12 --dim 4 --points 9 --seed 8", "12 of 12 differ"),
        ("p.npz --steps-a 0..=9", "step 4 is not in o.npz"),
    ] {
        refused_with(dir.path(), &format!("compare file:o.npz gd --out c --prompts {prompts}"), &[words]);
    }
    // its own prompts: all of them, the first of them, sampled again
    done(dir.path(), "sample --dim 4 --points 9 --prompts 5 --seed 7 --out few.npz");
    for prompts in ["p.npz", "few.npz", "12 --dim 4 --points 9 --seed 7"] {
        let line = format!("compare file:o.npz newton --steps-b 0..=3 --out c --json --prompts {prompts}");
        let found = done_json(dir.path(), &line);
        assert_eq!((&found["best"], &found["notes"]), (&json("[0,1,2,3]"), &json("[]")), "{prompts}");
    }
}

#[test]
fn predictions_without_a_fingerprint_come_with_a_warning() {
    let dir = with_prompts();
    let steps = ("steps", "<i8", "(1,)", 1i64.to_le_bytes().to_vec());
    let values = || ("values", "<f8", "(1, 12, 9)", floats(&[0.5; 108]));
    write_npz(&dir.path().join("o.npz"), &[steps.clone(), values()]);
    let (_, notes) = ended(dir.path(), "compare file:o.npz gd --prompts p.npz --out c", 0);
    let warning = "file:o.npz has no array 'fingerprint'";
    assert!(notes.starts_with(&format!("note: {warning}")), "{notes}");
    for text in [read(dir.path().join("c/result.json")), read(dir.path().join("c/index.html"))] {
        assert!(text.contains("nothing shows that it was made for these prompts"), "{text}");
    }
    let sampled = "compare file:o.npz gd --prompts 12 --dim 4 --points 9 --out c";
    refused_with(dir.path(), sampled, &["particular prompts", "no fingerprint"]);
    // NumPy may have made it int64, which keeps every bit; as float64 it would be another number
    for (kind, words) in [("<i8", "of 12 differ"), ("<f8", "accepted: dtype uint64")] {
        let fingerprint = ("fingerprint", kind, "(12,)", vec![7; 96]);
        write_npz(&dir.path().join("o.npz"), &[steps.clone(), values(), fingerprint]);
        refused_with(dir.path(), "compare file:o.npz gd --prompts p.npz --out d", &["o.npz", words]);
    }
    let fingerprint = ("fingerprint", "<u8", "(1,)", vec![0; 8]);
    let xs = ("xs", "<f8", "(1, 2, 2)", floats(&[1.0; 4]));
    write_npz(&dir.path().join("q.npz"), &[xs, ("ys", "<f8", "(1, 2)", floats(&[1.0; 2])), fingerprint]);
    refused_with(
        dir.path(),
        "predict gd --prompts q.npz --out x.npz",
        &["q.npz", "belongs to other prompts"],
    );
}

#[test]
fn predictions_that_are_not_finite_are_refused_or_counted() {
    let dir = with_prompts();
    let steps = ("steps", "<i8", "(2,)", floats(&[f64::from_bits(1), f64::from_bits(2)]));
    let mut values = [0.5; 216];
    (values[108 + 3 * 9 + 4], values[200]) = (f64::NAN, f64::INFINITY);
    write_npz(&dir.path().join("o.npz"), &[steps, ("values", "<f8", "(2, 12, 9)", floats(&values))]);
    let words = ["o.npz", "'values' is NaN at [1, 3, 4]", "one of 2 such numbers", "finite"];
    refused_with(dir.path(), "compare file:o.npz gd --prompts p.npz --out c", &words);
    // an algorithm that diverges says so, and so does the file of its predictions
    done(dir.path(), "predict gd:eta=0.5 --steps pow2:0..=12 --prompts p.npz --out gd.npz");
    let counted = ["gd:eta=0.5", "file:gd.npz"].map(|learner| {
        let line = format!("compare {learner} newton --steps-a pow2:0..=12 --prompts p.npz --out c");
        let (_, notes) = ended(dir.path(), &line, 0);
        says(&notes, &["of 12 prompts are left out", "pairs of steps"]);
        says(&read(dir.path().join("c/index.html")), &["of 12 prompts are left out", "prompts left out"]);
        let result = json(&read(dir.path().join("c/result.json")));
        let left_out = result["left_out"].as_array().unwrap().clone();
        assert!(left_out[0] == 0 && left_out.iter().any(|n| *n != 0), "{left_out:?}");
        left_out
    });
    assert_eq!(counted[0], counted[1]);
}

#[test]
fn a_construction_is_compared_with_its_own_algorithm() {
    let dir = with(&[]);
    for (algorithm, start, step) in
        [("newton", "gram", "alpha"), ("newton", "identity", "eta"), ("gd", "", "eta")]
    {
        let line = format!("construct {algorithm} --iterations 6 --dim 4 --points 8 --out w.safetensors");
        let line = if start.is_empty() { line } else { format!("{line} --start {start}") };
        done(dir.path(), &line);
        let line = format!(
            "compare construct:w.safetensors {algorithm} --steps-b 0..=9 --prompts 16 --out c --json"
        );
        let (said, notes) = ended(dir.path(), &line, 0);
        says(&notes, &[&format!("note: {algorithm} takes {step}="), "from the weights of construct:"]);
        let found = json(&said);
        assert_eq!(found["best"], json("[0,1,2,3,4,5,6]"));
        let same = |s: &serde_json::Value| (s.as_f64().unwrap() - 1.0).abs() < 1e-9;
        assert!(found["similarity"].as_array().unwrap().iter().all(same), "{found}");
        let plan = read(dir.path().join("c/plan.toml"));
        let other = plan.lines().find(|line| line.starts_with("b = ")).unwrap();
        let given = |sign: &str| other.contains(&format!("{sign}{step}="));
        assert!(other.starts_with(&format!("b = \"{algorithm}:")) && (given(":") || given(",")), "{plan}");
        assert_eq!(other.contains("start=identity"), start == "identity", "{plan}");
        says(&plan, &["dim = 4", "points = 9"]); // which its weights know
        assert_eq!(done_json(dir.path(), "compare --plan c/plan.toml --out d --json")["best"], found["best"]);
    }
    // what is asked for stays
    done(dir.path(), "construct newton --iterations 6 --dim 4 --points 8 --out n.safetensors");
    let line = "compare newton:start=identity construct:n.safetensors --prompts 16 --out c --json";
    assert_eq!(done_json(dir.path(), line)["notes"], json("[]"));
    let line = "compare gd:eta=0.01 construct:w.safetensors --prompts 16 --out c --json";
    assert_eq!(done_json(dir.path(), line)["notes"], json("[]"));
    says(&read(dir.path().join("c/plan.toml")), &["a = \"gd:eta=0.01,"]);
}

#[test]
fn a_rate_needs_five_matches_and_steps() {
    let dir = with(&[]);
    let compared = |what: &str| {
        let line = format!("compare {what} --dim 4 --points 9 --prompts 16 --out c --json");
        let found = done_json(dir.path(), &line);
        let page = read(dir.path().join("c/index.html"));
        match found["no_rate"].as_str() {
            None => assert!(found["rate"]["trend"].is_string() && !page.contains("No rate")),
            Some(why) => {
                assert!(found["rate"].is_null() && page.contains(why) && !page.contains("doublings"))
            }
        }
        found["no_rate"].as_str().unwrap_or_default().to_string()
    };
    says(&compared("newton gd --steps-a 3..=6"), &["4 best matches away from the ends", "needs 5"]);
    assert_eq!(compared("newton gd --steps-a 3..=9"), "");
    says(&compared("newton ols"), &["OLS has one step"]);
    says(&compared("ridge newton"), &["ridge has one step"]);
}

/// One array of an .npz, from raw parts: name, dtype, shape, data.
type Part<'a> = (&'a str, &'a str, &'a str, Vec<u8>);

fn write_npz(path: &Path, arrays: &[Part]) {
    let mut zip = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, kind, shape, data) in arrays {
        zip.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes());
        bytes.extend(data);
        std::io::Write::write_all(&mut zip, &bytes).unwrap();
    }
    zip.finish().unwrap();
}

fn floats(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn wrong_arrays_are_named() {
    let dir = with(&[]);
    let ys = || ("ys", "<f8", "(1, 2)", floats(&[1.0, 2.0]));
    let cases: Vec<(Vec<Part>, &[&str])> = vec![
        (vec![ys()], &["no array 'xs'", "ys"]),
        (vec![("xs", "<f8", "(1, 4)", floats(&[0.0; 4])), ys()], &["'xs'", "[1, 4]", "3 axes"]),
        (vec![("xs", "<f8", "(1, 2, 2)", floats(&[0.0; 3])), ys()], &["'xs'", "truncated"]),
        (vec![("xs", "<f8", "(1, 3, 2)", floats(&[0.0; 6])), ys()], &["ys of shape [1, 3]"]),
        (vec![("xs", "<c16", "(1, 2, 2)", floats(&[0.0; 8])), ys()], &["'<c16'", "float64"]),
        (vec![("xs", "<f8", "(1, 2, 2)", floats(&[0.0, f64::NAN, 0.0, 0.0])), ys()], &["xs[0, 0, 1] is NaN"]),
        (vec![("xs", "<f8", "(99999999999, 99999999999, 9)", floats(&[0.0; 4])), ys()], &["'xs'"]),
        (vec![("xs", "<f8", "(0, 2, 2)", vec![]), ("ys", "<f8", "(0, 2)", vec![])], &["at least one prompt"]),
    ];
    for (arrays, words) in cases {
        write_npz(&dir.path().join("bad.npz"), &arrays);
        let words = [&["bad.npz"], words].concat();
        refused_with(dir.path(), "predict gd --prompts bad.npz --out o.npz", &words);
        assert_eq!(entries(dir.path()), ["bad.npz"]);
    }
    // float32, as PyTorch would write it, is accepted
    let xs: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    write_npz(&dir.path().join("good.npz"), &[("xs", "<f4", "(1, 2, 2)", xs), ys()]);
    done(dir.path(), "predict gd --prompts good.npz --out o.npz");
}

#[test]
fn damaged_files_never_panic() {
    let dir = with_prompts();
    let good = std::fs::read(dir.path().join("p.npz")).unwrap();
    let path = dir.path().join("bad.npz");
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    for case in 0..120 {
        let mut bytes = good.clone();
        if case % 2 == 0 {
            bytes.truncate(random(bytes.len()));
        } else {
            for _ in 0..1 + random(4) {
                let at = random(bytes.len());
                bytes[at] = random(256) as u8;
            }
        }
        std::fs::write(&path, bytes).unwrap();
        let output = iclab(dir.path(), "predict averaging --prompts bad.npz --out o.npz");
        let stderr = String::from_utf8_lossy(&output.stderr);
        // a flipped byte inside a number may pass the checks; anything else is refused with a sentence
        assert!(matches!(output.status.code(), Some(0 | 2)), "case {case}: {:?} {stderr}", output.status);
        assert!(!stderr.contains("panicked"), "case {case}: {stderr}");
    }
}
