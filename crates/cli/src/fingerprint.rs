//! `iclab fingerprint`: what a learner does to each eigen-direction, and which algorithm that is.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lab::Steps;
use lab::fingerprint::Scale;
use lab::fingerprint::plan::{Plan, Wish};
use lab::learners::planned::Source;
use report::About;

use crate::device::EvaluationArgs;
use crate::error::Result;
use crate::output::{Directory, print_aligned};
use crate::task::TaskArgs;
use crate::{plan, progress};

/// Name the algorithm that a learner runs, by its spectral fingerprint
///
/// Gradient descent, Newton and all their kin answer with w = f(S) w_OLS, and differ in the filter f. Writes filters step by
/// step, the map from each step to the next, and what known algorithms leave unexplained.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    iclab fingerprint run:r1 --out r1-filters\n  \
    iclab fingerprint newton:start=identity --steps 0..=8 --out identity\n  \
    iclab fingerprint run:miniature --against newton --against newton:start=identity,eta=0.01 --against gd --out three\n  \
    iclab fingerprint file:mine.npz --prompts p.npz --out mine     (predictions of a model trained elsewhere)\n  \
    iclab fingerprint --plan identity/plan.toml --out again")]
pub struct FingerprintArgs {
    /// Learner: NAME:setting=value, file:PREDICTIONS.npz, construct:WEIGHTS.safetensors, or run:NAME, a network: a
    /// directory, r1 of models/, or the newest run of an experiment
    #[arg(required_unless_present = "plan")]
    learner: Option<String>,
    /// Its steps; its own when left out
    #[arg(long)]
    steps: Option<String>,
    /// An algorithm that it may be; once for each of them [default: Newton from both starts, hyperpower, GD, GD++,
    /// Chebyshev, CG, online GD]
    #[arg(long, value_name = "LEARNER")]
    against: Vec<String>,
    /// Pairs read before it is asked [default: 5d/4,3d/2,2d, as far as prompts are long enough]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pairs: Vec<u32>,
    /// Number of prompts to sample, or an .npz file with `xs` and `ys` [default: 256, or all that predictions were recorded
    /// for]
    #[arg(long)]
    prompts: Option<Source>,
    /// Fresh queries per prompt; 2d when left out, as degrees and linearity need
    #[arg(long)]
    queries: Option<usize>,
    /// Eigenvalues at which filters are measured
    #[arg(long, default_value_t = 12)]
    knots: usize,
    /// Unit of the eigenvalues
    #[arg(long, default_value = "auto", value_parser = units())]
    unit: Unit,
    #[command(flatten)]
    task: TaskArgs,
    /// Take everything but --out from the plan.toml of an earlier fingerprint
    #[arg(long, conflicts_with_all = ["learner", "steps", "against", "pairs", "prompts", "queries", "knots", "unit",
        "function", "inputs", "dim", "points", "seed"])]
    plan: Option<PathBuf>,
    #[command(flatten)]
    device: EvaluationArgs,
    /// Directory to write; files of an older output there are replaced, your own are left alone
    #[arg(long)]
    out: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A unit of eigenvalues; none for the one that leaves the least unexplained.
#[derive(Clone, Copy)]
struct Unit(Option<Scale>);

fn units() -> impl TypedValueParser<Value = Unit> {
    let about = |scale| match scale {
        Scale::One => "As they are: for a step size that is the same for all prompts",
        Scale::Largest => "The largest eigenvalue of each prompt",
        Scale::Frobenius => "The Frobenius norm of S of each prompt",
    };
    let auto = PossibleValue::new("auto").help("The one of the three that leaves the least unexplained");
    let named = Scale::ALL.map(|(scale, name, _)| PossibleValue::new(name).help(about(scale)));
    PossibleValuesParser::new(std::iter::once(auto).chain(named))
        .map(|text| Unit(Scale::ALL.iter().find(|(_, name, _)| *name == text).map(|(scale, ..)| *scale)))
}

impl FingerprintArgs {
    /// What they describe, or an earlier plan; also what the user should know of it.
    fn plan(&self) -> Result<(Plan, Vec<String>)> {
        if let Some(path) = &self.plan {
            return Ok((plan::read(path, "fingerprint")?, Vec::new()));
        }
        Ok(Plan::new(Wish {
            learner: self.learner.clone().unwrap_or_default(),
            steps: self.steps.as_deref().map(Steps::parse).transpose()?,
            against: self.against.clone(),
            pairs: self.pairs.iter().map(|pairs| *pairs as usize).collect(),
            prompts: self.prompts.clone(),
            queries: self.queries,
            knots: self.knots,
            unit: self.unit.0,
            task: self.task.given(),
            seed: self.task.seed,
        })?)
    }
}

/// Runs the command.
pub fn run(args: &FingerprintArgs) -> Result<()> {
    args.device.apply()?;
    let start = Instant::now();
    let (mut plan, notes) = args.plan()?;
    let directory = Directory::begin(&args.out)?;
    let spinner = progress::spinner("preparing");
    let mut found = plan.run(&|what| spinner.set_message(what.to_string()))?;
    found.notes.splice(0..0, notes);
    spinner.suspend(|| found.notes.iter().for_each(|note| eprintln!("note: {note}")));
    let (mut findings, result) = (found.findings(), found.json(&plan));
    spinner.set_message("drawing");
    findings.seconds = start.elapsed().as_secs_f64();
    let about = About {
        command: "iclab fingerprint --plan plan.toml --out DIR".into(),
        seed: plan.task.seed,
        prompts: found.fingerprint.prompts,
        ..About::default()
    };
    plan::finish(directory, &plan, &findings, &result, about, |dir| {
        Ok(found.write_arrays(&dir.join("fingerprint.npz"))?)
    })?;
    spinner.finish_and_clear();
    if args.json {
        println!("{result:#}");
        return Ok(());
    }
    println!("{}\n{}", found.naming_words(), found.worth_words());
    print_aligned(&found.candidates_table());
    if let Some(after) = found.fingerprint.lengths.last() {
        print_aligned(&found.short_steps_table(after));
    }
    println!("{}", args.out.join("index.html").display());
    Ok(())
}
