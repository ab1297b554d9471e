//! Hostile inputs for every reader of the lab (`scripts/hostile` runs a million): a value or one sentence comes back, without a panic and cheaply.
//!
//! arrays: prompts, predictions, constructions, read-outs; plans: experiments, changes, sweeps; runs: cards, metrics, runs, what
//! SLURM says, kept findings; found: the mistakes that came to light.

mod arrays;
mod found;
mod plans;
mod runs;

use std::path::Path;

use engine::text::plain;
use hostile::{Cost, Counting, Random, Reader, bend_text, place};
use tempfile::TempDir;

use lab::networks::experiment::Experiment;

#[global_allocator]
static COUNTING: Counting = Counting;

const COST: Cost = Cost { times: 24, plus: 4 << 20 };

/// A reader whose sentences name `named`.
fn reader<'a>(name: &'a str, named: &'a str) -> Reader<'a> {
    Reader { name, cost: COST, named }
}

/// One of some texts, changed once or twice.
fn bent(random: &mut Random, texts: &[Vec<u8>]) -> Vec<u8> {
    let mut text = texts[random.below(texts.len())].clone();
    let other = &texts[random.below(texts.len())];
    (0..1 + random.below(2)).for_each(|_| bend_text(random, &mut text, other));
    text
}

fn folder() -> TempDir {
    tempfile::tempdir_in(place()).unwrap()
}

/// A sentence as the program prints it.
fn said(error: impl ToString) -> String {
    plain(&error.to_string())
}

/// A small experiment with everything that can be said.
const TINY: &str = r#"
name = "tiny"
about = "é"
[task]
function = "linear"
inputs = "gaussian"
dim = 3
points = 6
[network]
kind = "gpt2"
layers = 2
heads = 2
width = 16
positions = 12
attention = "relu"
[training]
steps = 400
batch = 8
seed = 3
optimiser = "adam"
rate = 1e-3
beta1 = 0.9
clip = 1.0
schedule = "cosine"
warmup = 0.1
dims = { start = 1, end = 3, over = 0.5, hold = 0.1 }
points = { start = 2, end = 6, by = 1, every = 60 }
log_every = 7
checkpoint_every = 11
keep = 3
"#;

fn tiny() -> Experiment {
    Experiment::parse(TINY, Path::new("tiny.toml")).unwrap()
}
