//! `iclab export`: a checkpoint becomes safetensors that other programs read.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use engine::interchange::hf::{self, ExportOptions, Names, Precision};
use engine::interchange::{self, ByteSize};
use lab::findings::numbers::grouped;
use lab::networks::runs;

use crate::error::{Error, Result};
use crate::import::{described, failed, same};

/// Write weights as safetensors with Hugging Face's names for GPT-2
///
/// The read-in and read-out keep the names of Garg et al.: `_read_in.weight`, `_read_out.bias`. A folder also gets the
/// config.json that `GPT2Model.from_pretrained` wants. `iclab import` reads it all back.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab export model.safetensors --out gpt2/\n  \
                        iclab export model.safetensors --out half.safetensors --dtype f16\n  \
                        iclab export model.safetensors --out shards/ --max-shard-size 14MiB\n  \
                        iclab export model.safetensors --out garg.safetensors --names garg")]
pub struct ExportArgs {
    /// Checkpoint of `iclab train` or `iclab import`
    from: PathBuf,
    /// What to write: a file if the name ends in .safetensors, else a new folder
    #[arg(long)]
    out: PathBuf,
    /// Type of the numbers; f16 halves the size and rounds to nearest
    #[arg(long, value_enum, default_value = "f32")]
    dtype: DtypeArg,
    /// Size that no file exceeds, such as 500KB, 14MiB or 1GB; more files get an index
    #[arg(long, value_name = "SIZE")]
    max_shard_size: Option<ByteSize>,
    /// Names: `hf` as in GPT2Model (h.0.ln_1.weight), `garg` the same inside _backbone
    #[arg(long, value_enum, default_value = "hf")]
    names: NamesArg,
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
    if same(&args.from, &args.out) {
        return Err(Error::content(&args.out, "is the checkpoint to be exported; accepted: another name"));
    }
    let model = interchange::load_model(&args.from).map_err(failed)?;
    runs::unfinished(&args.from).iter().for_each(|run| eprintln!("note: {run}"));
    let options = ExportOptions {
        precision: match args.dtype {
            DtypeArg::F32 => Precision::F32,
            DtypeArg::F16 => Precision::F16,
        },
        names: match args.names {
            NamesArg::Hf => Names::HuggingFace,
            NamesArg::Garg => Names::Garg,
        },
        max_shard: args.max_shard_size,
    };
    let files = hf::export(&args.out, &model, &options).map_err(failed)?;
    println!("{}", described(&model));
    for (path, bytes) in files {
        println!("{}: {} bytes", path.display(), grouped(bytes));
    }
    Ok(())
}
