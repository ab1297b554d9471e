//! The kernel against [`Task::sample`], without a device: `host.cpp` runs it on the CPU.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::data::functions::FUNCTIONS;
use crate::data::inputs::INPUTS;
use crate::networks::tokens;
use crate::parallel;

const SEED: Seed = Seed(5);
const STEP: u64 = 3_000_000_001; // its prompts have numbers of more than 32 bits
const FIRST: u64 = STEP - 4;
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

    /// Largest difference of tokens and of targets, relative to the largest of each, and how many of the numbers
    /// differ at all.
    fn disagreement(&self, program: &Path) -> (f64, usize) {
        let output = program.with_extension("out");
        let run = Command::new(program)
            .arg(&output)
            .args([STEP, FIRST].map(|n| n.to_string()))
            .args(self.dims.iter().map(|d| d.to_string()))
            .output()
            .unwrap();
        assert!(run.status.success(), "{}: {run:?}", self.function);
        let bytes = std::fs::read(&output).unwrap();
        let floats: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let (targets, per_launch) = (BATCH * self.points, BATCH * self.points * (2 * self.features + 1));
        assert_eq!(floats.len(), 2 * per_launch * self.dims.len());
        let (mut worst, mut different) = (0.0_f64, 0);
        for (orders, &dims) in floats.chunks_exact(2 * per_launch).zip(self.dims) {
            let (ascending, descending) = orders.split_at(per_launch);
            let same = ascending.iter().zip(descending).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{} of {}: a barrier is missing", self.function, self.inputs);
            let prompts = self.task(dims).sample(SEED, "train", STEP * BATCH as u64, BATCH);
            let labels: Vec<f32> = prompts.ys.iter().map(|y| *y as f32).collect();
            let (device_tokens, device_labels) = ascending.split_at(per_launch - targets);
            for (device, host) in [(device_tokens, tokens(&prompts, self.features)), (device_labels, labels)]
            {
                assert!(device.iter().all(|v| v.is_finite()), "{}: not all is written", self.function);
                let largest = host.iter().fold(0.0_f64, |m, v| m.max(f64::from(v.abs())));
                for (a, b) in device.iter().zip(&host) {
                    worst = worst.max((f64::from(*a) - f64::from(*b)).abs() / largest);
                    different += usize::from(a != b);
                }
            }
        }
        (worst, different)
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
    let compiler = ["c++", "g++", "clang++"].into_iter().find(|c| runs(c));
    let Some(compiler) = compiler.filter(|_| cfg!(target_os = "linux")) else {
        eprintln!("skipped: needs a C++ compiler on Linux");
        return;
    };
    let folder = Folder::new("host");
    std::fs::write(folder.0.join("host.cpp"), include_str!("host.cpp")).unwrap();
    let cases = cases();
    parallel::map(cases.len(), |i| {
        let case = &cases[i];
        let own = folder.0.join(i.to_string());
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join("source.cu"), case.source()).unwrap();
        let program = own.join("program");
        succeed(
            Command::new(compiler)
                .args(["-std=c++17", "-O1", "-I"])
                .arg(&own)
                .arg("-o")
                .arg(&program)
                .arg(folder.0.join("host.cpp")),
        );
        let (worst, different) = case.disagreement(&program);
        let name = format!("{} of {}", case.function, case.inputs);
        println!("{name}: {worst:.1e}, {different} floats differ");
        assert!(worst <= 1e-6, "{name}: {worst}");
    });
}

/// Set `ICLAB_NVCC` to a CUDA compiler to see that it accepts the kernel, and what the kernel needs of a device.
#[test]
fn nvcc_has_nothing_to_say() {
    let Some(nvcc) = std::env::var_os("ICLAB_NVCC") else {
        eprintln!("skipped: ICLAB_NVCC does not name a CUDA compiler");
        return;
    };
    let folder = Folder::new("nvcc");
    for (i, case) in cases().iter().enumerate() {
        let source = folder.0.join(format!("{i}.cu"));
        std::fs::write(&source, case.source()).unwrap();
        let said = succeed(
            Command::new(&nvcc)
                .args(["-std=c++17", "-arch=sm_90", "-Werror=all-warnings", "-Xptxas=-v", "-cubin", "-o"])
                .arg(source.with_extension("cubin"))
                .arg(&source),
        );
        println!("{} of {}, {} points", case.function, case.inputs, case.points);
        said.lines().filter(|l| l.contains("registers") || l.contains("spill")).for_each(|l| println!("{l}"));
    }
}

/// A folder that goes when its test does.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("iclab-sampling-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn runs(compiler: &str) -> bool {
    Command::new(compiler).arg("--version").output().is_ok_and(|o| o.status.success())
}

/// What a command says; it must succeed.
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}
