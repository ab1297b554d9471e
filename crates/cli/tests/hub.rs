//! `iclab export --hub`: a folder as the Hugging Face hub expects it.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{TINY, done, ended, entries, json, only_run, read, refused_with, says, with};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The YAML at the top of a card, which has plain keys, plain values and one list: (key, value), the list's items joined.
fn front_matter(card: &str) -> Vec<(String, String)> {
    let (yaml, _) = card.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap();
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let mut found: Vec<(String, String)> = Vec::new();
    for line in yaml.lines() {
        if let Some(item) = line.strip_prefix("- ") {
            assert!(plain(item), "{line}");
            found.last_mut().unwrap().1 += &format!("{item} ");
        } else {
            let (key, value) = line.split_once(':').unwrap();
            assert!(plain(key) && plain(value.trim()), "{line}");
            found.push((key.into(), value.trim().into()));
        }
    }
    found
}

fn field(card: &str, key: &str) -> Option<String> {
    front_matter(card).into_iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

const TAGS: &str = "in-context-learning linear-regression iclab ";

#[test]
fn a_run_becomes_a_folder_of_the_hub_and_comes_back_bit_for_bit() {
    let dir = with(&[("tiny.toml", TINY)]);
    let dir = dir.path();
    done(dir, "train tiny.toml --steps 6");
    let (said, notes) = ended(dir, "export tiny --hub shared", 0);
    says(
        &said,
        &["GPT-2, 2 layers", "shared/README.md: ", "nothing was sent", "hf upload USER/tiny shared ."],
    );
    says(&notes, &["note: tiny is runs/tiny-"]);
    assert_eq!(entries(&dir.join("shared")), ["README.md", "config.json", "model.safetensors"]);
    let config = json(&read(dir.join("shared/config.json")));
    assert_eq!((&config["model_type"], &config["n_positions"]), (&"gpt2".into(), &12.into()));
    let card = read(dir.join("shared/README.md"));
    assert_eq!(field(&card, "library_name").as_deref(), Some("transformers"));
    assert_eq!((field(&card, "tags").as_deref(), field(&card, "license")), (Some(TAGS), None));
    says(
        &card,
        &["\n# tiny\n", "2 layers and 2 heads, 16 wide", "all 6 steps", "over 1280 fresh prompts: mean loss"],
    );
    says(
        &card,
        &["--function linear --inputs gaussian --dim 3 --points 6 --out p.npz", "steps = 6", "Adam at 1e-3"],
    );
    says(
        &card,
        &["GPT2Model.from_pretrained", "torch.randn(64, 6, 3)", "iclab import DIR", "2310.17086", "whoever"],
    );
    assert!(!card.contains("POINTS") && !card.contains("DIM,"));
    // the same bits come back, by the run's name, its directory, its checkpoint and its folder on the hub
    done(dir, "import shared --out back.safetensors");
    let run = only_run(dir);
    let sources =
        ["back.safetensors", run.to_str().unwrap(), &format!("{}/checkpoint.safetensors", run.display())];
    for (index, from) in sources.iter().enumerate() {
        let out = format!("out{index}");
        done(dir, &["export", from, "--out", &out]);
        let [one, other] =
            [&*out, "shared"].map(|folder| fs::read(dir.join(folder).join("model.safetensors")));
        assert!(one.unwrap() == other.unwrap(), "{from}");
    }
    done(dir, &["export", run.to_str().unwrap(), "--hub", "half", "--dtype", "f16"]);
    says(&read(dir.join("half/README.md")), &["parameters in float16"]);
}

#[test]
fn an_lstm_says_what_it_is_and_what_is_not_known_of_it() {
    let dir = with(&[]);
    let dir = dir.path();
    let golden = repository().join("crates/engine/tests/golden/lstm.pt");
    done(dir, &["import", golden.to_str().unwrap(), "--out", "l.safetensors"]);
    done(dir, "export l.safetensors --hub shared");
    let config = json(&read(dir.join("shared/config.json")));
    assert_eq!((&config["model_type"], &config["hidden_size"]), (&"lstm".into(), &6.into()));
    let card = read(dir.join("shared/README.md"));
    assert_eq!((field(&card, "library_name"), field(&card, "tags").as_deref()), (None, Some(TAGS)));
    says(
        &card,
        &["# l\n\nAn LSTM of 2 layers, 6 wide", "Not recorded", "torch.nn.LSTM(", "backbone.load_state_dict"],
    );
    done(dir, "import shared --out back.safetensors");
    done(dir, "export back.safetensors --hub again");
    let weights = |folder: &str| fs::read(dir.join(folder).join("model.safetensors")).unwrap();
    assert!(weights("shared") == weights("again"));
}

#[test]
fn a_shipped_network_has_the_words_of_its_card_and_must_be_whole() {
    let dir = with(&[]);
    let dir = dir.path();
    let copy = dir.join("models/r6-8");
    fs::create_dir_all(&copy).unwrap();
    for entry in fs::read_dir(repository().join("models/r6-8")).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, copy.join(from.file_name().unwrap())).unwrap();
    }
    ended(dir, "export r6-8 --hub shared", 0);
    let card = read(dir.join("shared/README.md"));
    assert_eq!(field(&card, "license").as_deref(), Some("mit"));
    let own = read(copy.join("README.md"));
    let lines = own.lines().filter(|line| line.starts_with("# ") || line.starts_with("- over "));
    lines.for_each(|line| says(&card, &[line]));
    says(&card, &["trained by `experiments/", "MIT or Apache-2.0, at your choice"]);
    fs::write(copy.join("checkpoint.safetensors"), "else").unwrap();
    refused_with(
        dir,
        "export models/r6-8 --hub other",
        &["checkpoint.safetensors", "4 bytes where its card says"],
    );
    fs::remove_file(copy.join("checkpoint.safetensors")).unwrap();
    fs::write(copy.join("predictions.safetensors"), "").unwrap();
    refused_with(dir, "export models/r6-8 --hub other", &["but no weights; accepted: "]);
    assert_eq!(entries(dir), ["models", "shared"]);
}

#[test]
fn what_is_no_network_or_no_place_is_said_in_a_sentence() {
    let dir = with(&[]);
    let dir = dir.path();
    fs::create_dir(dir.join("mine")).unwrap();
    fs::write(dir.join("mine/notes.txt"), "mine").unwrap();
    let golden = repository().join("crates/engine/tests/golden/garg.pt");
    done(dir, &["import", golden.to_str().unwrap(), "--heads", "2", "--out", "m.safetensors"]);
    let before = entries(dir);
    let refused = |line: &str, words: &[&str]| refused_with(dir, line, words);
    refused("export m.safetensors --hub mine", &["mine: it exists already", "a new name or an empty folder"]);
    refused("export m.safetensors --hub m.safetensors", &["m.safetensors", "another name"]);
    refused("export m.safetensors --hub absent/x", &["absent/x: cannot write"]);
    refused("export absent --hub x", &["absent", "no such run", "accepted: "]);
    refused("export mine --hub x", &["mine", "is a directory without plan.toml; accepted: "]);
    refused("export m.safetensors", &["--out", "--hub"]);
    refused("export m.safetensors --out y --hub x", &["cannot be used with"]);
    refused("export m.safetensors --hub x --names garg", &["'--hub <DIR>'", "cannot be used with"]);
    refused("export m.safetensors --hub x --max-shard-size 1MB", &["'--hub <DIR>'", "cannot be used with"]);
    assert_eq!(entries(dir), before, "nothing half-written");
    assert_eq!(entries(&dir.join("mine")), ["notes.txt"]);
}
