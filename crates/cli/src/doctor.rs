//! `iclab doctor`: what this machine has, and whether its GPU computes what the CPU computes.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use engine::cuda::checks::{self, Check, Named};
use engine::cuda::{self, CudaError, Precision};
use lab::networks::devices::Device;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::{bench, reproduce};

/// Look over this machine: CPU, GPU, and whether they agree
///
/// Without a CUDA device it says what is missing. With one it compares every kernel with the CPU, every sampler with the
/// prompts that the CPU draws, whole training runs, and times a step.
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab doctor\n  iclab doctor --device 1 --json\n\n\
                        Exit code: 0 all is well (also without a GPU), 1 a check fails, 2 an error.")]
pub struct DoctorArgs {
    /// Number of the CUDA device to check
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: usize,
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
    let mut page = Page { quiet: args.json, checks: Vec::new() };
    page.row("iclab", env!("CARGO_PKG_VERSION"));
    page.row("CPU", &format!("{}; {}", reproduce::machine(), vector_features().join(", ")));
    let mut record = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "cpu": {
            "name": reproduce::machine(),
            "cores": std::thread::available_parallelism().map_or(1, usize::from),
            "features": vector_features(),
        },
    });
    match cuda::Device::open(args.device) {
        Err(CudaError::Unavailable(why)) => {
            page.row("CUDA", &format!("none: {why}"));
            page.line("\nNetworks train on the CPU (iclab train … --device cpu); nothing else is needed.");
            record["cuda"] = json!({"missing": why});
        }
        Err(error) => return Err(lab::Error::from(error).into()),
        Ok(device) => {
            record["cuda"] = devices(&page, count, args.device, &device)?;
            page.check_all(&device);
            record["speed"] = speed(&page, &device);
        }
    }
    let failed = page.checks.iter().filter(|check| check["verdict"] == "FAILED").count();
    let (count, seconds) = (page.checks.len(), start.elapsed().as_secs_f64());
    if count > 0 {
        let verdict = if failed == 0 { "all is well".into() } else { format!("{failed} FAILED") };
        page.line(&format!("\n{count} checks in {seconds:.0} s: {verdict}"));
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
    checks: Vec<Value>,
}

const NAME: usize = 44;

impl Page {
    fn line(&self, text: &str) {
        if !self.quiet {
            println!("{text}");
        }
    }

    fn row(&self, label: &str, text: &str) {
        self.line(&format!("{label:<6} {text}"));
    }

    fn check_all(&mut self, device: &Arc<cuda::Device>) {
        let group = |page: &Page, name: &str| {
            page.line(&format!("\n{name:<NAME$} {:>12} {:>10}", "worst error", "tolerance"));
        };
        let networks = Precision::ALL.map(|(precision, name)| (name, checks::suite(precision)));
        let labs = lab::networks::checks::suite();
        let of_networks = networks.iter().flat_map(|(_, checks)| checks).flat_map(|c| c.kernels(device));
        let of_labs = labs.iter().flat_map(|(_, checks)| checks).flat_map(|c| c.kernels(device));
        device.precompile(of_networks.chain(of_labs));
        for (name, checks) in networks {
            let name = format!("networks in {name}, against the CPU");
            group(self, &name);
            for check in checks {
                self.check(&name, &check, device, not_offered);
            }
        }
        for (name, checks) in labs {
            let name = format!("{name}, against the CPU");
            group(self, &name);
            for check in checks {
                self.check(&name, &check, device, |error| match error {
                    lab::Error::Cuda(error) => not_offered(error),
                    other => Err(other.to_string()),
                });
            }
        }
    }

    fn check<E>(
        &mut self,
        group: &str,
        check: &Named<E>,
        device: &Arc<cuda::Device>,
        sort: impl FnOnce(E) -> Result<String, String>,
    ) {
        let found = check.run(device).map_err(sort);
        let number = |value: f64| if value == 0.0 { "0".to_string() } else { format!("{value:.1e}") };
        let (columns, verdict, why) = match &found {
            Ok(found) => match checks::worst(found) {
                Some(worst) => {
                    let columns = [number(worst.error), number(worst.tolerance)];
                    let failed = (!worst.holds()).then(|| failures(found));
                    (columns, if failed.is_some() { "FAILED" } else { "ok" }, failed)
                }
                None => (Default::default(), "FAILED", Some("nothing was compared".into())),
            },
            Err(Ok(why)) => (Default::default(), "not offered", Some(why.clone())),
            Err(Err(error)) => (Default::default(), "FAILED", Some(error.clone())),
        };
        let [error, tolerance] = columns;
        let note = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
        let name = &check.name;
        self.line(&format!(
            "  {name:<width$} {error:>12} {tolerance:>10}  {verdict}{note}",
            width = NAME - 2
        ));
        let worst = found.as_ref().ok().and_then(|found| checks::worst(found));
        self.checks.push(json!({
            "group": group, "name": name, "verdict": verdict, "why": why,
            "worst": worst.map(|w| &w.name), "error": worst.map(|w| w.error), "tolerance": worst.map(|w| w.tolerance),
        }));
    }
}

/// What the device does not offer is no failure.
fn not_offered(error: CudaError) -> Result<String, String> {
    match error {
        CudaError::Unsupported(why) => Ok(why),
        other => Err(other.to_string()),
    }
}

/// The comparisons that do not hold, a few of them.
fn failures(found: &[Check]) -> String {
    let bad: Vec<String> =
        found.iter().filter(|c| !c.holds()).map(|c| format!("{} {:.1e}", c.name, c.error)).collect();
    let more = if bad.len() > 3 { format!(" and {} more", bad.len() - 3) } else { String::new() };
    format!("{}{more}", bad[..bad.len().min(3)].join(", "))
}

/// Every CUDA device, the libraries, and the cache.
fn devices(page: &Page, count: usize, chosen: usize, device: &Arc<cuda::Device>) -> Result<Value> {
    let gib = |bytes: usize| bytes as f64 / (1u64 << 30) as f64;
    let mut list = Vec::new();
    for ordinal in 0..count {
        let opened = if ordinal == chosen { Ok(device.clone()) } else { cuda::Device::open(ordinal) };
        let label = if ordinal == 0 { "CUDA" } else { "" };
        match opened {
            Ok(device) => {
                let info = &device.info;
                let free = device.free_memory().map_err(lab::Error::from)?;
                page.row(label, &format!(
                    "{ordinal}: {}, compute capability {}.{}, {} multiprocessors, {:.1} GiB of memory ({:.1} free){}",
                    info.name, info.capability.0, info.capability.1, info.multiprocessors, gib(info.memory), gib(free),
                    if count > 1 && ordinal == chosen { ", checked below" } else { "" },
                ));
                list.push(json!({
                    "name": info.name, "capability": [info.capability.0, info.capability.1],
                    "multiprocessors": info.multiprocessors, "memory": info.memory, "free": free,
                }));
            }
            Err(error) => {
                page.row(label, &format!("{ordinal}: {error}"));
                list.push(json!({"error": error.to_string()}));
            }
        }
    }
    let info = &device.info;
    let driver = format!("{}.{}", info.driver / 1000, info.driver % 1000 / 10);
    let nvrtc = format!("{}.{}", info.nvrtc.0, info.nvrtc.1);
    // 130100 and 120805 alike: major, minor, patch
    let blas = info.cublaslt;
    let cublaslt = format!("{}.{}.{}", blas / 10_000, blas / 100 % 100, blas % 100);
    page.row("", &format!("driver for CUDA {driver}, NVRTC {nvrtc}, cuBLASLt {cublaslt}"));
    let cache = cuda::cache_directory();
    let text = match &cache {
        Some(path) => format!("compiled kernels are kept in {} ({})", path.display(), contents(path)),
        None => "compiled kernels are not kept: neither XDG_CACHE_HOME nor HOME is set".into(),
    };
    page.row("", &text);
    Ok(
        json!({"devices": list, "checked": chosen, "driver": driver, "nvrtc": nvrtc, "cublaslt": cublaslt, "cache": cache}),
    )
}

fn contents(path: &Path) -> String {
    let sizes: Vec<u64> = std::fs::read_dir(path)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()))
        .collect();
    match sizes.len() {
        0 => "empty".into(),
        count => format!("{count} files, {:.1} MiB", sizes.iter().sum::<u64>() as f64 / (1 << 20) as f64),
    }
}

/// Milliseconds of a step of the paper's networks.
fn speed(page: &Page, device: &Arc<cuda::Device>) -> Value {
    page.line(&format!("\n{:<NAME$} {:>12} {:>10}", "speed, sampling included", "ms a step", "best"));
    let mut rows = Vec::new();
    for (name, text) in [("r1", "the paper's network"), ("r7", "the LSTM")] {
        for precision in [Precision::Tf32, Precision::Bf16] {
            let place = Device::Cuda(device.clone(), precision);
            let timing = bench::experiment(name).and_then(|experiment| {
                let batch = experiment.training.batch;
                Ok((batch, bench::time_steps(&place, &experiment, Some(300), || {})?))
            });
            let label = |batch: usize| format!("{text}, batch {batch}, {}", precision.name());
            match timing {
                Ok((batch, timing)) => {
                    let (median, best) = (timing.median_ms(), timing.best_ms());
                    let label = label(batch);
                    page.line(&format!("  {label:<width$} {median:>12.3} {best:>10.3}", width = NAME - 2));
                    rows.push(json!({
                        "experiment": name, "precision": precision.name(), "batch": batch, "median_ms": median, "best_ms": best,
                    }));
                }
                Err(error) => {
                    let why = match error {
                        Error::Lab(lab::Error::Cuda(CudaError::Unsupported(why))) => {
                            format!("not offered: {why}")
                        }
                        other => other.to_string(),
                    };
                    page.line(&format!("  {text}, {}: {why}", precision.name()));
                    rows.push(json!({"experiment": name, "precision": precision.name(), "error": why}));
                }
            }
        }
    }
    json!(rows)
}

/// What the processor offers of what the engine uses.
fn vector_features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let features = [
        ("AVX2", is_x86_feature_detected!("avx2")),
        ("FMA", is_x86_feature_detected!("fma")),
        ("AVX-512", is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let features = [("NEON", cfg!(target_arch = "aarch64"))];
    let found: Vec<&str> = features.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
    if found.is_empty() { vec!["no vector instructions that the engine uses"] } else { found }
}
