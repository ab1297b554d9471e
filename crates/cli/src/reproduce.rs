//! `iclab reproduce` and `iclab claims`: the paper's statements, measured.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use lab::Seed;
use lab::analyses::{self, Lab};
use lab::claims::{Claim, Findings, Verdict};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::output::Directory;
use crate::{plan, progress};

/// Prompts behind each measured value.
const PROMPTS: u32 = 1280;

/// Check the paper's statements and write a report
///
/// Writes index.html, every figure as SVG, PNG and CSV, and the ledger of claims.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab reproduce\n  iclab reproduce --only F26,E1 --out /tmp/f26\n\n\
                        Exit code: 0 all claims hold, 1 a claim fails, 2 an error.")]
pub struct ReproduceArgs {
    /// Only these analyses (see `iclab list analyses`), separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
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
    prompts: u32,
    seed: u64,
}

/// Runs `iclab reproduce`; true when every claim holds.
pub fn run(args: &ReproduceArgs) -> Result<bool> {
    let start = Instant::now();
    let selected = analyses::select(&args.only)?;
    let directory = Directory::begin(&args.out)?;
    let findings = measure(&selected, args.seed, args.prompts)?;
    let plan = Plan {
        command: "reproduce",
        analyses: selected.iter().map(|a| a.id).collect(),
        prompts: args.prompts,
        seed: args.seed,
    };
    let only =
        if args.only.is_empty() { String::new() } else { format!(" --only {}", plan.analyses.join(",")) };
    let about = report::About {
        version: env!("CARGO_PKG_VERSION").into(),
        command: format!("iclab reproduce{only} --prompts {} --seed {}", args.prompts, args.seed),
        seed: args.seed,
        prompts: args.prompts as usize,
        seconds: start.elapsed().as_secs_f64(),
        plan_hash: plan::hash(&plan),
        machine: machine(),
        ..Default::default()
    };
    let spinner = progress::spinner("drawing the report");
    report::write(&findings, &about, directory.path())?;
    plan::write(&plan, directory.path())?;
    directory.finish()?;
    spinner.finish_and_clear();
    print(&findings, args.json)?;
    if !args.json {
        let page = args.out.join("index.html");
        println!("{} ({:.0} s)", page.display(), start.elapsed().as_secs_f64());
    }
    Ok(all_hold(&findings))
}

fn measure(selected: &[&analyses::Analysis], seed: u64, prompts: u32) -> Result<Vec<Findings>> {
    let lab = Lab::new(Seed(seed), prompts as usize);
    let bar = progress::bar(selected.len());
    let mut findings = Vec::new();
    for analysis in selected {
        bar.set_message(format!("{} {}", analysis.id, analysis.title));
        findings.push(analyses::run(analysis, &lab)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(findings)
}

/// Runs `iclab claims`; true when every claim holds.
pub fn claims(args: &ClaimsArgs) -> Result<bool> {
    let ledger = args.report.join("ledger.json");
    let findings = if ledger.exists() {
        read_ledger(&ledger)?
    } else {
        eprintln!("no report at {}; measuring all claims now", args.report.display());
        measure(&analyses::select(&[])?, 0, PROMPTS)?
    };
    print(&findings, args.json)?;
    Ok(all_hold(&findings))
}

#[derive(Deserialize)]
struct Ledger {
    analyses: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    analysis: String,
    title: String,
    seconds: f64,
    claims: Vec<Claim>,
}

fn read_ledger(path: &Path) -> Result<Vec<Findings>> {
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
    Ok(findings.collect())
}

fn print(findings: &[Findings], json: bool) -> Result<()> {
    if json {
        let claims: Vec<&Claim> = findings.iter().flat_map(|f| &f.claims).collect();
        let text = serde_json::to_string_pretty(&claims).map_err(report::Error::from)?;
        println!("{text}");
    } else {
        print!("{}", report::ledger_text(findings, std::io::stdout().is_terminal()));
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
