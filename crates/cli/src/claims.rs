//! `iclab claims`: the ledger of a report, or of a measurement made now.

use std::path::{Path, PathBuf};

use clap::Args;
use lab::analyses::reproduction::{CACHE, Reproduction};
use lab::analyses::{self, NotRun};
use lab::findings::{Claim, Findings, Verdict};
use report::Running;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::reproduce::Selection;
use crate::terminal;

/// Where `iclab reproduce` writes when nobody says where.
const REPORT: &str = "report";

/// Print the ledger of claims of a report
///
/// Measures them all when there is no report yet and none is named. In colour on a terminal, unless NO_COLOR is set; as
/// wide as the terminal, or COLUMNS, up to 100 columns.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab claims\n  iclab claims --report /tmp/f26 --json\n\n\
                        Exit code: 0 printed, whatever the verdicts; 1 a claim fails, with --strict; 2 an error.")]
pub struct ClaimsArgs {
    /// Directory of the report [default: report]
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// End with 1 if a claim fails
    #[arg(long)]
    strict: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command; false when a claim fails that --strict asks for.
pub fn run(args: &ClaimsArgs) -> Result<bool> {
    let report = args.report.clone().unwrap_or_else(|| REPORT.into());
    let ledger = report.join("ledger.json");
    let (findings, not_run) = if ledger.exists() {
        read_ledger(&ledger)?
    } else if args.report.is_some() {
        return Err(no_report(&report));
    } else {
        eprintln!("no report at {}; measuring all claims now", report.display());
        let reproduction = Reproduction::default();
        let selection = Selection::open(&reproduction, analyses::select(&[])?, false)?;
        let not_run = selection.not_run.clone();
        (selection.measure(Path::new(CACHE), false, |_| Ok(()))?.findings, not_run)
    };
    print(&findings, &not_run, args.json)?;
    Ok(!args.strict || all_hold(&findings))
}

/// A report was named that is not there; those that are here may be meant.
fn no_report(named: &Path) -> Error {
    let entries = std::fs::read_dir(".").into_iter().flatten().flatten();
    let reports = entries.filter(|entry| entry.path().join("ledger.json").is_file());
    let mut here: Vec<String> = reports.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    here.sort();
    let here = if here.is_empty() { "none".into() } else { here.join(", ") };
    let why = format!(
        "holds no report (ledger.json); accepted: a folder that iclab reproduce --out wrote; reports here: {here}"
    );
    Error::content(named, why)
}

#[derive(Deserialize)]
struct Ledger {
    about: AboutRun,
    analyses: Vec<Group>,
    #[serde(default)]
    not_run: Vec<NotRun>,
}

#[derive(Deserialize)]
struct AboutRun {
    #[serde(default)]
    running: Option<Running>,
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
    if let Some(Running { done, of }) = ledger.about.running {
        eprintln!("{}: {done} of {of} analyses; the run goes on, or was stopped", path.display());
    }
    let findings = ledger.analyses.into_iter().map(|group| Findings {
        analysis: group.analysis,
        title: group.title,
        claims: group.claims,
        seconds: group.seconds,
        ..Findings::default()
    });
    Ok((findings.collect(), ledger.not_run))
}

/// Prints the ledger.
pub fn print(findings: &[Findings], not_run: &[NotRun], json: bool) -> Result<()> {
    if json {
        let claims: Vec<&Claim> = findings.iter().flat_map(|f| &f.claims).collect();
        return crate::output::print_json(&claims);
    }
    print!("{}", report::ledger_text(findings, not_run, terminal::width(), terminal::colour()));
    Ok(())
}

/// Whether no claim fails.
pub fn all_hold(findings: &[Findings]) -> bool {
    findings.iter().flat_map(|f| &f.claims).all(|c| c.verdict != Verdict::Fails)
}
