//! `iclab import`: a network of another program becomes a checkpoint.

use std::path::{Path, PathBuf};

use clap::Args;
use engine::interchange::{self, Imported, InterchangeError};
use engine::model::networks::Network;
use lab::data::npz;
use lab::findings::numbers::{counted, grouped};
use lab::networks::Weights;
use lab::probe::{self, OUTPUT_TOLERANCE, OutputDifference};

use crate::error::{Error, Result};

/// Read a network trained elsewhere and write it as a checkpoint of iclab
///
/// Accepted: PyTorch checkpoints (`torch.save`) of Garg et al. and their like: a state dict, or a dict with `model_state_dict`,
/// holding GPT-2 or an LSTM between a linear read-in and read-out; safetensors with Hugging Face's names, in one file or in
/// shards. Python is not needed, and nothing that the file holds is executed.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab import state.pt --out model.safetensors\n  \
                        iclab import state.pt --heads 4 --name \"small, 64 wide\" --out small.safetensors\n  \
                        iclab import exported/ --out model.safetensors      what `iclab export` wrote\n  \
                        iclab import state.pt --out model.safetensors --check p.npz outputs.npz\n  \
                        \u{20}    p.npz of `iclab sample`, outputs.npz with the array `outputs` [b,n] that PyTorch computed for it")]
pub struct ImportArgs {
    /// File, folder with model.safetensors, or index of shards
    from: PathBuf,
    /// Checkpoint to write
    #[arg(long)]
    out: PathBuf,
    /// Attention heads of a GPT-2, which its weights do not show [default: what the file says, else 8]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    heads: Option<u32>,
    /// A name to keep in the checkpoint
    #[arg(long)]
    name: Option<String>,
    /// Compare the network's own outputs with `outputs` [b,n] that the other program computed for the prompts `xs` [b,n,d],
    /// `ys` [b,n]; where they differ by more than a thousandth of their size nothing is written, and the exit code is 1
    #[arg(long, num_args = 2, value_names = ["PROMPTS", "OUTPUTS"])]
    check: Option<Vec<PathBuf>>,
}

/// Runs the command; false if a check fails.
pub fn run(args: &ImportArgs) -> Result<bool> {
    if same(&args.from, &args.out) {
        return Err(Error::content(&args.out, "is the file to be imported; accepted: another name"));
    }
    let model = interchange::import(&args.from, args.heads.map(|heads| heads as usize)).map_err(failed)?;
    if let Some([prompts, outputs]) = args.check.as_deref().and_then(|paths| paths.first_chunk())
        && !check(&model, prompts, outputs)?
    {
        return Ok(false);
    }
    let name = args.name.clone().map(|name| ("name".to_string(), name));
    let source =
        args.from.file_name().map(|name| ("source".to_string(), name.to_string_lossy().into_owned()));
    interchange::save_model(&args.out, &model, name.into_iter().chain(source)).map_err(failed)?;
    println!("{}: {}", args.out.display(), described(&model));
    if !model.dropped.is_empty() {
        println!("left out, as the network does not use them: {}", some(&model.dropped));
    }
    let out = args.out.display();
    println!("iclab probe {out}     which Newton step is each layer?");
    println!(
        "iclab predict run:{out}@own --prompts p.npz --out own.npz     its own output, for prompts of iclab sample"
    );
    Ok(true)
}

/// Compares the network's own outputs with those of another program, and says how far they are apart.
fn check(model: &Imported, prompts: &Path, outputs: &Path) -> Result<bool> {
    let asked = npz::read_prompts(prompts)?;
    let theirs = probe::read_outputs(outputs, &asked)?;
    let weights = Weights::new(model.network.clone(), model.params.clone());
    let found = OutputDifference::measure(&weights, &asked, &theirs)?;
    let verdict =
        if found.agrees() { "the same network" } else { "not the same network, and nothing is written" };
    let assumed =
        if model.heads_assumed && !found.agrees() { "; heads are assumed, see --heads" } else { "" };
    println!(
        "check: the largest difference from {} is {:.1e} at [{}, {}] (prompt, point), {:.1e} of their size; accepted: at most \
         {OUTPUT_TOLERANCE:.0e}: {verdict}{assumed}",
        outputs.display(),
        found.largest,
        found.at.0,
        found.at.1,
        found.relative()
    );
    Ok(found.agrees())
}

/// An error of the interchange; its sentence names the file already.
pub fn failed(error: InterchangeError) -> Error {
    Error::Usage(error.to_string())
}

/// Architecture, parameters and step in words.
pub fn described(model: &Imported) -> String {
    let mut text = match &model.network {
        Network::Gpt2(config) => {
            let assumed = if model.heads_assumed { " (assumed; see --heads)" } else { "" };
            format!(
                "GPT-2, {}, {}{assumed}, {} wide, {}, {} positions",
                counted(config.layers, "layer", "layers"),
                counted(config.heads, "head", "heads"),
                config.width,
                counted(config.features, "input", "inputs"),
                config.positions
            )
        }
        Network::Lstm(config) => {
            let layers = counted(config.layers, "layer", "layers");
            format!("LSTM, {layers}, {} wide, {}", config.width, counted(config.features, "input", "inputs"))
        }
    };
    text += &format!("; {} parameters", grouped(model.params.len() as u64));
    match model.step {
        Some(step) => text + &format!("; step {}", grouped(step)),
        None => text,
    }
}

/// The first names of a list and how many follow.
fn some(names: &[String]) -> String {
    let shown = names.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(3) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Whether two paths lead to the same file.
pub fn same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
