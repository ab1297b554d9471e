//! `iclab reproduce`: the paper's statements, measured.

mod growing;
mod networks;
mod selection;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use lab::analyses;
use lab::analyses::reproduction::{CACHE, Measured};
use lab::findings::numbers::counted;
use lab::networks::evaluation;
use report::{About, Running};

use crate::claims::{none_fails, print};
use crate::device::DeviceArgs;
use crate::error::Result;
use crate::output::{Directory, machine_of_networks};
use crate::{plan, progress};
use growing::Growing;

pub use networks::Training;
pub use selection::Selection;

/// Check the paper's statements and write a report
///
/// Writes index.html, every figure as SVG, PNG and CSV, and the ledger of claims; the report can be read while it grows.
/// Analyses of trained networks take them from models/NAME or from --model; those whose network is missing are listed as not
/// run. Findings are kept under --cache: stopped and started again it goes on where it was, and a changed network, seed or
/// number of prompts is measured anew where it matters. The folder may be deleted at any time. With a CUDA device networks
/// are evaluated there, in float32, unless --device says otherwise.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab reproduce\n  iclab reproduce --quick\n  \
                        iclab reproduce --only F26,E1 --out /tmp/f26\n  \
                        iclab reproduce --model r1=runs/r1-fast-0123456789abcdef --only F3,F9\n  \
                        iclab reproduce --from-scratch --device cuda --out from-scratch\n\n\
                        Exit code: 0 measured and written, whatever the verdicts; 1 a claim fails, with --strict (an unsettled one does not); 2 an error; 130 interrupted: the same\n\
                        command goes on.")]
pub struct ReproduceArgs {
    /// Only these analyses (see `iclab list analyses`), separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// What can be shown in about a minute: the algorithms, on fewer prompts, and a miniature network, trained first if need be;
    /// no network of the paper is judged
    #[arg(long, conflicts_with = "from_scratch")]
    quick: bool,
    /// Train every network, by the experiments NAME-fast.toml (fast recipes, not the paper's), and ask each as soon as it is
    /// there; finished runs are used again
    #[arg(long, conflicts_with_all = ["model", "models"])]
    from_scratch: bool,
    /// A trained network, as NAME=DIRECTORY with plan.toml and checkpoint.safetensors; may be given several times
    #[arg(long = "model", value_name = "NAME=DIR")]
    model: Vec<String>,
    /// Folder with a directory for each network that --model does not give [default: models]
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
    /// Directory of the report; files of an older report there are replaced, your own are left alone
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
    /// End with 1 if a claim fails; one that is unsettled or only measured does not
    #[arg(long)]
    strict: bool,
    /// Print the ledger as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command; false when a claim fails that --strict asks for.
pub fn run(args: &ReproduceArgs) -> Result<bool> {
    let start = Instant::now();
    growing::stop_between_writes()?;
    let wanted = analyses::select(&args.only)?;
    args.device.apply_to_evaluation()?;
    let directory = Directory::begin(&args.out)?; // before anything is trained
    let (reproduction, mut training) = args.reproduction(&wanted)?;
    let selection = Selection::open(&reproduction, wanted, !args.only.is_empty())?;
    let mut notes: Vec<String> = reproduction.unfinished().iter().map(|run| run.to_string()).collect();
    let scope = reproduction.scope(&selection.selected, &selection.not_run, !args.only.is_empty());
    let said = if args.quick || args.from_scratch { &scope[..] } else { &[] };
    notes.iter().chain(said).for_each(|note| eprintln!("note: {note}"));
    notes.extend(scope);
    let plan = reproduction.plan(&selection.selected);
    let options = reproduction.options(args.models.as_deref());
    let about = About {
        notes,
        version: env!("CARGO_PKG_VERSION").into(),
        command: format!("iclab reproduce{}{options}", args.words(&plan.analyses)),
        options,
        seed: args.seed,
        prompts: reproduction.prompts as usize,
        plan_hash: plan::hash(&plan),
        machine: machine_of_networks(),
        not_run: selection.not_run.clone(),
        recipes: selection.recipes(),
        ..Default::default()
    };
    let of = |measured: &Measured| About { kept: measured.kept.clone(), ..about.clone() };
    let mut growing = Growing::begin(directory, &plan, start);
    let total = plan.analyses.len();
    let measured = selection.measure(&args.cache, args.fresh, &mut training, |measured, expected| {
        let running = Running { done: measured.findings.len(), of: total };
        growing.show(&measured.findings, &of(measured), running, expected)
    })?;
    training.wait(&reproduction)?;
    let spinner = progress::spinner("drawing the report");
    growing.finish(&measured.findings, &of(&measured))?;
    spinner.finish_and_clear();
    for why in evaluation::left_to_cores() {
        eprintln!("note: some networks were evaluated on the cores, not on the CUDA device: {why}");
    }
    print(&measured.findings, &about.not_run, &about.recipes, args.json)?;
    if !args.json {
        let kept = match measured.kept.len() {
            0 => String::new(),
            count => {
                let all = counted(total, "analysis", "analyses");
                format!("; {count} of {all} kept from an earlier run")
            }
        };
        let page = args.out.join("index.html");
        println!("{} ({:.0} s{kept})", page.display(), start.elapsed().as_secs_f64());
    }
    Ok(!args.strict || none_fails(&measured.findings))
}

impl ReproduceArgs {
    /// The arguments that say which analyses, and how networks were come by.
    fn words(&self, analyses: &[&str]) -> String {
        let only =
            if self.only.is_empty() { String::new() } else { format!(" --only {}", analyses.join(",")) };
        let how = match (self.quick, self.from_scratch) {
            (true, _) => " --quick",
            (_, true) => " --from-scratch",
            _ => "",
        };
        only + how
    }
}
