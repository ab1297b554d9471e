//! `iclab export`: a checkpoint becomes safetensors that other programs read.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use engine::interchange::ByteSize;
use engine::interchange::hf::{self, ExportOptions, Names, Precision};
use lab::findings::numbers::grouped;
use lab::networks::hub::Shared;

use crate::error::{Error, Result};
use crate::import::{described, failed, same};

/// Write weights as safetensors with Hugging Face's names for GPT-2
///
/// The read-in and read-out keep the names of Garg et al.: `_read_in.weight`, `_read_out.bias`. A folder also gets the
/// config.json that `GPT2Model.from_pretrained` wants. `iclab import` reads it all back. With --hub the folder is one that the
/// Hugging Face hub shows, with a model card; nothing is sent anywhere.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab export model.safetensors --out gpt2/\n  \
                        iclab export r1 --hub r1-hub/\n  \
                        iclab export model.safetensors --out half.safetensors --dtype f16\n  \
                        iclab export model.safetensors --out shards/ --max-shard-size 14MiB\n  \
                        iclab export model.safetensors --out garg.safetensors --names garg")]
pub struct ExportArgs {
    /// Checkpoint of `iclab train` or `iclab import`, directory of a run, or name of a network that is here, such as r1
    from: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Type of the numbers; f16 halves the size and rounds to nearest
    #[arg(long, value_enum, default_value = "f32")]
    dtype: DtypeArg,
    /// Size that no file exceeds, such as 500KB, 14MiB or 1GB; more files get an index
    #[arg(long, value_name = "SIZE", conflicts_with = "hub")]
    max_shard_size: Option<ByteSize>,
    /// Names: `hf` as in GPT2Model (h.0.ln_1.weight), `garg` the same inside _backbone
    #[arg(long, value_enum, default_value = "hf", conflicts_with = "hub")]
    names: NamesArg,
}

/// Where to write: one of the two.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Target {
    /// What to write: a file if the name ends in .safetensors, else a new folder
    #[arg(long)]
    out: Option<PathBuf>,
    /// A new folder as the Hugging Face hub expects it: config.json, model.safetensors, and README.md, the model card
    #[arg(long, value_name = "DIR")]
    hub: Option<PathBuf>,
}

/// Type of the numbers.
#[derive(Clone, Copy, ValueEnum)]
enum DtypeArg {
    F32,
    F16,
}

/// Style of the names.
#[derive(Clone, Copy, ValueEnum)]
enum NamesArg {
    Hf,
    Garg,
}

/// Runs the command.
pub fn run(args: &ExportArgs) -> Result<()> {
    let targets = [&args.target.out, &args.target.hub].into_iter().flatten();
    if let Some(target) = targets.clone().find(|target| same(&args.from, target)) {
        return Err(Error::content(target, "is the network to be exported; accepted: another name"));
    }
    let shared = Shared::open(&args.from)?;
    let notes = shared.note.iter().cloned().chain(shared.unfinished.iter().map(ToString::to_string));
    notes.for_each(|note| eprintln!("note: {note}"));
    let precision = match args.dtype {
        DtypeArg::F32 => Precision::F32,
        DtypeArg::F16 => Precision::F16,
    };
    let names = match args.names {
        NamesArg::Hf => Names::HuggingFace,
        NamesArg::Garg => Names::Garg,
    };
    let options = ExportOptions { precision, names, max_shard: args.max_shard_size };
    let mut files = Vec::new();
    if let Some(folder) = &args.target.hub {
        files = hf::export_hub(folder, &shared.model, precision, shared.readme(precision)).map_err(failed)?;
    }
    if let Some(target) = &args.target.out {
        files = hf::export(target, &shared.model, &options).map_err(failed)?;
    }
    println!("{}", described(&shared.model));
    for (path, bytes) in files {
        println!("{}: {} bytes", path.display(), grouped(bytes));
    }
    if let Some(folder) = &args.target.hub {
        println!(
            "nothing was sent; to upload it yourself: hf upload USER/{} {} .",
            shared.name,
            folder.display()
        );
    }
    Ok(())
}
