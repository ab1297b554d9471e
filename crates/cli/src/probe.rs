//! `iclab probe`: a read-out for every layer of a network, and a first look at what the layers do.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use lab::learners::task::KnownTask;
use lab::networks::experiment::TaskSpec;
use lab::networks::{self, Found, runs};
use lab::probe::{self, LayerTable, LoadedProbe, Method, Options};
use report::About;
use serde::Serialize;

use crate::device::EvaluationArgs;
use crate::error::Result;
use crate::output::{Directory, print_aligned, print_json};
use crate::probe_state::StateArgs;
use crate::{plan, probe_state, progress};

/// How read-outs are fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FitArg {
    /// In closed form, from sums over all prompts
    LeastSquares,
    /// By Adam on minibatches of 64 prompts, as in the paper
    Adam,
}

/// Give every layer of a network a read-out of its own
///
/// The body of the network is frozen. Read-outs are fitted on as many prompts as the last layer needs to be as good as the
/// trained read-out on held-out prompts, and saved beside the checkpoint, where `run:RUN` finds them in every other command.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab probe runs/miniature-0123456789abcdef\n  \
                        iclab probe runs/miniature-0123456789abcdef --fit adam     the paper's way, beside least squares\n  \
                        iclab probe model.safetensors --function noisy-linear --inputs gaussian     what `iclab import` wrote\n  \
                        iclab probe runs/miniature-0123456789abcdef --interventions --out without\n  \
                        iclab probe runs/miniature-0123456789abcdef --over-training --out emergence\n  \
                        iclab probe r1 --state --out states     what the tokens hold: T_k x, residuals, weights, …\n  \
                        iclab probe construct:w.safetensors --state --out built\n  \
                        iclab compare run:runs/miniature-0123456789abcdef newton --out layers\n  \
                        iclab compare run:runs/miniature-0123456789abcdef,ablate=zero:3.1 newton --out without-head")]
pub struct ProbeArgs {
    /// Directory or name of a run, name of a shipped network, checkpoint, or a network of another program that
    /// `iclab import` can read; with --state also construct:FILE
    #[arg(required_unless_present = "plan")]
    pub(crate) run: Option<String>,
    /// Prompts to fit to; chosen by held-out error when left out, 1024 with --state
    #[arg(long, value_parser = clap::value_parser!(u32).range(64..=10_000_000))]
    pub(crate) prompts: Option<u32>,
    /// How read-outs are fitted
    #[arg(long, value_enum, default_value = "least-squares")]
    fit: FitArg,
    /// Read the last layer from the residual stream like the others, not after the final LayerNorm
    #[arg(long)]
    raw: bool,
    /// Function class, for a network that does not say what it was trained on [default: linear]
    #[arg(long)]
    function: Option<String>,
    /// Input distribution, for such a network [default: gaussian]
    #[arg(long)]
    inputs: Option<String>,
    /// Dimension of an input, for such a network [default: what it reads]
    #[arg(long)]
    dim: Option<usize>,
    /// Points per prompt, for such a network [default: 41, or what it can hold]
    #[arg(long)]
    points: Option<usize>,
    /// Ablate every layer and head in turn and see what becomes of the last layer
    #[arg(long, conflicts_with = "over_training", requires = "out")]
    interventions: bool,
    /// Probe every checkpoint that was kept along the training (`keep` of an experiment)
    #[arg(long, requires = "out")]
    over_training: bool,
    /// Read from every layer what an algorithm would hold at its tokens: T_k x, residuals, weights, S, Xᵀy
    #[arg(long, conflicts_with_all = ["interventions", "over_training", "fit", "raw", "function", "inputs", "dim", "points", "look"], requires = "out")]
    state: bool,
    /// Prompts that layers are compared with Newton on
    #[arg(long, default_value_t = 320, value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    look: u32,
    #[command(flatten)]
    device: EvaluationArgs,
    /// Directory for the page, figures and tables of --interventions, --over-training or --state
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) states: StateArgs,
}

impl ProbeArgs {
    fn options(&self) -> Options {
        let method = match self.fit {
            FitArg::LeastSquares => Method::LeastSquares,
            FitArg::Adam => Method::Adam,
        };
        Options { prompts: self.prompts.map(|p| p as usize), method, raw: self.raw, ..Options::default() }
    }

    /// The task that the options describe, if they describe any.
    fn task(&self, usual: TaskSpec) -> Option<TaskSpec> {
        let given = KnownTask {
            function: self.function.clone(),
            inputs: self.inputs.clone(),
            dim: self.dim,
            points: self.points,
        };
        (given != KnownTask::default()).then(|| given.or(usual.into()).or_usual())
    }

    fn open(&self, run: &Path, options: &Options, tell: lab::Progress) -> Result<LoadedProbe> {
        let found = probe::load(run)?;
        let task = self.task(found.usual_task());
        Ok(found.probe(task, options, tell)?)
    }
}

/// Runs the command.
pub fn run(args: &ProbeArgs) -> Result<()> {
    args.device.apply()?;
    if args.state {
        return probe_state::run(args);
    }
    let Found { path: run, note } = networks::find(args.run.as_deref().unwrap_or_default())?;
    note.iter().for_each(|note| eprintln!("note: {note}"));
    if let (Some(out), true) = (&args.out, args.interventions || args.over_training) {
        return write_report(args, &run, out);
    }
    let spinner = progress::spinner("reading the network");
    let tell = |what: &str| spinner.set_message(what.to_string());
    let options = args.options();
    let opened = args.open(&run, &options, &tell)?;
    let other = match options.method {
        Method::LeastSquares => None,
        Method::Adam => {
            let prompts = opened.probed.fitted().map(|fit| fit.prompts);
            Some(args.open(&run, &Options { method: Method::LeastSquares, prompts, ..options }, &tell)?)
        }
    };
    tell("comparing layers with Newton");
    let table = LayerTable::new(&opened, other.as_ref(), args.look as usize)?;
    spinner.finish_and_clear();
    opened.notes.iter().for_each(|note| eprintln!("note: {note}"));
    if args.json {
        println!("{:#}", table.json());
    } else {
        print!("{}", table.text());
    }
    Ok(())
}

/// The interventions or the checkpoints of a run as a page with figures and tables.
fn write_report(args: &ProbeArgs, run: &Path, out: &Path) -> Result<()> {
    let start = Instant::now();
    let directory = Directory::begin(out)?;
    let spinner = progress::spinner("reading the network");
    let tell = |what: &str| spinner.set_message(what.to_string());
    let count = args.look as usize;
    let option = if args.interventions { "interventions" } else { "over-training" };
    let (mut findings, notes) = if args.interventions {
        let opened = args.open(run, &args.options(), &tell)?;
        (probe::without_parts(&opened, count, &tell)?, opened.notes)
    } else {
        let notes = runs::unfinished(run).map(|run| run.to_string());
        (probe::over_training(run, count, &tell)?, notes.into_iter().collect())
    };
    spinner.suspend(|| notes.iter().for_each(|note| eprintln!("note: {note}")));
    findings.seconds = start.elapsed().as_secs_f64();
    let (run, analysis) = (run.display().to_string(), findings.analysis.clone());
    let plan = Plan { command: "probe".into(), run, analysis, prompts: count };
    let about = About { command: format!("iclab probe RUN --{option}"), prompts: count, ..About::default() };
    plan::write_page(&plan, &findings, &notes, about, &directory.path())?;
    directory.finish()?;
    spinner.finish_and_clear();
    if args.json {
        print_json(&findings.tables)?;
    } else {
        findings.tables.iter().for_each(print_aligned);
        println!("{}", out.join("index.html").display());
    }
    Ok(())
}

/// What a report was made from.
#[derive(Serialize)]
struct Plan {
    command: String,
    run: String,
    analysis: String,
    prompts: usize,
}
