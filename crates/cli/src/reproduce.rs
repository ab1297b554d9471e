//! `iclab reproduce` and `iclab claims`: the paper's statements, measured.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use indicatif::ProgressBar;
use lab::Seed;
use lab::analyses::{self, Analysis, Lab, NotRun};
use lab::claims::{Claim, Findings, Verdict};
use lab::models::Models;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::output::Directory;
use crate::{plan, progress};

/// Where networks are when nobody says where.
const MODELS: &str = "models";
/// Prompts behind each measured value.
const PROMPTS: u32 = 1280;

/// Check the paper's statements and write a report
///
/// Writes index.html, every figure as SVG, PNG and CSV, and the ledger of claims. Analyses of trained networks take them
/// from models/NAME or from --model; those whose network is missing are listed as not run.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab reproduce\n  iclab reproduce --only F26,E1 --out /tmp/f26\n  \
                        iclab reproduce --model r1=runs/r1-fast-0123456789abcdef --only F3,F9\n\n\
                        Exit code: 0 all claims hold, 1 a claim fails, 2 an error.")]
pub struct ReproduceArgs {
    /// Only these analyses (see `iclab list analyses`), separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// A trained network, as NAME=DIRECTORY with plan.toml and checkpoint.safetensors; may be given several times
    #[arg(long = "model", value_name = "NAME=DIR")]
    model: Vec<String>,
    /// Folder with a directory for each network that --model does not give [default: models]
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
    /// Directory of the report; an older report there is replaced
    #[arg(long, default_value = "report")]
    out: PathBuf,
    /// Prompts behind each measured value; bounds are set for the default
    #[arg(long, default_value_t = PROMPTS, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    prompts: u32,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print the ledger as JSON
    #[arg(long)]
    json: bool,
}

/// Print the ledger of claims of a report
///
/// Measures them all when there is no report yet.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab claims\n  iclab claims --report /tmp/f26 --json\n\n\
                        Exit code: 0 all claims hold, 1 a claim fails, 2 an error.")]
pub struct ClaimsArgs {
    /// Directory of the report
    #[arg(long, default_value = "report")]
    report: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Plan {
    command: &'static str,
    analyses: Vec<&'static str>,
    models: Vec<String>,
    prompts: u32,
    seed: u64,
}

/// Runs `iclab reproduce`; true when every claim holds.
pub fn run(args: &ReproduceArgs) -> Result<bool> {
    let start = Instant::now();
    let bar = progress::bar(0);
    let lab = lab(args, &bar)?;
    let (selected, not_run) = select(&args.only, &lab)?;
    let directory = Directory::begin(&args.out)?;
    let findings = measure(&selected, &lab, &bar)?;
    let plan = Plan {
        command: "reproduce",
        analyses: selected.iter().map(|a| a.id).collect(),
        models: args.model.clone(),
        prompts: args.prompts,
        seed: args.seed,
    };
    let only =
        if args.only.is_empty() { String::new() } else { format!(" --only {}", plan.analyses.join(",")) };
    let models: String = args.model.iter().map(|model| format!(" --model {model}")).collect();
    let about = report::About {
        version: env!("CARGO_PKG_VERSION").into(),
        command: format!("iclab reproduce{only}{models} --prompts {} --seed {}", args.prompts, args.seed),
        seed: args.seed,
        prompts: args.prompts as usize,
        seconds: start.elapsed().as_secs_f64(),
        plan_hash: plan::hash(&plan),
        machine: machine(),
        not_run,
        ..Default::default()
    };
    let spinner = progress::spinner("drawing the report");
    report::write(&findings, &about, directory.path())?;
    plan::write(&plan, directory.path())?;
    directory.finish()?;
    spinner.finish_and_clear();
    print(&findings, &about.not_run, args.json)?;
    if !args.json {
        let page = args.out.join("index.html");
        println!("{} ({:.0} s)", page.display(), start.elapsed().as_secs_f64());
    }
    Ok(all_hold(&findings))
}

/// The bench with the networks that were named, and a bar that says what it does.
fn lab(args: &ReproduceArgs, bar: &ProgressBar) -> Result<Lab> {
    if let Some(root) = args.models.as_ref().filter(|root| !root.is_dir()) {
        return Err(Error::content(root, "is not a directory; accepted: a folder with networks (--models)"));
    }
    let mut models = Models::under(args.models.clone().unwrap_or_else(|| MODELS.into()));
    for text in &args.model {
        models.give(text)?;
    }
    let bar = bar.clone();
    let lab = Lab::with(Seed(args.seed), args.prompts as usize, Box::new(models));
    Ok(lab.saying(move |what| bar.set_message(what.to_string())))
}

/// What can be run, and what cannot for want of a network; naming the latter is an error.
fn select(only: &[String], lab: &Lab) -> Result<(Vec<&'static Analysis>, Vec<NotRun>)> {
    let mut not_run = Vec::new();
    let mut selected = analyses::select(only)?;
    selected.retain(|analysis| {
        let missing = lab.missing(analysis);
        if !missing.is_empty() {
            not_run.push(NotRun::without(analysis, &missing));
        }
        missing.is_empty()
    });
    match not_run.first() {
        Some(first) if !only.is_empty() => {
            Err(Error::Usage(format!("{} cannot be run: {}", first.analysis, first.why)))
        }
        _ => Ok((selected, not_run)),
    }
}

fn measure(selected: &[&Analysis], lab: &Lab, bar: &ProgressBar) -> Result<Vec<Findings>> {
    bar.set_length(selected.len() as u64);
    let mut findings = Vec::new();
    for analysis in selected {
        bar.set_prefix(analysis.id);
        bar.set_message(analysis.title);
        findings.push(analyses::run(analysis, lab)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(findings)
}

/// Runs `iclab claims`; true when every claim holds.
pub fn claims(args: &ClaimsArgs) -> Result<bool> {
    let ledger = args.report.join("ledger.json");
    let (findings, not_run) = if ledger.exists() {
        read_ledger(&ledger)?
    } else {
        eprintln!("no report at {}; measuring all claims now", args.report.display());
        let lab = Lab::with(Seed(0), PROMPTS as usize, Box::new(Models::under(MODELS)));
        let (selected, not_run) = select(&[], &lab)?;
        (measure(&selected, &lab, &progress::bar(0))?, not_run)
    };
    print(&findings, &not_run, args.json)?;
    Ok(all_hold(&findings))
}

#[derive(Deserialize)]
struct Ledger {
    analyses: Vec<Group>,
    #[serde(default)]
    not_run: Vec<NotRun>,
}

#[derive(Deserialize)]
struct Group {
    analysis: String,
    title: String,
    seconds: f64,
    claims: Vec<Claim>,
}

fn read_ledger(path: &Path) -> Result<(Vec<Findings>, Vec<NotRun>)> {
    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    let ledger: Ledger = serde_json::from_str(&text)
        .map_err(|e| Error::content(path, format!("not a ledger of iclab: {e}")))?;
    let findings = ledger.analyses.into_iter().map(|group| Findings {
        analysis: group.analysis,
        title: group.title,
        summary: String::new(),
        claims: group.claims,
        figures: vec![],
        tables: vec![],
        seconds: group.seconds,
    });
    Ok((findings.collect(), ledger.not_run))
}

fn print(findings: &[Findings], not_run: &[NotRun], json: bool) -> Result<()> {
    if json {
        let claims: Vec<&Claim> = findings.iter().flat_map(|f| &f.claims).collect();
        let text = serde_json::to_string_pretty(&claims).map_err(report::Error::from)?;
        println!("{text}");
    } else {
        print!("{}", report::ledger_text(findings, not_run, std::io::stdout().is_terminal()));
    }
    Ok(())
}

fn all_hold(findings: &[Findings]) -> bool {
    findings.iter().flat_map(|f| &f.claims).all(|c| c.verdict != Verdict::Fails)
}

/// Processor and cores, in words.
pub fn machine() -> String {
    let name = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|l| l.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_string())
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} cores", name.unwrap_or_else(|| std::env::consts::ARCH.into()))
}
