//! `iclab construct`: weights that are an algorithm, with a README and a picture.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lab::constructions::{
    self, Constructed, Construction, Recipe, Variant, describe, deviations, file, label_bound, picture,
    step_limit,
};
use lab::{Prompts, Questions, Seed, Steps, Task};
use ndarray::s;
use serde_json::json;

use crate::error::{Error, Result};
use crate::{output, progress};

/// Prompts on which the step is checked and the weights are compared with the algorithm.
const PROMPTS: usize = 1000;

/// Pixels per unit of the picture.
const PNG_SCALE: f32 = 2.5;

/// Build a Transformer whose weights are an algorithm
///
/// Writes float64 weights, a README of the slots and layers, and block pictures (SVG, PNG) beside them; prints layers, width, heads
/// and the largest deviation from the algorithm over 1000 random prompts. `iclab predict construct:FILE` runs the weights.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    iclab construct newton --iterations 12 --dim 20 --points 40 --out w.safetensors\n  \
    iclab construct newton --variant paper --iterations 12 --out paper.safetensors     (the theorem: k+8 layers)\n  \
    iclab construct newton --variant printed --iterations 3 --out printed.safetensors     (as printed: wrong)\n  \
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
    /// Newton's start is αS; half of the largest that converges on the prompts when left out
    #[arg(long, allow_negative_numbers = true)]
    alpha: Option<f64>,
    /// Step of gradient descent; half of the largest that converges on the prompts when left out
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
}

/// Which construction of Newton's iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum VariantArg {
    /// k+3 layers
    Compact,
    /// The paper's k+8 layers, corrected
    Paper,
    /// The same as printed, which is wrong
    Printed,
    /// Compact under a causal mask
    Causal,
}

impl ConstructArgs {
    fn variant(&self) -> Result<Variant> {
        Ok(match (self.algorithm, self.variant) {
            (AlgorithmArg::Gd, None) => Variant::Gd,
            (AlgorithmArg::Gd, Some(_)) => {
                return Err(Error::Usage(
                    "--variant is of Newton's iteration; accepted: none with gd".into(),
                ));
            }
            (_, None | Some(VariantArg::Compact)) => Variant::Compact,
            (_, Some(VariantArg::Paper)) => Variant::Paper,
            (_, Some(VariantArg::Printed)) => Variant::Printed,
            (_, Some(VariantArg::Causal)) => Variant::Causal,
        })
    }

    /// The step, checked against the prompts it must converge on, and its limit.
    fn step(&self, variant: Variant, prompts: &Prompts) -> Result<(f64, f64)> {
        let (name, rule, given, other) = match variant {
            Variant::Gd => ("eta", "2/λ", self.eta, self.alpha.map(|_| "alpha")),
            Variant::Causal => ("alpha", "2/λ², λ the largest ‖x‖²,", self.alpha, self.eta.map(|_| "eta")),
            _ => ("alpha", "2/λ², λ the largest eigenvalue of S,", self.alpha, self.eta.map(|_| "eta")),
        };
        if let Some(other) = other {
            return Err(Error::Usage(format!("--{other} is of the other algorithm; accepted: --{name}")));
        }
        let limit = step_limit(variant, prompts, self.points as usize);
        let step = given.unwrap_or(limit / 2.0);
        if !(step > 0.0 && step < limit) {
            return Err(Error::Usage(format!(
                "--{name} {step} is outside the convergent range on {} prompts of {} inputs (d={}, n={}); \
                 accepted: above 0 and below {rule} = {limit:.4e}",
                prompts.count(),
                self.inputs,
                self.dim,
                self.points
            )));
        }
        Ok((step, limit))
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
    let (dim, pairs) = (args.dim as usize, args.points as usize);
    let task = Task::new("linear", &args.inputs, dim, pairs + 1)?;
    let spinner = progress::spinner("sampling prompts");
    let prompts = task.sample(Seed(args.seed), "construct", 0, PROMPTS);
    let (step, limit) = args.step(variant, &prompts)?;
    let iterations = args.iterations as usize;
    let recipe = Recipe { variant, iterations, dim, pairs, step, label_bound: label_bound(&prompts) };
    let construction = constructions::build(&recipe)?;
    spinner.set_message("comparing with the algorithm");
    let (solver, deviation) = compare(&construction, &prompts)?;
    let measured = format!(
        "Largest deviation from {solver} over {PROMPTS} prompts of {} inputs, relative to the size of predictions: {}.",
        args.inputs,
        words(deviation)
    );
    let readme = describe::readme(&construction, &measured);
    spinner.set_message("drawing");
    let figure = picture::picture("weights", &construction);
    let png = report::figure_png(&figure, PNG_SCALE)?;
    file::write(&args.out, &construction, &readme)?;
    let beside = |ending: &str| PathBuf::from(format!("{}.{ending}", stem.display()));
    let others = [
        (beside("README.md"), readme.into_bytes()),
        (beside("svg"), report::figure_svg(&figure).into_bytes()),
        (beside("png"), png),
    ];
    for (path, bytes) in &others {
        output::write_file(path, bytes)?;
    }
    spinner.finish_and_clear();
    let built = &construction.transformer;
    if args.json {
        let result = json!({
            "variant": format!("{variant:?}").to_lowercase(), "iterations": iterations, "layers": built.layers.len(),
            "width": built.width(), "heads": built.heads(), "columns": built.columns(), "numbers": built.parameters(),
            "step": step, "step_limit": limit, "algorithm": solver, "prompts": PROMPTS, "deviation": deviation,
        });
        println!("{result:#}");
        return Ok(());
    }
    let letter = if variant == Variant::Gd { "η" } else { "α" };
    println!("{}: {}", args.out.display(), variant.summary());
    println!(
        "  {} iterations, {} layers, width {}, {} heads, {} columns, {} numbers",
        iterations,
        built.layers.len(),
        built.width(),
        built.heads(),
        built.columns(),
        crate::import::grouped(built.parameters() as u64)
    );
    println!("  {letter} = {step:.4e}, of at most {limit:.4e} on these prompts");
    println!("  largest deviation from {solver} over {PROMPTS} prompts: {}", words(deviation));
    println!("{}", others.map(|(path, _)| path.display().to_string()).join(", "));
    Ok(())
}

/// The algorithm in the words of the registry, and the largest relative deviation from it over a few steps, first and last
/// among them, after all pairs.
fn compare(construction: &Construction, prompts: &Prompts) -> Result<(String, f64)> {
    let (k, t) = (construction.recipe.iterations as u64, construction.recipe.pairs);
    let steps = Steps::new(vec![0, k / 4, k / 2, 3 * k / 4, k])?;
    let learner = Constructed::new("constructed", construction.clone());
    let solver = learner.solver(t);
    let found = learner.after_pairs(prompts, t, &steps)?;
    let queries = prompts.xs.slice(s![.., t.., ..]).to_owned();
    let questions = Questions { prompts: prompts.clone(), lengths: vec![t], queries };
    let right = lab::solvers::build(&solver)?.answers(&questions, &steps)?;
    let all = deviations(&found, &right.slice(s![.., .., 0, 0]).to_owned());
    let worst = all.iter().fold(0.0, |m: f64, v| if v.is_nan() { f64::INFINITY } else { m.max(*v) });
    Ok((solver, worst))
}

fn words(deviation: f64) -> String {
    if deviation.is_finite() { format!("{deviation:.1e}") } else { "beyond all bounds (it overflows)".into() }
}
