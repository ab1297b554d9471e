//! `iclab probe`: a read-out for every layer of a network, and a first look at what the layers do.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lab::analyses::{emergence, interventions};
use lab::compare::matching::best_match;
use lab::compare::similarity::{Metric, View, of_errors};
use lab::findings::claims::Findings;
use lab::networks::experiment::{Experiment, TaskSpec};
use lab::networks::models::moments;
use lab::probe::{self, HeldOut, Method, Opened, Options};
use lab::{Learner, Seed, Steps, Task, solvers};
use serde::Serialize;
use serde_json::json;

use crate::error::{Error, Result};
use crate::output::{Directory, print_aligned};
use crate::{plan, progress, reproduce};

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
                        iclab compare run:runs/miniature-0123456789abcdef newton --dim 5 --points 16 --out layers")]
pub struct ProbeArgs {
    /// Directory of a run, checkpoint, or a network of another program that `iclab import` can read
    run: PathBuf,
    /// Prompts to fit to; chosen by held-out error when left out
    #[arg(long, value_parser = clap::value_parser!(u32).range(64..=10_000_000))]
    prompts: Option<u32>,
    /// How read-outs are fitted
    #[arg(long, value_enum, default_value = "least-squares")]
    fit: FitArg,
    /// Read the last layer from the raw stream like the others, not after the final LayerNorm
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
    /// Points per prompt, for such a network [default: 41]
    #[arg(long)]
    points: Option<usize>,
    /// Take out every layer and head in turn and see what becomes of the last layer
    #[arg(long, conflicts_with = "over_training", requires = "out")]
    interventions: bool,
    /// Probe every checkpoint that was kept along the training (`keep` of an experiment)
    #[arg(long, requires = "out")]
    over_training: bool,
    /// Prompts that layers are compared with Newton on
    #[arg(long, default_value_t = 320, value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    look: u32,
    /// Directory for the page, figures and tables of --interventions or --over-training
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
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
    fn task(&self, features: usize) -> Option<TaskSpec> {
        let given =
            self.function.is_some() || self.inputs.is_some() || self.dim.is_some() || self.points.is_some();
        given.then(|| {
            let usual = probe::usual_task(features);
            TaskSpec {
                function: self.function.clone().unwrap_or(usual.function),
                inputs: self.inputs.clone().unwrap_or(usual.inputs),
                dim: self.dim.unwrap_or(usual.dim),
                points: self.points.unwrap_or(usual.points),
            }
        })
    }
}

/// What one layer looks like.
struct Row {
    layer: usize,
    found: HeldOut,
    /// Adam's beside least squares, or the other way round.
    other: Option<HeldOut>,
    newton: Option<u64>,
    similarity: f64,
}

/// Runs the command.
pub fn run(args: &ProbeArgs) -> Result<()> {
    if let (Some(out), true) = (&args.out, args.interventions || args.over_training) {
        return write_report(args, out);
    }
    let spinner = progress::spinner("reading the network");
    let tell = |what: &str| spinner.set_message(what.to_string());
    let found = probe::find(&args.run)?;
    let given = args.task(found.weights.network.features());
    if let (Some(task), Some(given)) = (&found.task, &given)
        && task != given
    {
        let TaskSpec { function, inputs, dim, points } = task;
        let why = format!(
            "was trained on {function} of {inputs} inputs, {dim} dimensions, {points} points; accepted: no other task"
        );
        return Err(Error::content(&args.run, why));
    }
    let options = args.options();
    let opened = found.clone().open(given.clone(), &options, &tell)?;
    let other = match options.method {
        Method::LeastSquares => None,
        Method::Adam => {
            let prompts = opened.probed.fitted().map(|fit| fit.prompts);
            Some(found.open(given, &Options { method: Method::LeastSquares, prompts, ..options }, &tell)?)
        }
    };
    tell("comparing layers with Newton");
    let rows = rows(&opened, other.as_ref(), args.look as usize)?;
    spinner.finish_and_clear();
    opened.notes.iter().for_each(|note| eprintln!("note: {note}"));
    if args.json {
        print_json(&opened, &rows)
    } else {
        print_table(&opened, &rows)
    }
    Ok(())
}

/// The interventions or the checkpoints of a run as a page with figures and tables.
fn write_report(args: &ProbeArgs, out: &Path) -> Result<()> {
    let start = std::time::Instant::now();
    let directory = Directory::begin(out)?;
    let spinner = progress::spinner("reading the network");
    let tell = |what: &str| spinner.set_message(what.to_string());
    let count = args.look as usize;
    let (title, outcome) = if args.interventions {
        let found = probe::find(&args.run)?;
        let given = args.task(found.weights.network.features());
        let opened = found.open(given, &args.options(), &tell)?;
        spinner.suspend(|| opened.notes.iter().for_each(|note| eprintln!("note: {note}")));
        (
            format!("What {} needs of its layers and heads", opened.probed.id()),
            interventions::outcome(&opened, count, &tell)?,
        )
    } else {
        let experiment = Experiment::read(&args.run.join("plan.toml"))?;
        let moments = moments::of(&args.run, &tell)?;
        let task = &experiment.task;
        let task = Task::new(&task.function, &task.inputs, task.dim, task.points)?;
        let moments = emergence::measure(&moments, &task.sample(Seed(0), "eval", 0, count))?;
        let name = args.run.display().to_string();
        (format!("How the layers of {name} came about"), emergence::shown(&name, &moments))
    };
    let findings = Findings {
        analysis: if args.interventions { "interventions" } else { "emergence" }.into(),
        title: title.clone(),
        summary: outcome.tables[0].caption.clone(),
        claims: outcome.claims,
        figures: outcome.figures,
        tables: outcome.tables,
        seconds: start.elapsed().as_secs_f64(),
    };
    let plan = Plan {
        command: "probe".into(),
        run: args.run.display().to_string(),
        analysis: findings.analysis.clone(),
        prompts: count,
    };
    let about = report::About {
        title,
        purpose: findings.summary.clone(),
        command: format!(
            "iclab probe RUN --{}",
            if args.interventions { "interventions" } else { "over-training" }
        ),
        prompts: count,
        seconds: findings.seconds,
        plan_hash: plan::hash(&plan),
        machine: reproduce::machine(),
        ..report::About::default()
    };
    report::write(std::slice::from_ref(&findings), &about, directory.path())?;
    plan::write(&plan, directory.path())?;
    directory.finish()?;
    spinner.finish_and_clear();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&findings.tables).map_err(report::Error::from)?);
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

fn rows(opened: &Opened, other: Option<&Opened>, look: usize) -> Result<Vec<Row>> {
    let (task, probed) = (&opened.task, &opened.probed);
    let prompts = Task::new(&task.function, &task.inputs, task.dim, task.points)?;
    let prompts = prompts.sample(Seed(opened.seed), "eval", 0, look);
    let layers = Steps::range(0, probed.layers() as u64);
    let newton = solvers::build("newton")?.trajectory(&prompts, &Steps::range(0, 24))?;
    let map = of_errors(
        &probed.trajectory(&prompts, &layers)?,
        &newton,
        &prompts,
        View::default(),
        Metric::Cosine,
    )?;
    let matching = best_match(&map);
    let fit = fit_of(opened);
    Ok((0..=probed.layers())
        .map(|layer| Row {
            layer,
            found: fit.layers[layer],
            other: other.map(|other| fit_of(other).layers[layer]),
            newton: matching.step_for(layer as u64),
            similarity: matching.similarity[layer],
        })
        .collect())
}

fn fit_of(opened: &Opened) -> &probe::Fit {
    opened.probed.fitted().expect("opened networks have fitted read-outs")
}

fn print_table(opened: &Opened, rows: &[Row]) {
    let (fit, task) = (fit_of(opened), &opened.task);
    let targets = match &*fit.targets {
        "labels" => "labels".to_string(),
        best => format!("what {best} predicts, the mean of the label given the prompt"),
    };
    println!(
        "{}: {} of {} inputs, {} dimensions, {} points",
        opened.probed.id(),
        task.function,
        task.inputs,
        task.dim,
        task.points
    );
    println!("read-outs fitted to {targets}, on {} prompts: {}", fit.prompts, fit.why);
    if let Some(path) = &opened.saved {
        println!("(fitted before, from {})", path.display());
    }
    let last = task.points - 1;
    let compared = rows.first().is_some_and(|row| row.other.is_some());
    let more = if compared { "  least squares" } else { "" };
    println!("layer   mean loss  error/d at t={last:<4}  Newton    SimE{more}");
    for Row { layer, found, other, newton, similarity } in rows {
        let step = newton.map_or("none".into(), |step| step.to_string());
        let other = other.map_or(String::new(), |o| format!("  {:>9.4} {:.3e}", o.mean_loss, o.last_error));
        let (mean, error) = (found.mean_loss, found.last_error);
        println!("{layer:>5} {mean:>11.4}  {error:>17.3e} {step:>7}  {similarity:>6.4}{other}");
    }
    println!("trained read-out on the same {} held-out prompts:", fit.held_out);
    println!("{:>5} {:>11.4}  {:>17.3e}", rows.len() - 1, fit.trained.mean_loss, fit.trained.last_error);
}

fn print_json(opened: &Opened, rows: &[Row]) {
    let layers: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "layer": row.layer,
                "mean_loss": row.found.mean_loss,
                "last_error_over_d": row.found.last_error,
                "newton_step": row.newton,
                "sime": row.similarity,
                "least_squares": row.other.map(|o| json!({"mean_loss": o.mean_loss, "last_error_over_d": o.last_error})),
            })
        })
        .collect();
    let fit = fit_of(opened);
    let value = json!({
        "network": opened.probed.id().to_string(),
        "task": opened.task,
        "fit": {
            "method": fit.method, "raw": fit.raw, "targets": fit.targets, "prompts": fit.prompts, "why": fit.why,
            "held_out": fit.held_out, "saved": opened.saved,
        },
        "trained": {"mean_loss": fit.trained.mean_loss, "last_error_over_d": fit.trained.last_error},
        "layers": layers,
    });
    println!("{value:#}");
}
