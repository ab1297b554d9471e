//! `iclab doctor`: what this machine has, and whether its GPU computes what the CPU computes.

mod machine;
mod speed;

use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use engine::cuda::checks::{self, Failure, Outcome};
use engine::cuda::{self, CudaError};
use lab::findings::numbers::counted;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::output;

/// Look over this machine: CPU, GPU, and whether they agree
///
/// That activations are read and patched rightly is checked on the CPU. Without a CUDA device it says what is missing. With
/// one it compares every kernel with a plain reference, activations patched there and every sampler's prompts with the
/// CPU's, whole training runs with the CPU's, and times a step. While these are compared, every buffer on the device has
/// guard regions around it, which must stay intact.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  iclab doctor\n  iclab doctor --device 1 --json\n  iclab doctor --only queries\n\n\
                        Exit code: 0 all is well (also without a GPU), 1 a check fails, 2 an error."
)]
pub struct DoctorArgs {
    /// Number of the CUDA device to check
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: usize,
    /// Run only checks with this in their name; may be given again
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command; true when no check fails.
pub fn run(args: &DoctorArgs) -> Result<bool> {
    let start = Instant::now();
    let count = cuda::Device::count().unwrap_or(0);
    if args.device > 0 && args.device >= count {
        let accepted =
            if count == 0 { "none, there is no CUDA device".into() } else { format!("0 to {}", count - 1) };
        return Err(Error::Usage(format!("--device {}; accepted: {accepted}", args.device)));
    }
    let only = args.only.clone();
    let mut page = Page { quiet: args.json, only, checks: Vec::new(), failed: 0, guarded: 0 };
    page.check_names()?;
    page.row("iclab", env!("CARGO_PKG_VERSION"));
    page.row("CPU", &format!("{}; {}", output::machine(), machine::vector_features().join(", ")));
    let mut record = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "cpu": {
            "name": output::machine(),
            "cores": std::thread::available_parallelism().map_or(1, usize::from),
            "features": machine::vector_features(),
        },
    });
    page.check_cpu();
    match cuda::Device::open(args.device) {
        Err(CudaError::Unavailable(why)) => {
            page.row("CUDA", &format!("none: {why}"));
            page.line("\nNetworks train on the CPU (iclab train … --device cpu); nothing else is needed.");
            record["cuda"] = json!({"missing": why});
        }
        Err(error) => return Err(lab::Error::from(error).into()),
        Ok(device) => {
            record["cuda"] = machine::devices(&page, count, args.device, &device)?;
            page.check_all(&device);
            page.line(&format!("\nguard regions: {} intact", counted(page.guarded, "buffer", "buffers")));
            record["guards"] = json!({"intact": page.guarded});
            if page.is_selected(speed::TITLE) {
                record["speed"] = speed::measure(&page, &device);
            }
            if page.is_selected(speed::EVALUATION) {
                record["evaluation"] = speed::measure_evaluation(&page, &device);
            }
        }
    }
    let (count, failed, seconds) = (page.checks.len(), page.failed, start.elapsed().as_secs_f64());
    if count > 0 {
        let verdict = if failed == 0 { "all is well".into() } else { format!("{failed} FAILED") };
        page.line(&format!("\n{} in {seconds:.0} s: {verdict}", counted(count, "check", "checks")));
    }
    (record["checks"], record["seconds"]) = (json!(page.checks), json!(seconds));
    record["ok"] = json!(failed == 0);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&record).map_err(report::Error::from)?);
    }
    Ok(failed == 0)
}

/// What is printed as it is found, and the checks for JSON.
struct Page {
    quiet: bool,
    /// What names of checks to run must have in them; nothing: all run.
    only: Vec<String>,
    checks: Vec<Value>,
    failed: usize,
    /// Device buffers whose guards are intact.
    guarded: usize,
}

const NAME: usize = 44;
const CPU_CHECK: &str = "read and patched";

impl Page {
    fn line(&self, text: &str) {
        if !self.quiet {
            println!("{text}");
        }
    }

    fn row(&self, label: &str, text: &str) {
        self.line(&format!("{label:<6} {text}"));
    }

    /// Whether a check of this name is to run.
    fn is_selected(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| name.contains(text.as_str()))
    }

    /// Refuses to look for what no check is called.
    fn check_names(&self) -> Result<()> {
        let groups = lab::networks::checks::all();
        let of_device = groups.iter().flat_map(|(_, checks)| checks.iter().map(|check| check.name.as_str()));
        let names: Vec<&str> = of_device.chain([CPU_CHECK, speed::TITLE, speed::EVALUATION]).collect();
        match self.only.iter().find(|text| !names.iter().any(|name| name.contains(text.as_str()))) {
            None => Ok(()),
            Some(text) => Err(Error::Usage(format!(
                "--only {text}: no check has this in its name; accepted: parts of names that `iclab doctor` prints"
            ))),
        }
    }

    /// Activations on this machine's cores.
    fn check_cpu(&mut self) {
        if !self.is_selected(CPU_CHECK) {
            return;
        }
        let group = "activations on the CPU";
        self.heading(group);
        let found = checks::hooks_on_cpu().map_err(Failure::from);
        self.outcome(group, CPU_CHECK, &Outcome::of(found));
    }

    fn heading(&self, group: &str) {
        self.line(&format!("\n{group:<NAME$} {:>12} {:>10}", "worst error", "tolerance"));
    }

    fn check_all(&mut self, device: &Arc<cuda::Device>) {
        let mut groups = lab::networks::checks::all();
        groups.iter_mut().for_each(|(_, checks)| checks.retain(|check| self.is_selected(&check.name)));
        groups.retain(|(_, checks)| !checks.is_empty());
        let checks = groups.iter().flat_map(|(_, checks)| checks);
        device.precompile(checks.flat_map(|check| check.kernels(&device.info)));
        for (group, checks) in groups {
            self.heading(&group);
            for check in checks {
                self.outcome(&group, &check.name, &check.run(device));
            }
        }
    }

    fn outcome(&mut self, group: &str, name: &str, outcome: &Outcome) {
        let (worst, (word, why)) = (outcome.worst.as_ref(), outcome.words());
        let number = |value: f64| if value == 0.0 { "0".to_string() } else { format!("{value:.1e}") };
        let [error, tolerance] =
            worst.map_or_else(Default::default, |w| [number(w.error), number(w.tolerance)]);
        let note = why.map_or(String::new(), |why| format!(": {why}"));
        let width = NAME - 2;
        self.line(&format!("  {name:<width$} {error:>12} {tolerance:>10}  {word}{note}"));
        self.guarded += outcome.guarded;
        self.failed += usize::from(matches!(outcome.verdict, Err(Failure::Failed(_))));
        self.checks.push(json!({
            "group": group, "name": name, "verdict": word, "why": why, "worst": worst.map(|w| &w.name),
            "error": worst.map(|w| w.error), "tolerance": worst.map(|w| w.tolerance),
        }));
    }
}
