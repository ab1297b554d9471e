//! The autotune cache: which cuBLASLt algorithm was fastest for a matmul, and of two ways to launch the same which was, found once per
//! device and library version.
//!
//! Algorithms add in different orders, so the algorithm decides the last bits of every run: it must not depend on
//! how busy the machine was today, and is kept on disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use cudarc::cublaslt::sys::cublasLtMatmulAlgo_t;
use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUevent_flags;

use super::buffer::DeviceBuffer;
use super::compiler::cache_directory;
use super::device::{Device, DeviceInfo};
use super::error::{CudaError, driver};
use super::graph::Launch;
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

    /// The algorithm that makes a whole step shortest, if that was looked for. It is another entry, so that trainings that do
    /// not look for it keep their bits.
    pub(crate) fn get_in_step(&self, key: &str) -> Option<Algorithm> {
        self.get(&in_step(key))
    }

    pub(crate) fn insert_in_step(&self, key: &str, algorithm: Algorithm) {
        self.insert(&in_step(key), algorithm);
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

/// The entry beside a matmul's own for what is fastest within a step.
fn in_step(key: &str) -> String {
    format!("{key} in a step")
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

/// A stream to time work on, and a workspace of matmuls.
pub(crate) struct Timer {
    stream: Arc<CudaStream>,
    workspace: DeviceBuffer<u8>,
    memory: DeviceMemory,
}

impl Timer {
    /// Milliseconds of what is enqueued.
    fn time(
        &self,
        device: &Device,
        enqueue: impl FnOnce(&CudaStream) -> Result<(), CudaError>,
    ) -> Result<f32, CudaError> {
        let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let event = || device.context.new_event(flags).map_err(driver("create an event"));
        let (start, end) = (event()?, event()?);
        start.record(&self.stream).map_err(driver("record an event"))?;
        enqueue(&self.stream)?;
        end.record(&self.stream).map_err(driver("record an event"))?;
        end.synchronize().map_err(driver("finish what is timed"))?;
        start.elapsed_ms(&end).map_err(driver("read a timer"))
    }

    /// Milliseconds of `count` matmuls in a row.
    fn time_matmuls(
        &self,
        device: &Device,
        matmul: &Matmul,
        algorithm: &cublasLtMatmulAlgo_t,
        count: usize,
    ) -> Result<f32, CudaError> {
        let run = |stream: &CudaStream| matmul.enqueue_by(algorithm, stream, self.workspace);
        self.time(device, |stream| (0..count).try_for_each(|_| run(stream)))
    }
}

/// Made when something is timed first.
pub(crate) type LazyTimer = OnceLock<Mutex<Timer>>;

/// How often all candidates are timed in turns, and how often each of them runs in a turn.
const ROUNDS: usize = 5;
const REPEATS: usize = 10;
/// An idle device takes a while to reach its clock: milliseconds of work before anything is timed.
const WARM_UP_MS: f32 = 40.0;

impl Device {
    /// The algorithms that can run a matmul, the fastest first. Nothing else of this process runs meanwhile, and they are timed in
    /// turns: a clock that rises, or another process that comes and goes, meets all of them alike.
    pub(crate) fn rank(
        &self,
        matmul: &Matmul,
        algorithms: &[cublasLtMatmulAlgo_t],
    ) -> Result<Vec<cublasLtMatmulAlgo_t>, CudaError> {
        self.gate.be_alone();
        let timer = self.timer()?;
        // What the library suggests it may still refuse.
        let runs = |algorithm: &&cublasLtMatmulAlgo_t| timer.time_matmuls(self, matmul, algorithm, 1).is_ok();
        let mut timed: Vec<(f32, cublasLtMatmulAlgo_t)> =
            algorithms.iter().filter(runs).map(|&algorithm| (f32::INFINITY, algorithm)).collect();
        if let Some((_, first)) = timed.first()
            && !self.warm.swap(true, Ordering::Relaxed)
        {
            let mut spent = 0.0;
            while spent < WARM_UP_MS {
                spent += timer.time_matmuls(self, matmul, first, 20 * REPEATS)?.max(0.1);
            }
        }
        for _ in 0..ROUNDS {
            for (best, algorithm) in &mut timed {
                *best = best.min(timer.time_matmuls(self, matmul, algorithm, REPEATS)?);
            }
        }
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(timed.into_iter().map(|(_, algorithm)| algorithm).collect())
    }

    /// Whether some launches take less time than others that do the same. That is found out once, and kept like an algorithm: the
    /// two may add in different orders. What they read is there when everything given to the device so far is done.
    pub(crate) fn are_faster(
        &self,
        key: &str,
        launches: &[Launch],
        than: &[Launch],
    ) -> Result<bool, CudaError> {
        if let Some([known, ..]) = self.autotune.get(key) {
            return Ok(known != 0);
        }
        self.gate.be_alone();
        self.synchronize()?;
        let timer = self.timer()?;
        let pdl = self.info.is_hopper();
        let time = |launches: &[Launch]| {
            timer.time(self, |stream| launches.iter().try_for_each(|launch| launch.enqueue(stream, pdl)))
        };
        // What needs more of the device than it has is refused.
        let mut best = time(launches).map(|_| [f32::INFINITY; 2]);
        time(than)?;
        if let Ok([candidate, other]) = &mut best {
            for _ in 0..ROUNDS {
                *other = other.min(time(than)?);
                *candidate = candidate.min(time(launches)?);
            }
        }
        let are_faster = best.is_ok_and(|[candidate, other]| candidate < other);
        self.autotune.insert(key, [u64::from(are_faster), 0, 0, 0, 0, 0, 0, 0]);
        Ok(are_faster)
    }

    fn timer(&self) -> Result<MutexGuard<'_, Timer>, CudaError> {
        if self.timer.get().is_none() {
            let stream = self.stream()?;
            let mut memory = DeviceMemory::new(self, stream.clone());
            let workspace = memory.zeros("workspace of timings", WORKSPACE)?;
            let _ = self.timer.set(Mutex::new(Timer { stream, workspace, memory }));
        }
        Ok(self.timer.get().expect("made above").lock().unwrap_or_else(|e| e.into_inner()))
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
