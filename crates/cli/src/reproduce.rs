//! `iclab reproduce` and `iclab claims`: the paper's statements, measured.

mod bench;
mod cache;
mod growing;
mod networks;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use indicatif::ProgressBar;
use lab::Seed;
use lab::analyses::{self, Analysis, Lab, NotRun};
use lab::findings::claims::{Claim, Findings, Verdict};
use lab::networks::models::{self, MINIATURE, Models, NETWORKS};
use report::{About, Running};
use serde::{Deserialize, Serialize};

use crate::device::DeviceArgs;
use crate::error::{Error, Result};
use crate::{plan, progress};
use bench::Bench;
use cache::{CACHE, Cache, Fingerprints};
use growing::Growing;
use networks::Training;

/// Prompts behind each measured value, and with `--quick`.
const PROMPTS: u32 = models::RECORDED as u32;
const QUICK_PROMPTS: u32 = 320;

/// Check the paper's statements and write a report
///
/// Writes index.html, every figure as SVG, PNG and CSV, and the ledger of claims; the report can be read while it grows.
/// Analyses of trained networks take them from models/NAME or from --model; those whose network is missing are listed as not
/// run. Findings are kept under --cache: stopped and started again it goes on where it was, and a changed network, seed or
/// number of prompts is measured anew where it matters. The folder may be deleted at any time.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab reproduce\n  iclab reproduce --quick\n  \
                        iclab reproduce --only F26,E1 --out /tmp/f26\n  \
                        iclab reproduce --model r1=runs/r1-fast-0123456789abcdef --only F3,F9\n  \
                        iclab reproduce --from-scratch --device cuda --out from-scratch\n\n\
                        Exit code: 0 all claims hold, 1 a claim fails, 2 an error.")]
pub struct ReproduceArgs {
    /// Only these analyses (see `iclab list analyses`), separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// What can be shown in four minutes: the algorithms, on fewer prompts, and a miniature network, trained first if need be
    #[arg(long, conflicts_with = "from_scratch")]
    quick: bool,
    /// Train every network first, by the experiments NAME-fast.toml, and ask those; finished runs are used again
    #[arg(long, conflicts_with_all = ["model", "models"])]
    from_scratch: bool,
    /// A trained network, as NAME=DIRECTORY with plan.toml and checkpoint.safetensors; may be given several times
    #[arg(long = "model", value_name = "NAME=DIR")]
    model: Vec<String>,
    /// Folder with a directory for each network that --model does not give [default: models]
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
    /// Directory of the report; an older report there is replaced
    #[arg(long, default_value = "report")]
    out: PathBuf,
    /// Prompts behind each measured value; bounds are set for the default [default: 1280, with --quick 320]
    #[arg(long, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    prompts: Option<u32>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Folder in which findings are kept from run to run
    #[arg(long, value_name = "DIR", default_value = CACHE)]
    cache: PathBuf,
    /// Measure everything again, whatever is kept
    #[arg(long)]
    fresh: bool,
    /// Folder of the experiments that --quick and --from-scratch train
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    experiments: PathBuf,
    /// Folder of the runs that --quick and --from-scratch train
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
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

/// What is measured on: where networks are, how many prompts, which seed.
struct Setting {
    root: PathBuf,
    /// As NAME=DIRECTORY.
    given: Vec<String>,
    prompts: u32,
    seed: u64,
    quick: bool,
}

/// Runs `iclab reproduce`; true when every claim holds.
pub fn run(args: &ReproduceArgs) -> Result<bool> {
    let start = Instant::now();
    growing::stop_between_writes()?;
    let wanted = analyses::select(&args.only)?;
    let setting = setting(args, &wanted)?;
    let bar = progress::bar(0);
    let lab = setting.lab(&bar)?;
    let (selected, not_run) = select(wanted, !args.only.is_empty(), &setting, &lab)?;
    let plan = Plan {
        command: "reproduce",
        analyses: selected.iter().map(|a| a.id).collect(),
        models: setting.given.clone(),
        prompts: setting.prompts,
        seed: setting.seed,
    };
    let only =
        if args.only.is_empty() { String::new() } else { format!(" --only {}", plan.analyses.join(",")) };
    let options = setting.options(args.models.as_deref());
    let about = About {
        version: env!("CARGO_PKG_VERSION").into(),
        command: format!("iclab reproduce{only}{}{options}", how(args)),
        options,
        seed: args.seed,
        prompts: setting.prompts as usize,
        plan_hash: plan::hash(&plan),
        machine: machine(),
        not_run,
        ..Default::default()
    };
    let mut growing = Growing::begin(&args.out, &plan, start)?;
    let cache = Cache::under(&args.cache);
    let mut bench = Bench { lab, cache, fresh: args.fresh, prints: Fingerprints::of(setting.models()?), bar };
    let total = selected.len();
    let measured = bench.measure(&selected, |measured| {
        let running = Running { done: measured.findings.len(), of: total };
        growing.show(&measured.findings, &About { kept: measured.kept.clone(), ..about.clone() }, running)
    })?;
    let spinner = progress::spinner("drawing the report");
    growing.finish(&measured.findings, &About { kept: measured.kept.clone(), ..about.clone() })?;
    spinner.finish_and_clear();
    print(&measured.findings, &about.not_run, args.json)?;
    if !args.json {
        let kept = match measured.kept.len() {
            0 => String::new(),
            count => format!("; {count} of {total} analyses kept from an earlier run"),
        };
        let page = args.out.join("index.html");
        println!("{} ({:.0} s{kept})", page.display(), start.elapsed().as_secs_f64());
    }
    Ok(all_hold(&measured.findings))
}

/// The words that say how networks were come by.
fn how(args: &ReproduceArgs) -> &'static str {
    match (args.quick, args.from_scratch) {
        (true, _) => " --quick",
        (_, true) => " --from-scratch",
        _ => "",
    }
}

/// Where networks are; those that must be trained first are.
fn setting(args: &ReproduceArgs, wanted: &[&Analysis]) -> Result<Setting> {
    if let Some(root) = args.models.as_ref().filter(|root| !root.is_dir()) {
        return Err(Error::content(root, "is not a directory; accepted: a folder with networks (--models)"));
    }
    let usual = if args.quick { QUICK_PROMPTS } else { PROMPTS };
    let mut setting = Setting {
        root: args.models.clone().unwrap_or_else(|| models::FOLDER.into()),
        given: args.model.clone(),
        prompts: args.prompts.unwrap_or(usual),
        seed: args.seed,
        quick: args.quick,
    };
    let needed = |name: &str| wanted.iter().any(|analysis| analysis.needs.contains(&name));
    let training = Training { experiments: &args.experiments, runs: &args.runs, device: &args.device };
    let mut to_train = Vec::new();
    if args.from_scratch {
        setting.root = PathBuf::new();
        let networks = NETWORKS.iter().filter(|n| n.name != MINIATURE && needed(n.name));
        to_train.extend(networks.filter_map(|n| Some((n, training.experiment(n)?))));
        if to_train.is_empty() && NETWORKS.iter().any(|n| n.name != MINIATURE && needed(n.name)) {
            let why =
                "has no experiment for any network; accepted: a folder with r1-fast.toml, … (--experiments)";
            return Err(Error::content(&args.experiments, why));
        }
    } else if args.quick && needed(MINIATURE) && !setting.models()?.is_here(MINIATURE) {
        let network = models::named(MINIATURE)?;
        let experiment = training.experiment(network).ok_or_else(|| {
            let why = "is not there; accepted: a folder of experiments that has it (--experiments)";
            Error::content(args.experiments.join("miniature.toml"), why)
        })?;
        to_train.push((network, experiment));
    }
    for (network, dir) in training.run(&to_train)? {
        setting.given.push(format!("{}={}", network.name, dir.display()));
    }
    Ok(setting)
}

impl Setting {
    fn models(&self) -> Result<Models> {
        let mut models = Models::under(&self.root);
        for text in &self.given {
            models.give(text)?;
        }
        Ok(models)
    }

    /// The bench with these networks, and a bar that says what it does.
    fn lab(&self, bar: &ProgressBar) -> Result<Lab> {
        let bar = bar.clone();
        let lab = Lab::with(Seed(self.seed), self.prompts as usize, Box::new(self.models()?));
        Ok(lab.saying(move |what| bar.set_message(what.to_string())))
    }

    /// What must be added to `iclab reproduce --only ID` to measure the same.
    fn options(&self, root: Option<&Path>) -> String {
        let mut options: String = self.given.iter().map(|model| format!(" --model {model}")).collect();
        options.extend(root.map(|root| format!(" --models {}", root.display())));
        if self.prompts != PROMPTS {
            options += &format!(" --prompts {}", self.prompts);
        }
        if self.seed != 0 {
            options += &format!(" --seed {}", self.seed);
        }
        options
    }
}

/// What can be run, and what cannot for want of a network; when analyses were named, the latter is an error.
fn select(
    mut selected: Vec<&'static Analysis>,
    named: bool,
    setting: &Setting,
    lab: &Lab,
) -> Result<(Vec<&'static Analysis>, Vec<NotRun>)> {
    let mut not_run = Vec::new();
    selected.retain(|analysis| {
        let missing = lab.missing(analysis);
        let large = setting.quick && analysis.needs.iter().any(|need| *need != MINIATURE);
        let unasked = !named && analysis.needs.contains(&MINIATURE);
        if large {
            not_run.push(NotRun {
                analysis: analysis.id.into(),
                title: analysis.title.into(),
                why: format!(
                    "asks {}; with --quick only the miniature is asked",
                    analysis.needs.join(" and ")
                ),
            });
        } else if !missing.is_empty() && !unasked {
            not_run.push(NotRun::without(analysis, &missing));
        }
        !large && missing.is_empty()
    });
    match not_run.first() {
        Some(first) if named => Err(Error::Usage(format!("{} cannot be run: {}", first.analysis, first.why))),
        _ => Ok((selected, not_run)),
    }
}

/// Runs `iclab claims`; true when every claim holds.
pub fn claims(args: &ClaimsArgs) -> Result<bool> {
    let ledger = args.report.join("ledger.json");
    let (findings, not_run) = if ledger.exists() {
        read_ledger(&ledger)?
    } else {
        eprintln!("no report at {}; measuring all claims now", args.report.display());
        let (root, prompts) = (models::FOLDER.into(), PROMPTS);
        let setting = Setting { root, given: vec![], prompts, seed: 0, quick: false };
        let bar = progress::bar(0);
        let lab = setting.lab(&bar)?;
        let (selected, not_run) = select(analyses::select(&[])?, false, &setting, &lab)?;
        let cache = Cache::under(Path::new(CACHE));
        let prints = Fingerprints::of(setting.models()?);
        let mut bench = Bench { lab, cache, fresh: false, prints, bar };
        (bench.measure(&selected, |_| Ok(()))?.findings, not_run)
    };
    print(&findings, &not_run, args.json)?;
    Ok(all_hold(&findings))
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
