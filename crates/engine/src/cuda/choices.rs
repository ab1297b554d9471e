//! Which algorithm was fastest for a product: found once per device and library version, kept in the cache.
//!
//! Algorithms add in different orders, so a choice decides the last bits of every run: it must not depend on
//! how busy the machine was today.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use cudarc::driver::CudaStream;

use super::compiler::cache_directory;
use super::device::{Device, DeviceInfo, Memory, Pointer};
use super::error::{CudaError, driver};
use super::product::{Product, WORKSPACE};
use crate::model::checkpoint::write_whole;

/// cuBLASLt's own, opaque description of an algorithm.
type Algorithm = [u64; 8];

/// Choices of one device.
pub(crate) struct Choices {
    path: Option<PathBuf>,
    known: Mutex<BTreeMap<String, Algorithm>>,
}

impl Choices {
    /// Reads what is known of a device.
    pub(crate) fn read(info: &DeviceInfo) -> Self {
        let name: String = info.name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let path = cache_directory().map(|dir| dir.join(format!("products-{name}-{}.txt", info.cublaslt)));
        let text = path.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let known = text.lines().filter_map(parse).collect();
        Self { path, known: Mutex::new(known) }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Algorithm> {
        self.known.lock().unwrap_or_else(|e| e.into_inner()).get(key).copied()
    }

    pub(crate) fn keep(&self, key: &str, algorithm: Algorithm) {
        let mut known = self.known.lock().unwrap_or_else(|e| e.into_inner());
        known.insert(key.to_string(), algorithm);
        if let Some(path) = &self.path {
            let text: String = known.iter().map(|(key, algorithm)| line(key, algorithm)).collect();
            // A cache that cannot be written only costs time.
            let _ = path.parent().map(fs::create_dir_all);
            let _ = write_whole(path, text.as_bytes());
        }
    }
}

fn line(key: &str, algorithm: &Algorithm) -> String {
    let words: String = algorithm.iter().map(|word| format!(" {word:016x}")).collect();
    format!("{key} ={words}\n")
}

/// A line that is not whole is as good as none.
fn parse(line: &str) -> Option<(String, Algorithm)> {
    let (key, words) = line.rsplit_once(" = ")?;
    let word = |word: &str| (word.len() == 16).then(|| u64::from_str_radix(word, 16).ok()).flatten();
    let words: Vec<u64> = words.split(' ').map(word).collect::<Option<_>>()?;
    Some((key.to_string(), words.try_into().ok()?))
}

/// A stream and scratch space to try products on.
pub(crate) struct Bench {
    stream: Arc<CudaStream>,
    workspace: Pointer,
    _memory: Memory,
}

/// Made when the first product is tried.
pub(crate) type LazyBench = OnceLock<Mutex<Bench>>;

impl Device {
    /// Milliseconds of a product: the best of a few rounds.
    pub(crate) fn time_product(&self, product: &Product) -> Result<f32, CudaError> {
        const ROUNDS: usize = 3;
        const REPEATS: usize = 10;
        if self.bench.get().is_none() {
            let stream = self.stream()?;
            let mut memory = Memory::new(stream.clone());
            let workspace = memory.zeros(WORKSPACE)?;
            let _ = self.bench.set(Mutex::new(Bench { stream, workspace, _memory: memory }));
        }
        let bench = self.bench.get().expect("made above").lock().unwrap_or_else(|e| e.into_inner());
        let flags = Some(cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT);
        let event = || self.context.new_event(flags).map_err(driver("make an event"));
        let (start, end) = (event()?, event()?);
        product.issue(&bench.stream, bench.workspace)?;
        let mut best = f32::INFINITY;
        for _ in 0..ROUNDS {
            start.record(&bench.stream).map_err(driver("note the time"))?;
            for _ in 0..REPEATS {
                product.issue(&bench.stream, bench.workspace)?;
            }
            end.record(&bench.stream).map_err(driver("note the time"))?;
            end.synchronize().map_err(driver("try a product"))?;
            best = best.min(start.elapsed_ms(&end).map_err(driver("measure time"))? / REPEATS as f32);
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_survives_its_line() {
        let algorithm = [1, 2, 3, 4, 5, 6, 7, u64::MAX];
        let text = line("5248x256x768 Bias bf16 [Bf16, Float] = x", &algorithm);
        assert_eq!(parse(text.trim_end()).unwrap().1, algorithm);
        assert_eq!(parse(text.trim_end()).unwrap().0, "5248x256x768 Bias bf16 [Bf16, Float] = x");
        assert!(parse(&text[..text.len() - 9]).is_none());
    }
}
