//! `iclab compare`: any two learners, step by step.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lab::analyses::heatmap_panel;
use lab::compare::matching::{self, Matching};
use lab::compare::rates::{RateFit, Trend, fit_rate};
use lab::compare::similarity::{Heatmap, Metric, View, induced_weights, of_errors, of_weights};
use lab::findings::claims::Findings;
use lab::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke, Table};
use lab::solvers::label;
use lab::{Learner, Steps};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::{Error, Result};
use crate::output::Directory;
use crate::task::{Source, TaskArgs, read_prompts};
use crate::{learners, plan, progress, reproduce};

/// How learners are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Cosine of errors
    Sime,
    /// Cosine of induced weights
    Simw,
    /// Root mean square difference of errors
    L2e,
    /// Root mean square difference of induced weights
    L2w,
}

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
    /// Learner A (horizontal axis): NAME:setting=value, file:PREDICTIONS.npz, construct:WEIGHTS.safetensors, or run:DIRECTORY
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
    #[arg(long, value_enum, default_value = "sime")]
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
    /// Directory to write; an older comparison there is replaced
    #[arg(long)]
    out: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Stands for the learner's own steps until the learner is built.
const OWN_STEPS: &str = "own";

/// A comparison with every default written out.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    command: String,
    a: String,
    b: String,
    steps_a: String,
    steps_b: String,
    prompts: String,
    measure: Measure,
    from: usize,
    queries: usize,
    task: TaskArgs,
}

impl Plan {
    fn of(args: &CompareArgs) -> Result<Plan> {
        if let Some(path) = &args.plan {
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
        let (a, b) = (args.a.as_deref().unwrap_or_default(), args.b.as_deref().unwrap_or_default());
        let steps = |given: &Option<String>| -> Result<String> {
            given.as_ref().map_or(Ok(OWN_STEPS.into()), |text| Ok(Steps::parse(text)?.to_string()))
        };
        Ok(Plan {
            command: "compare".into(),
            steps_a: steps(&args.steps_a)?,
            steps_b: steps(&args.steps_b)?,
            a: learners::resolve(a)?,
            b: learners::resolve(b)?,
            prompts: match &args.prompts {
                Source::Count(count) => count.to_string(),
                Source::File(path) => path.display().to_string(),
            },
            measure: args.measure,
            from: args.from,
            queries: args.queries.unwrap_or(10 * args.task.dim),
            task: args.task.clone(),
        })
    }

    fn source(&self) -> Result<Source> {
        let bad = |why| Error::Usage(format!("prompts '{}': {why}", self.prompts));
        let source: Source = self.prompts.parse().map_err(bad)?;
        let recorded = [&self.a, &self.b].into_iter().find(|s| s.starts_with("file:"));
        match (&source, recorded) {
            (Source::Count(_), Some(side)) => Err(Error::Usage(format!(
                "{side} was made for particular prompts; accepted: their file, as --prompts PROMPTS.npz"
            ))),
            _ => Ok(source),
        }
    }
}

/// Runs the command.
pub fn run(args: &CompareArgs) -> Result<()> {
    let start = std::time::Instant::now();
    let mut plan = Plan::of(args)?;
    let source = plan.source()?;
    let directory = Directory::begin(&args.out)?;
    let spinner = progress::spinner("preparing");
    let (a, b) = (learners::build(&plan.a)?, learners::build(&plan.b)?);
    let own = |text: &str, learner: &dyn Learner| match text {
        OWN_STEPS => Ok(learner.default_steps()),
        text => Steps::parse(text),
    };
    let (steps_a, steps_b) = (own(&plan.steps_a, &*a)?, own(&plan.steps_b, &*b)?);
    (plan.steps_a, plan.steps_b) = (steps_a.to_string(), steps_b.to_string());
    let (map, count) = compute(&plan, &source, (&*a, &steps_a), (&*b, &steps_b), &spinner)?;
    spinner.set_message("resampling prompts");
    let matching = matching::bootstrap(&map, plan.task.seed());
    let fit = fit_rate(&matching, 0, u64::MAX);
    let findings = findings(&plan, &map, &matching, fit.as_ref(), count);
    spinner.set_message("drawing");
    let about = report::About {
        title: title(&map),
        purpose: findings.summary.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        command: "iclab compare --plan plan.toml --out DIR".into(),
        seed: plan.task.seed,
        prompts: count,
        seconds: start.elapsed().as_secs_f64(),
        plan_hash: plan::hash(&plan),
        machine: reproduce::machine(),
        ..Default::default()
    };
    let result = json!({
        "a": plan.a, "b": plan.b, "measure": map.label, "prompts": count,
        "steps_a": steps_a.as_slice(),
        "best": steps_a.as_slice().iter().map(|&s| matching.step_for(s)).collect::<Vec<_>>(),
        "similarity": matching.similarity,
        "floor": map.floor(),
        "rate": fit,
    });
    report::write(std::slice::from_ref(&findings), &about, directory.path())?;
    crate::output::write_file(&directory.path().join("result.json"), format!("{result:#}\n").as_bytes())?;
    plan::write(&plan, directory.path())?;
    directory.finish()?;
    spinner.finish_and_clear();
    if args.json {
        println!("{result:#}");
    } else {
        println!("{}", findings.summary);
        for row in &findings.tables[0].rows {
            println!("  {:>8} → {:<8} {} {}", row[0], row[1], map.label, row[2]);
        }
        println!("{}", args.out.join("index.html").display());
    }
    Ok(())
}

type Sided<'a> = (&'a dyn Learner, &'a Steps);

fn compute(
    plan: &Plan,
    source: &Source,
    a: Sided,
    b: Sided,
    bar: &indicatif::ProgressBar,
) -> Result<(Heatmap, usize)> {
    let metric = match plan.measure {
        Measure::Sime | Measure::Simw => Metric::Cosine,
        Measure::L2e | Measure::L2w => Metric::Distance,
    };
    if matches!(plan.measure, Measure::Sime | Measure::L2e) {
        let prompts = match source {
            Source::Count(count) => plan.task.task()?.sample(plan.task.seed(), "eval", 0, *count),
            Source::File(path) => read_prompts(path)?,
        };
        bar.set_message(format!("{} on {} prompts", a.0.id(), prompts.count()));
        let ta = a.0.trajectory(&prompts, a.1)?;
        bar.set_message(format!("{} on {} prompts", b.0.id(), prompts.count()));
        let tb = b.0.trajectory(&prompts, b.1)?;
        return Ok((of_errors(&ta, &tb, &prompts, View { first: plan.from }, metric)?, prompts.count()));
    }
    let Source::Count(count) = source else {
        return Err(Error::Usage(format!(
            "induced weights need fresh queries from the law of the prompts, which the file {} does not tell; \
             accepted: --prompts COUNT, or --measure sime or l2e",
            plan.prompts
        )));
    };
    let task = plan.task.task()?;
    if plan.from == 0 || plan.from >= task.points {
        let last = task.points - 1;
        return Err(Error::Usage(format!(
            "--from {} with induced weights; accepted: 1 to {last}",
            plan.from
        )));
    }
    let lengths = (plan.from..task.points).collect();
    let questions = task.questions(plan.task.seed(), "eval", 0, *count, lengths, plan.queries);
    bar.set_message(format!("weights of {}", a.0.id()));
    let wa = induced_weights(a.0, &questions, a.1)?;
    bar.set_message(format!("weights of {}", b.0.id()));
    let wb = induced_weights(b.0, &questions, b.1)?;
    Ok((of_weights(&wa, &wb, metric), *count))
}

fn findings(
    plan: &Plan,
    map: &Heatmap,
    matching: &Matching,
    fit: Option<&RateFit>,
    count: usize,
) -> Findings {
    let data = format!(
        "{} on {} inputs, d={}, {count} prompts",
        plan.task.function, plan.task.inputs, plan.task.dim
    );
    let data =
        if plan.prompts.ends_with(".npz") { format!("{count} prompts of {}", plan.prompts) } else { data };
    let rate = describe(fit, map);
    let summary = format!(
        "{}, {data}. {rate} Both at their last steps: {} {:.4} (the floor).",
        map.label,
        map.label,
        map.floor()
    );
    let mut figures = vec![Figure {
        id: "map".into(),
        title: format!("{} of every pair of steps", map.label),
        caption: format!(
            "{summary} Outlined: best match of each column, with a whisker where its 95 % bootstrap interval is wider than one step."
        ),
        panels: vec![heatmap_panel("", map, matching)],
    }];
    let steps = matching.a.as_slice();
    let intervals = matching.intervals();
    let matched: Vec<(f64, f64)> =
        steps.iter().map(|&s| (s as f64, matching.step_for(s).map_or(f64::NAN, |b| b as f64))).collect();
    if steps.len() > 1 {
        let band = intervals.iter().map(|i| {
            i.map_or((f64::NAN, f64::NAN), |(l, h)| {
                (matching.b.as_slice()[l] as f64, matching.b.as_slice()[h] as f64)
            })
        });
        let mut series =
            vec![Series::new("best match", matched).band(band.collect()).stroke(Stroke::LineMarkers)];
        let exponential = fit.is_some_and(|f| f.trend == Trend::Exponential);
        if let Some(fit) = fit {
            let word = if exponential { "exponential fit" } else { "linear fit" };
            let curve = fit.points.iter().map(|p| (p.0, fit.predict(p.0))).collect();
            series.push(Series::new(word, curve).stroke(Stroke::Dashed));
        }
        figures.push(Figure {
            id: "best-match".into(),
            title: "Best-matching steps".into(),
            caption: format!("{rate} Matches at the ends of what was searched are not fitted."),
            panels: vec![Panel::Lines(LinesPanel {
                title: String::new(),
                x: Axis::new(map.a.label(), Scale::Linear),
                y: Axis::new(map.b.label(), if exponential { Scale::Log2 } else { Scale::Linear }),
                series,
                references: vec![],
            })],
        });
    }
    let rows = steps.iter().enumerate().map(|(i, &s)| {
        let interval = intervals[i].map_or("–".into(), |(l, h)| {
            format!("{} to {}", matching.b.as_slice()[l], matching.b.as_slice()[h])
        });
        let best = matching.step_for(s).map_or("–".into(), |b| b.to_string());
        vec![s.to_string(), best, format!("{:.4}", matching.similarity[i]), interval]
    });
    let table = Table {
        id: "best-match".into(),
        title: "Best-matching steps".into(),
        caption: format!(
            "For each step of {} the best step of {}.",
            label(&map.a.learner),
            label(&map.b.learner)
        ),
        columns: vec![map.a.label(), map.b.label(), map.label.into(), "95 % interval".into()],
        rows: rows.collect(),
    };
    Findings {
        analysis: "compare".into(),
        title: title(map),
        summary,
        claims: vec![],
        figures,
        tables: vec![table],
        seconds: 0.0,
    }
}

fn title(map: &Heatmap) -> String {
    format!("{} against {}", label(&map.a.learner), label(&map.b.learner))
}

fn describe(fit: Option<&RateFit>, map: &Heatmap) -> String {
    let Some(fit) = fit else {
        return "Too few best matches away from the ends of the search to fit a rate.".into();
    };
    let (a, b) = (label(&map.a.learner), label(&map.b.learner));
    let scale = if fit.trend == Trend::Exponential { 1.0 / 2f64.ln() } else { 1.0 };
    let slope = fit.chosen().slope * scale;
    let interval = fit
        .slope_interval
        .map_or(String::new(), |(l, h)| format!(" (95 %: {:.2} to {:.2})", l * scale, h * scale));
    match fit.trend {
        Trend::Linear => format!("Linear: {slope:.2} steps of {b} per step of {a}{interval}."),
        Trend::Exponential => {
            format!("Exponential: {slope:.2} doublings of {b} steps per step of {a}{interval}.")
        }
    }
}
