//! `iclab compare`: any two learners, step by step.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use lab::Steps;
use lab::compare::plan::{Measure, Plan, Wish};
use lab::learners::planned::Source;
use report::About;

use crate::device::EvaluationArgs;
use crate::error::Result;
use crate::output::Directory;
use crate::task::TaskArgs;
use crate::{plan, progress};

/// Compare two learners at all pairs of their steps
///
/// Writes a heat-map, the best-matching steps and the fitted rate.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    iclab compare newton gd --steps-a 0..=24 --steps-b pow2:0..=12 --prompts 1280 --measure sime --out newton-gd\n  \
    iclab compare newton bfgs:line_search=armijo --inputs skewed:kappa=100 --out ill\n  \
    iclab compare file:mine.npz newton --prompts p.npz --out mine     (predictions of a model trained elsewhere)\n  \
    iclab compare run:miniature newton --out layers     (a network trained here, on prompts as it was trained on)\n  \
    iclab compare construct:w.safetensors newton --prompts 64 --out same     (weights made by iclab construct)\n  \
    iclab compare --plan newton-gd/plan.toml --out again")]
pub struct CompareArgs {
    /// Learner A (horizontal axis): NAME:setting=value, file:PREDICTIONS.npz, construct:WEIGHTS.safetensors, or run:NAME, a
    /// network: a directory, r1 of models/, or the newest run of an experiment. run:NAME reads every layer by a fitted
    /// read-out, run:NAME@own is its own output, run:NAME,ablate=zero:7.3 is without head 3 of layer 7
    #[arg(required_unless_present = "plan")]
    a: Option<String>,
    /// Learner B (vertical axis), which is searched for the best match
    #[arg(required_unless_present = "plan")]
    b: Option<String>,
    /// Steps of A; its own when left out
    #[arg(long)]
    steps_a: Option<String>,
    /// Steps of B; its own when left out
    #[arg(long)]
    steps_b: Option<String>,
    /// Number of prompts to sample, or an .npz file with `xs` and `ys`
    #[arg(long, default_value = "1280")]
    prompts: Source,
    /// How to compare
    #[arg(long, default_value = "sime", value_parser = plan::choices(&Measure::ALL))]
    measure: Measure,
    /// Fewest pairs read at a position that counts: 1 as in the paper, 0 as in the authors' code, d+1 to leave out t ≤ d
    #[arg(long, default_value_t = 1)]
    from: usize,
    /// Queries per prompt for induced weights; 10 per dimension when left out
    #[arg(long)]
    queries: Option<usize>,
    #[command(flatten)]
    task: TaskArgs,
    /// Take everything but --out from the plan.toml of an earlier comparison
    #[arg(long, conflicts_with_all = ["a", "b", "steps_a", "steps_b"])]
    plan: Option<PathBuf>,
    #[command(flatten)]
    device: EvaluationArgs,
    /// Directory to write; files of an older comparison there are replaced, your own are left alone
    #[arg(long)]
    out: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl CompareArgs {
    /// The comparison they describe, or that of an earlier plan; also what the user should know of it.
    fn plan(&self) -> Result<(Plan, Vec<String>)> {
        if let Some(path) = &self.plan {
            return Ok((plan::read(path, "compare")?, Vec::new()));
        }
        let steps = |given: &Option<String>| given.as_deref().map(Steps::parse).transpose();
        Ok(Plan::new(Wish {
            a: self.a.clone().unwrap_or_default(),
            b: self.b.clone().unwrap_or_default(),
            steps_a: steps(&self.steps_a)?,
            steps_b: steps(&self.steps_b)?,
            prompts: self.prompts.clone(),
            measure: self.measure,
            from: self.from,
            queries: self.queries,
            task: self.task.given(),
            seed: self.task.seed,
        })?)
    }
}

/// Runs the command.
pub fn run(args: &CompareArgs) -> Result<()> {
    args.device.apply()?;
    let start = Instant::now();
    let (mut plan, notes) = args.plan()?;
    let directory = Directory::begin(&args.out)?;
    let spinner = progress::spinner("preparing");
    let found = plan.run(&|what| spinner.set_message(what.to_string()))?.noting(notes);
    spinner.suspend(|| found.notes.iter().for_each(|note| eprintln!("note: {note}")));
    let (mut findings, result) = (found.findings(), found.json(&plan));
    spinner.set_message("drawing");
    findings.seconds = start.elapsed().as_secs_f64();
    let about = About {
        command: "iclab compare --plan plan.toml --out DIR".into(),
        seed: plan.task.seed,
        prompts: found.map.prompts(),
        ..About::default()
    };
    plan::finish(directory, &plan, &findings, &result, about, |_| Ok(()))?;
    spinner.finish_and_clear();
    if args.json {
        println!("{result:#}");
        return Ok(());
    }
    print!("{}\n{found}", findings.summary);
    println!("{}", args.out.join("index.html").display());
    Ok(())
}
