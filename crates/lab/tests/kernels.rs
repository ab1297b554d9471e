//! CUDA kernels, compiled for GPUs that need not be there; says `skipped` where there is no NVRTC.
//!
//! Those of R1 and of the LSTM are compiled; with `ICLAB_KERNELS=all` those of every check of `iclab doctor` and of every experiment
//! are, in each precision, which takes minutes.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::sync::Mutex;
use std::thread;

use engine::cuda::checks::kernels_of;
use engine::cuda::{DeviceInfo, KernelSource, KernelUsage, Precision, known_devices, nvrtc_is_present};
use lab::networks::checks;
use lab::networks::experiment::Experiment;

/// What a shipped experiment is compiled from at its last step.
fn of_experiment(file: &str, device: &DeviceInfo, precision: Precision) -> Vec<KernelSource> {
    let path = format!("{}/../../experiments/{file}", env!("CARGO_MANIFEST_DIR"));
    let Experiment { task, training, network, .. } = Experiment::read(path.as_ref()).unwrap();
    let network = network.build(task.dim, task.points).unwrap();
    kernels_of(device, precision, &network, [training.batch, 2 * task.points])
}

fn sources(device: &DeviceInfo, all: bool) -> HashSet<KernelSource> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    let files =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let wanted =
        |file: &String| file.ends_with(".toml") && (all || ["r1.toml", "r7.toml"].contains(&file.as_str()));
    let precisions = Precision::ALL.map(|(precision, _)| precision);
    let precisions = precisions.into_iter().filter(|of| all || *of == Precision::Bf16);
    let pairs = files.filter(wanted).flat_map(|file| precisions.clone().map(move |of| (file.clone(), of)));
    let experiments = pairs.flat_map(|(file, precision)| of_experiment(&file, device, precision));
    let checks = if all { checks::all() } else { Vec::new() };
    let checks = checks.into_iter().flat_map(|(_, checks)| checks);
    experiments.chain(checks.flat_map(|check| check.kernels(device))).collect()
}

/// Compiles on all cores: what the kernels of each source take.
fn compile(device: &DeviceInfo, sources: HashSet<KernelSource>) -> BTreeMap<String, Vec<KernelUsage>> {
    let (waiting, found) = (Mutex::new(sources.into_iter()), Mutex::new(BTreeMap::<_, Vec<_>>::new()));
    let next = || waiting.lock().unwrap().next();
    let work = || {
        while let Some(source) = next() {
            let usage = source.usage(device).unwrap_or_else(|error| panic!("{}: {error}", device.name));
            assert!(!usage.is_empty(), "{} for {} has no kernels", source.name(), device.name);
            found.lock().unwrap().entry(source.name().to_string()).or_default().extend(usage);
        }
    };
    thread::scope(|scope| {
        (0..thread::available_parallelism().map_or(1, usize::from)).for_each(|_| drop(scope.spawn(work)));
    });
    found.into_inner().unwrap()
}

#[test]
fn kernels_compile_for_every_architecture() {
    if !nvrtc_is_present() {
        let wanted = std::env::var_os("ICLAB_REQUIRE_NVRTC").is_some();
        assert!(!wanted, "libnvrtc.so was not found (scripts/install-nvrtc installs it)");
        let _ = writeln!(std::io::stderr(), "skipped: no NVRTC (scripts/install-nvrtc installs it)");
        return;
    }
    let all = std::env::var("ICLAB_KERNELS").is_ok_and(|value| value == "all");
    for device in known_devices() {
        let found = compile(&device, sources(&device, all));
        println!("{}: registers, static shared memory and spills in bytes, the most of each", device.name);
        for (source, usage) in &found {
            let most = |of: fn(&KernelUsage) -> usize| usage.iter().map(of).max().unwrap_or(0);
            let [registers, shared, spills] =
                [most(|u| u.registers), most(|u| u.shared_memory), most(|u| u.spills)];
            println!("  {source:<16} {:4} kernels  {registers:4} {shared:6} {spills:4}", usage.len());
            assert!(registers > 0, "{source} for {}: the compiler's words are not understood", device.name);
        }
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        let hopper = ["mlp_hopper", "norm_hopper"].map(|name| names.contains(&name));
        assert_eq!(hopper, [device.capability == (9, 0); 2], "{}: {names:?}", device.name);
        assert!(
            ["attention", "lstm", "optimiser", "rows"].iter().all(|name| names.contains(name)),
            "{names:?}"
        );
        assert!(!all || ["query_attention", "lstm_query", "sample"].iter().all(|name| names.contains(name)));
    }
}
