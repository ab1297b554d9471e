//! `iclab claims`: the ledger of a report, or of a measurement made now.

use std::path::{Path, PathBuf};

use clap::Args;
use lab::analyses::reproduction::{CACHE, Reproduction, Trained};
use lab::analyses::{self, NotRun};
use lab::findings::numbers::counted;
use lab::findings::{Claim, Differences, Findings, Verdict};
use report::Running;
use serde::Deserialize;

use crate::device::EvaluationArgs;
use crate::error::{Error, Result};
use crate::reproduce::{Selection, Training};
use crate::terminal;

/// Where `iclab reproduce` writes when nobody says where.
const REPORT: &str = "report";

/// Print the ledger of claims of a report
///
/// Each with its verdict: holds (the whole 95 % interval meets what is required), fails (the whole interval misses it), unsettled
/// (the interval reaches across), measured (nothing is required; not counted). A failing statement of the paper says to what that
/// is laid: (a) the network, (b) the protocol, (c) the paper. Other readings, such as the authors' protocol, stand below the value.
///
/// Measures them all when there is no report yet and none is named. In colour on a terminal, unless NO_COLOR is set; as
/// wide as the terminal, or COLUMNS, up to 100 columns.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab claims\n  iclab claims --report /tmp/f26 --json\n  \
                        iclab claims --report on-gpu --against on-cpu     the same claims, measured twice\n\n\
                        Exit code: 0 printed, whatever the verdicts; 1 a claim fails, with --strict (one that is unsettled does not fail), or a verdict differs, with --against; 2 an error.")]
pub struct ClaimsArgs {
    /// Directory of the report [default: report]
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Directory of another report, of another device or version: print the verdicts and values of both and how far they are
    /// apart, and end with 1 if a verdict differs
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
    /// End with 1 if a claim fails; one that is unsettled or only measured does not
    #[arg(long, conflicts_with = "against")]
    strict: bool,
    #[command(flatten)]
    device: EvaluationArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command; false when a claim fails that --strict asks for.
pub fn run(args: &ClaimsArgs) -> Result<bool> {
    let report = args.report.clone().unwrap_or_else(|| REPORT.into());
    if let Some(other) = &args.against {
        return compare([&report, other], args.json);
    }
    args.device.apply()?;
    let ledger = report.join("ledger.json");
    let (findings, not_run, recipes) = if ledger.exists() {
        read_ledger(&ledger)?
    } else if args.report.is_some() {
        return Err(no_report(&report));
    } else {
        eprintln!("no report at {}; measuring all claims now", report.display());
        let reproduction = Reproduction::default();
        let selection = Selection::open(&reproduction, analyses::select(&[])?, false)?;
        let (not_run, recipes) = (selection.not_run.clone(), selection.recipes());
        (
            selection.measure(Path::new(CACHE), false, &mut Training::none(), |_, _| Ok(()))?.findings,
            not_run,
            recipes,
        )
    };
    print(&findings, &not_run, &recipes, args.json)?;
    Ok(!args.strict || none_fails(&findings))
}

/// Prints the claims of two reports beside one another; whether no verdict differs.
fn compare(reports: [&Path; 2], json: bool) -> Result<bool> {
    let read = |report: &Path| -> Result<Vec<Findings>> {
        let ledger = report.join("ledger.json");
        if ledger.exists() { Ok(read_ledger(&ledger)?.0) } else { Err(no_report(report)) }
    };
    let found = Differences::between(&read(reports[0])?, &read(reports[1])?);
    let different = found.of_verdicts();
    if json {
        crate::output::print_json(&found)?;
        return Ok(different == 0);
    }
    let names = reports.map(|report| report.display().to_string());
    crate::output::print_aligned(&found.table([&names[0], &names[1]]));
    let farthest = found.farthest().map_or(String::new(), |claim| {
        format!("; the largest difference is {:.1e}, of {}", claim.largest, claim.id)
    });
    let verdicts = match different {
        0 => "every verdict is the same".into(),
        1 => "1 verdict differs".into(),
        _ => format!("{different} verdicts differ"),
    };
    println!("{}: {verdicts}{farthest}", counted(found.0.len(), "claim", "claims"));
    Ok(different == 0)
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
    #[serde(default)]
    recipes: Vec<Trained>,
}

#[derive(Deserialize)]
struct Group {
    analysis: String,
    title: String,
    seconds: f64,
    claims: Vec<Claim>,
}

pub(crate) fn read_ledger(path: &Path) -> Result<(Vec<Findings>, Vec<NotRun>, Vec<Trained>)> {
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
    Ok((findings.collect(), ledger.not_run, ledger.about.recipes))
}

/// Prints the ledger.
pub fn print(findings: &[Findings], not_run: &[NotRun], recipes: &[Trained], json: bool) -> Result<()> {
    if json {
        let claims: Vec<&Claim> = findings.iter().flat_map(|f| &f.claims).collect();
        return crate::output::print_json(&claims);
    }
    let (width, colour) = (terminal::width(), terminal::colour());
    print!("{}", report::ledger_text(findings, not_run, recipes, width, colour));
    Ok(())
}

/// Whether no claim fails; what is unsettled does not.
pub fn none_fails(findings: &[Findings]) -> bool {
    findings.iter().flat_map(|f| &f.claims).all(|c| c.verdict != Verdict::Fails)
}
