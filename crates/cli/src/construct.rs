//! `iclab construct`: weights that are an algorithm, with a README and a picture.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lab::Seed;
use lab::constructions::{self, Start, Variant, Wish, file, picture};

use crate::error::{Error, Result};
use crate::{output, progress};

/// Pixels per unit of the picture.
const PNG_SCALE: f32 = 2.5;

/// Build a Transformer whose weights are an algorithm
///
/// Writes float64 weights, a README of the slots and layers, and block pictures (SVG, PNG) beside them; prints layers, width, heads
/// and the largest deviation from the algorithm over 1000 random prompts. `iclab predict construct:FILE` runs the weights.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    iclab construct newton --iterations 12 --dim 20 --points 40 --out w.safetensors\n  \
    iclab construct newton --start identity --iterations 12 --out w.safetensors     (k+2 layers)\n  \
    iclab construct newton --variant paper --iterations 12 --out paper.safetensors     (the theorem: k+8 layers)\n  \
    iclab construct newton --variant printed --iterations 3 --out printed.safetensors     (as printed: wrong)\n  \
    iclab construct newton --variant residual --iterations 12 --out residual.safetensors     (labels read at every layer)\n  \
    iclab construct gd++ --iterations 12 --out gd++.safetensors\n  \
    iclab construct gd --iterations 100 --inputs skewed:kappa=100 --out gd.safetensors\n  \
    iclab predict construct:w.safetensors --prompts p.npz --out o.npz\n  \
    iclab compare construct:w.safetensors newton --prompts 64 --out same")]
pub struct ConstructArgs {
    /// Which algorithm
    algorithm: AlgorithmArg,
    /// Which construction of Newton's iteration
    #[arg(long, value_enum)]
    variant: Option<VariantArg>,
    /// Iterations k
    #[arg(long, value_name = "K", default_value_t = 12, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(0..=constructions::LARGEST.2 as i64))]
    iterations: u32,
    /// Dimension d of an input
    #[arg(long, value_name = "D", default_value_t = 20, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=constructions::LARGEST.0 as i64))]
    dim: u32,
    /// The most in-context pairs n of a prompt; shorter prompts work too
    #[arg(long, value_name = "N", default_value_t = 40, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=constructions::LARGEST.1 as i64))]
    points: u32,
    /// Where Newton's iteration starts, gram when left out; identity is of the variants compact and residual
    #[arg(long, value_enum)]
    start: Option<StartArg>,
    /// α of Newton's start αS; half of the largest that converges on the prompts when left out
    #[arg(long, allow_negative_numbers = true)]
    alpha: Option<f64>,
    /// η of Newton's start ηI, or the (first) step of a descent; half of the largest that converges on the prompts when left
    /// out
    #[arg(long, allow_negative_numbers = true)]
    eta: Option<f64>,
    /// Input distribution of the prompts, with settings as NAME:setting=value (see `iclab list inputs`)
    #[arg(long, default_value = "gaussian")]
    inputs: String,
    /// Seed of the prompts
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// File to write, NAME.safetensors; NAME.README.md, NAME.svg and NAME.png appear beside it
    #[arg(long)]
    out: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Which algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AlgorithmArg {
    /// Newton's iteration for the inverse
    Newton,
    /// Gradient descent by linear attention
    Gd,
    /// GD++: the same while inputs are transformed
    #[value(name = "gd++")]
    GdPlusPlus,
}

/// Which construction of Newton's iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum VariantArg {
    /// k+3 layers, or k+2 with --start identity
    Compact,
    /// The paper's k+8 layers, corrected
    Paper,
    /// The same as printed, which is wrong
    Printed,
    /// Compact under a causal mask
    Causal,
    /// From ηI in k+2 layers, labels read at every one of them
    Residual,
}

/// Where Newton's iteration starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StartArg {
    /// αS: about 2 log₂ κ iterations, κ the condition number of S
    Gram,
    /// ηI: one layer fewer and about log₂ κ iterations
    Identity,
}

impl ConstructArgs {
    fn variant(&self) -> Result<Variant> {
        let refuse = |words: &str| Err(Error::Usage(words.into()));
        let descent = match self.algorithm {
            AlgorithmArg::Newton => None,
            AlgorithmArg::Gd => Some(Variant::Gd),
            AlgorithmArg::GdPlusPlus => Some(Variant::GdPlusPlus),
        };
        if let Some(descent) = descent {
            let of_newton = |option: &str| {
                refuse(&format!("{option} is of Newton's iteration; accepted: none with {}", descent.name()))
            };
            return match (self.variant, self.start) {
                (None, None) => Ok(descent),
                (Some(_), _) => of_newton("--variant"),
                (_, Some(_)) => of_newton("--start"),
            };
        }
        match (self.variant.unwrap_or(VariantArg::Compact), self.start) {
            (VariantArg::Residual, Some(StartArg::Gram)) => {
                refuse("--variant residual starts from ηI; accepted: --start identity, or none")
            }
            (VariantArg::Residual, _) => Ok(Variant::Residual),
            (VariantArg::Compact, Some(StartArg::Identity)) => Ok(Variant::Compact(Start::Identity)),
            (VariantArg::Compact, _) => Ok(Variant::Compact(Start::Gram)),
            (_, Some(StartArg::Identity)) => {
                refuse("--start identity is of two constructions; accepted: --variant compact, residual")
            }
            (VariantArg::Paper, _) => Ok(Variant::Paper),
            (VariantArg::Printed, _) => Ok(Variant::Printed),
            (VariantArg::Causal, _) => Ok(Variant::Causal),
        }
    }

    /// α or η as given; the one that the variant does not have is refused.
    fn step(&self, variant: Variant) -> Result<Option<f64>> {
        let (name, _) = variant.step_name();
        let (given, other) = match variant.start() {
            Some(Start::Gram) => {
                (self.alpha, self.eta.map(|_| "--eta is of gradient descent and of --start identity"))
            }
            _ => (self.eta, self.alpha.map(|_| "--alpha is of Newton's start αS")),
        };
        match other {
            Some(other) => Err(Error::Usage(format!("{other}; accepted: --{name}"))),
            None => Ok(given),
        }
    }

    /// NAME of NAME.safetensors, with its folder.
    fn stem(&self) -> Result<PathBuf> {
        let named = self.out.extension().is_some_and(|e| e == "safetensors");
        if !named || self.out.is_dir() {
            return Err(Error::content(&self.out, "accepted: the name of a file that ends in .safetensors"));
        }
        Ok(self.out.with_extension(""))
    }
}

/// Runs the command.
pub fn run(args: &ConstructArgs) -> Result<()> {
    let variant = args.variant()?;
    let stem = args.stem()?;
    let wish = Wish {
        variant,
        iterations: args.iterations as usize,
        dim: args.dim as usize,
        pairs: args.points as usize,
        step: args.step(variant)?,
        inputs: args.inputs.clone(),
        seed: Seed(args.seed),
    };
    let spinner = progress::spinner("");
    let made = constructions::make(&wish, &|what| spinner.set_message(what.to_string()))?;
    spinner.set_message("drawing");
    let figure = picture::picture("weights", &made.construction);
    let svg = report::figure_svg(&figure);
    let png = report::figure_png(&figure, PNG_SCALE)?;
    file::write(&args.out, &made.construction, &made.readme)?;
    let beside = |ending: &str| PathBuf::from(format!("{}.{ending}", stem.display()));
    let others = [
        (beside("README.md"), made.readme.as_bytes()),
        (beside("svg"), svg.as_bytes()),
        (beside("png"), &png[..]),
    ];
    for (path, bytes) in &others {
        output::write_file(path, bytes)?;
    }
    spinner.finish_and_clear();
    if args.json {
        return output::print_json(&made.record());
    }
    println!("{}: {}", args.out.display(), variant.summary());
    made.summary().lines().for_each(|line| println!("  {line}"));
    println!("{}", others.map(|(path, _)| path.display().to_string()).join(", "));
    Ok(())
}
