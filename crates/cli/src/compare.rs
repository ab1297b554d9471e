//! `iclab compare`: any two learners, step by step.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lab::compare::plan::{Measure, OWN_STEPS, Plan, Source};
use lab::{Steps, learners};
use report::About;

use crate::error::{Error, Result};
use crate::output::{Directory, write_file};
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
    iclab compare run:runs/miniature-0123456789abcdef newton --dim 5 --points 16 --out layers     (a network trained here)\n  \
    iclab compare construct:w.safetensors newton --prompts 64 --out same     (weights made by iclab construct)\n  \
    iclab compare --plan newton-gd/plan.toml --out again")]
pub struct CompareArgs {
    /// Learner A (horizontal axis): NAME:setting=value, file:PREDICTIONS.npz, construct:WEIGHTS.safetensors, or
    /// run:DIRECTORY, a network (run:DIRECTORY,ablate=zero:7.3 without head 3 of layer 7, ablate=mean:7 with layer 7 at its mean)
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
    #[arg(long, default_value = "sime", value_parser = measures())]
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
    /// Directory to write; files of an older comparison there are replaced, your own are left alone
    #[arg(long)]
    out: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn measures() -> impl TypedValueParser<Value = Measure> {
    let values = Measure::ALL.map(|(_, name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(values).try_map(|text| text.parse::<Measure>())
}

impl CompareArgs {
    /// The comparison they describe, or that of an earlier plan.
    fn plan(&self) -> Result<Plan> {
        if let Some(path) = &self.plan {
            let plan: Plan = plan::read(path)?;
            if plan.command != "compare" {
                let why = format!(
                    "field 'command' is '{}'; accepted: the plan of a comparison, 'compare'",
                    plan.command
                );
                return Err(Error::content(path, why));
            }
            return Ok(plan);
        }
        let resolved = |name: &Option<String>| learners::resolve(name.as_deref().unwrap_or_default());
        let steps = |given: &Option<String>| -> Result<String> {
            given.as_ref().map_or(Ok(OWN_STEPS.into()), |text| Ok(Steps::parse(text)?.to_string()))
        };
        Ok(Plan {
            command: "compare".into(),
            steps_a: steps(&self.steps_a)?,
            steps_b: steps(&self.steps_b)?,
            a: resolved(&self.a)?,
            b: resolved(&self.b)?,
            prompts: match &self.prompts {
                Source::Count(count) => count.to_string(),
                Source::File(path) => path.display().to_string(),
            },
            measure: self.measure,
            from: self.from,
            queries: self.queries.unwrap_or(10 * self.task.dim),
            task: self.task.sampled(),
        })
    }
}

/// Runs the command.
pub fn run(args: &CompareArgs) -> Result<()> {
    let start = Instant::now();
    let mut plan = args.plan()?;
    plan.source()?; // refused before anything is written
    let directory = Directory::begin(&args.out)?;
    let spinner = progress::spinner("preparing");
    let (found, notes) = plan.run(&|what| spinner.set_message(what.to_string()))?;
    spinner.suspend(|| notes.iter().for_each(|note| eprintln!("note: {note}")));
    let (mut findings, mut result) = (found.findings(&plan), found.json(&plan));
    result["notes"] = notes.clone().into();
    spinner.set_message("drawing");
    (findings.seconds, findings.notes) = (start.elapsed().as_secs_f64(), notes.clone());
    let about = About {
        command: "iclab compare --plan plan.toml --out DIR".into(),
        seed: plan.task.seed,
        prompts: found.map.prompts(),
        ..About::default()
    };
    plan::write_page(&plan, &findings, &notes, about, &directory.path())?;
    write_file(&directory.path().join("result.json"), format!("{result:#}\n").as_bytes())?;
    directory.finish()?;
    spinner.finish_and_clear();
    if args.json {
        println!("{result:#}");
        return Ok(());
    }
    print!("{}\n{found}", findings.summary);
    println!("{}", args.out.join("index.html").display());
    Ok(())
}
