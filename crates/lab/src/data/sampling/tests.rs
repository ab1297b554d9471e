//! The kernel against [`Task::sample`], on a device in software.

#[path = "../../../../engine/tests/emulated/mod.rs"]
mod emulated;

use std::io::Write;
use std::sync::Arc;

use emulated::{Emulated, emulated};
use engine::cuda::{self, Device, KernelSource, Precision, SampleKernel};
use engine::deviation::worst;

use super::*;
use crate::data::functions::FUNCTIONS;
use crate::data::inputs::INPUTS;
use crate::networks::tokens;
use crate::parallel;

const SEED: Seed = Seed(5);
const STEP: u64 = 3_000_000_001; // its prompts have numbers of more than 32 bits
const BATCH: usize = 3;

/// A task, and the dimensions in use that are tried.
struct Case {
    function: String,
    inputs: String,
    points: usize,
    features: usize,
    dims: &'static [usize],
    threads: usize,
}

impl Case {
    fn new(function: &str, inputs: &str) -> Case {
        let (function, inputs) = (function.into(), inputs.into());
        Case { function, inputs, points: 11, features: 8, dims: &[8, 5, 3], threads: THREADS }
    }

    fn of(self, points: usize, features: usize, dims: &'static [usize]) -> Case {
        Case { points, features, dims, ..self }
    }

    fn task(&self, dims: usize) -> Task {
        Task::new(&self.function, &self.inputs, dims, self.points).unwrap()
    }

    fn source(&self) -> String {
        let task = self.task(self.features);
        let constants =
            Constants { task: &task, seed: SEED, stream: "train", batch: BATCH, threads: self.threads };
        constants.source().unwrap_or_else(|| panic!("{} of {} has no sampler", self.function, self.inputs))
    }

    fn name(&self) -> String {
        format!("{} of {}, {} points", self.function, self.inputs, self.points)
    }

    fn kernel(&self) -> KernelSource {
        KernelSource::sampler(Precision::Float32, &self.source())
    }

    /// Largest difference of tokens and of targets, relative to the largest of each, and how many of the numbers
    /// differ at all.
    fn disagreement(&self, device: &Arc<Device>) -> (f64, usize) {
        let (source, threads) = (self.source(), self.threads as u32);
        let kernel = SampleKernel { source: &source, threads, cooperative: false };
        let (mut error, mut different) = (0.0, 0);
        for &dims in self.dims {
            let shape = [BATCH, self.points, self.features];
            let found = cuda::sample_once(device, kernel, shape, STEP, dims as u32).unwrap();
            let prompts = self.task(dims).sample(SEED, "train", STEP * BATCH as u64, BATCH);
            let labels: Vec<f32> = prompts.ys.iter().map(|y| *y as f32).collect();
            for (device, host) in [(found.0, tokens(&prompts, self.features)), (found.1, labels)] {
                let largest = host.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
                let pairs = || device.iter().zip(&host);
                error = worst(pairs().map(|(a, b)| f64::from((a - b).abs() / largest)).chain([error]));
                different += pairs().filter(|(a, b)| a != b).count();
            }
        }
        (error, different)
    }
}

/// Every row of both registries, and the settings and sizes that take another way through the kernel.
fn cases() -> Vec<Case> {
    let rows = FUNCTIONS.iter().flat_map(|f| INPUTS.iter().map(|i| Case::new(f.name, i.name)));
    rows.chain([
        Case::new("noisy-linear:sigma=0.3", "skewed:kappa=7.3,scale=raw,share=2").of(41, 20, &[20, 13, 2]),
        Case::new("linear", "skewed:kappa=1").of(9, 5, &[5, 1]),
        Case::new("linear", "skewed:share=64").of(6, 40, &[40, 39]),
        Case::new("linear", "gaussian").of(1000, 7, &[7, 1]),
        Case::new("noisy-linear", "gaussian").of(1, 1, &[1]),
        Case::new("sparse-linear:nonzero=5", "gaussian").of(10, 9, &[9, 7, 5]),
        Case::new("relu-2nn", "skewed").of(101, 20, &[20, 17]), // two chunks of points
        Case::new("tanh-2nn:hidden=9,bias=false,first=fan-in", "gaussian"),
        Case::new("relu-2nn:hidden=1,bias=false", "gaussian"),
        Case::new("tanh-2nn:first=fan-in", "gaussian").of(101, 20, &[20, 5]),
        Case::new("decision-tree:depth=20", "gaussian"),
        Case::new("decision-tree:depth=1", "skewed"),
        Case { threads: 32, ..Case::new("relu-2nn:hidden=17", "skewed") },
        Case { threads: 32, ..Case::new("noisy-linear", "gaussian").of(41, 20, &[20]) },
    ])
    .collect()
}

#[test]
fn every_row_can_be_sampled_on_a_device() {
    for function in FUNCTIONS {
        for inputs in INPUTS {
            let sampler = DeviceSampler::new(function.name, inputs.name, SEED, "train", 64, 101, 20).unwrap();
            assert!(sampler.is_some(), "{} of {}", function.name, inputs.name);
        }
    }
    let huge = DeviceSampler::new("relu-2nn:hidden=5000", "gaussian", SEED, "train", 64, 101, 20).unwrap();
    assert!(huge.is_none(), "weights that do not fit are said not to");
    assert!(DeviceSampler::new("linear", "gaussian", SEED, "train", 0, 101, 20).is_err());
    assert!(DeviceSampler::new("sparse-linear:nonzero=30", "gaussian", SEED, "train", 1, 9, 20).is_err());
}

#[test]
fn devices_draw_what_the_cpu_draws() {
    let device = match emulated("data::sampling::tests::devices_draw_what_the_cpu_draws") {
        Emulated::Device(device) => device,
        Emulated::Said(said) => return print!("{said}"),
        Emulated::Skipped => return,
    };
    let cases = cases();
    device.precompile(cases.iter().map(Case::kernel));
    for case in cases {
        let (error, different) = case.disagreement(&device);
        println!("{}: {error:.1e}, {different} floats differ", case.name());
        assert!(error <= 1e-6, "{}: {error}", case.name());
    }
}

#[test]
fn nvidias_compiler_takes_every_kernel() {
    if !cuda::nvrtc_is_present() {
        let _ = writeln!(std::io::stderr(), "skipped: no NVRTC (scripts/install-nvrtc installs it)");
        return;
    }
    let device = cuda::known_devices().into_iter().find(|device| device.name == "H200").unwrap();
    let cases = cases();
    parallel::map(cases.len(), |i| {
        let usage =
            cases[i].kernel().usage(&device).unwrap_or_else(|error| panic!("{}: {error}", cases[i].name()));
        assert!(usage.iter().map(|kernel| kernel.name.as_str()).eq(["sample"]), "{}", cases[i].name());
        println!("{}: {} registers, {} bytes spilled", cases[i].name(), usage[0].registers, usage[0].spills);
    });
}
