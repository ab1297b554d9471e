//! What this machine has: vector instructions, CUDA devices, libraries and the kernel cache.

use std::path::Path;
use std::sync::Arc;

use engine::cuda;
use serde_json::{Value, json};

use super::Page;
use crate::error::Result;

/// Every CUDA device, the libraries, and the kernel cache.
pub fn devices(page: &Page, count: usize, chosen: usize, device: &Arc<cuda::Device>) -> Result<Value> {
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

/// Vector instructions of this CPU that the engine uses.
pub fn vector_features() -> Vec<&'static str> {
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
