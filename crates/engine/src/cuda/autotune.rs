//! The autotune cache: which cuBLASLt algorithm was fastest for a matmul, found once per device and library version.
//!
//! Algorithms add in different orders, so the algorithm decides the last bits of every run: it must not depend on
//! how busy the machine was today, and is kept on disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use cudarc::driver::CudaStream;

use super::buffer::DeviceBuffer;
use super::compiler::cache_directory;
use super::device::{Device, DeviceInfo};
use super::error::{CudaError, driver};
use super::matmul::{Matmul, WORKSPACE};
use super::memory::DeviceMemory;
use crate::model::checkpoint::write_whole;

/// cuBLASLt's own, opaque description of an algorithm.
type Algorithm = [u64; 8];

/// The fastest algorithms of one device.
pub(crate) struct AutotuneCache {
    path: Option<PathBuf>,
    known: Mutex<BTreeMap<String, Algorithm>>,
}

impl AutotuneCache {
    /// Reads what is known of a device from disk.
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

    pub(crate) fn insert(&self, key: &str, algorithm: Algorithm) {
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

/// A stream and a workspace to time matmuls on.
pub(crate) struct Timer {
    stream: Arc<CudaStream>,
    workspace: DeviceBuffer<u8>,
    memory: DeviceMemory,
}

/// Made when the first matmul is timed.
pub(crate) type LazyTimer = OnceLock<Mutex<Timer>>;

impl Device {
    /// Milliseconds of a matmul: the best of a few rounds.
    pub(crate) fn time_matmul(&self, matmul: &Matmul) -> Result<f32, CudaError> {
        const ROUNDS: usize = 3;
        const REPEATS: usize = 10;
        if self.timer.get().is_none() {
            let stream = self.stream()?;
            let mut memory = DeviceMemory::new(self, stream.clone());
            let workspace = memory.zeros("workspace of timings", WORKSPACE)?;
            let _ = self.timer.set(Mutex::new(Timer { stream, workspace, memory }));
        }
        let timer = self.timer.get().expect("made above").lock().unwrap_or_else(|e| e.into_inner());
        let flags = Some(cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT);
        let event = || self.context.new_event(flags).map_err(driver("create an event"));
        let (start, end) = (event()?, event()?);
        matmul.enqueue(&timer.stream, timer.workspace)?;
        let mut best = f32::INFINITY;
        for _ in 0..ROUNDS {
            start.record(&timer.stream).map_err(driver("record an event"))?;
            for _ in 0..REPEATS {
                matmul.enqueue(&timer.stream, timer.workspace)?;
            }
            end.record(&timer.stream).map_err(driver("record an event"))?;
            end.synchronize().map_err(driver("time a matmul"))?;
            best = best.min(start.elapsed_ms(&end).map_err(driver("read a timer"))? / REPEATS as f32);
        }
        Ok(best)
    }

    /// Looks at the guards of the workspace, which stays where it is.
    pub(crate) fn verify_timer(&self) {
        if let Some(timer) = self.timer.get() {
            self.guards.file(timer.lock().unwrap_or_else(|e| e.into_inner()).memory.verify());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_survives_its_line() {
        let algorithm = [1, 2, 3, 4, 5, 6, 7, u64::MAX];
        let text = line("5248x256x768 Bias bf16 [Bf16, Float] = x", &algorithm);
        assert_eq!(parse(text.trim_end()).unwrap().1, algorithm);
        assert_eq!(parse(text.trim_end()).unwrap().0, "5248x256x768 Bias bf16 [Bf16, Float] = x");
        assert!(parse(&text[..text.len() - 9]).is_none());
    }
}
