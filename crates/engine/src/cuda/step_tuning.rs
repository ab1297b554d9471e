//! Matmuls chosen by the time of a whole step.

use cudarc::cublaslt::sys::cublasLtMatmulAlgo_t as Algorithm;
use cudarc::driver::CudaGraph;

use super::algorithm::is_trusted;
use super::device::Device;
use super::error::{CudaError, driver};
use super::graph::Work;
use super::matmul::Matmul;
use super::runner::CudaRunner;

/// Algorithms of each matmul that are tried, the fastest by themselves.
const CANDIDATES: usize = 5;
/// Turns that two steps are timed in, and how often each runs in a turn.
const ROUNDS: usize = 5;
const REPEATS: usize = 12;
/// What a step must gain for an algorithm to be kept: more than the timings scatter.
const WORTH: f64 = 0.002;

impl CudaRunner {
    /// Tries the fastest algorithms of every matmul within forward and backward as they run in training, and keeps what
    /// shortens that; what was found before on this device is taken.
    pub(super) fn tune_in_step(&mut self, device: &Device) -> Result<(), CudaError> {
        let mut unknown = Vec::new();
        for key in self.matmul_keys() {
            match device.autotune.get_in_step(&key).map(|data| Algorithm { data }).filter(is_trusted) {
                Some(known) => self.choose(&key, known),
                None => unknown.push(key),
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        device.gate.be_alone();
        let mut graph = self.captured()?;
        for key in unknown {
            let (first, ranked) = {
                let matmul = self.matmuls_of(&key).next().expect("a key of this network");
                (matmul.algorithm(), matmul.ranked()?)
            };
            let mut chosen = first;
            for candidate in ranked.into_iter().take(CANDIDATES).filter(|other| other.data != first.data) {
                self.choose(&key, candidate);
                let other = self.captured()?;
                if self.is_faster(&other, &graph)? {
                    (chosen, graph) = (candidate, other);
                }
            }
            self.choose(&key, chosen);
            device.autotune.insert_in_step(&key, chosen.data);
        }
        Ok(())
    }

    fn matmuls_of<'a>(&'a mut self, key: &'a str) -> impl Iterator<Item = &'a mut Matmul> {
        let commands = self.lowered.forward.iter_mut().chain(&mut self.lowered.backward);
        commands.filter_map(move |command| match &mut command.work {
            Work::Matmul(matmul) if matmul.key() == key => Some(matmul),
            _ => None,
        })
    }

    fn matmul_keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for command in self.lowered.forward.iter().chain(&self.lowered.backward) {
            if let Work::Matmul(matmul) = &command.work
                && !keys.iter().any(|key| key == matmul.key())
            {
                keys.push(matmul.key().to_string());
            }
        }
        keys
    }

    fn choose(&mut self, key: &str, algorithm: Algorithm) {
        self.matmuls_of(key).for_each(|matmul| matmul.set_algorithm(algorithm));
    }

    fn captured(&self) -> Result<CudaGraph, CudaError> {
        self.streams.capture(&[&self.lowered.forward, &self.lowered.backward])
    }

    /// Whether a step is faster than another, by the best of a few turns; most that are not are given up after two.
    fn is_faster(&self, candidate: &CudaGraph, than: &CudaGraph) -> Result<bool, CudaError> {
        let (mut best, mut to_beat) = (f64::INFINITY, f64::INFINITY);
        for round in 0..ROUNDS {
            to_beat = to_beat.min(self.time_graph(than)?);
            best = best.min(self.time_graph(candidate)?);
            if round >= 1 && best >= to_beat {
                return Ok(false);
            }
        }
        Ok(best < to_beat * (1.0 - WORTH))
    }

    /// Microseconds of some launches in a row.
    fn time_graph(&self, graph: &CudaGraph) -> Result<f64, CudaError> {
        self.streams
            .timed(|| (0..REPEATS).try_for_each(|_| graph.launch().map_err(driver("launch a CUDA graph"))))
    }
}
