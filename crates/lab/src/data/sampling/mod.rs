//! Prompts sampled where the network trains: one CUDA kernel that draws what [`Task::sample`] draws.
//!
//! The kernel (`prompts.cu`) is compiled at run time for one task and one batch shape: everything but the step's number
//! and the dimensions in use is a constant in its source. Arithmetic is in double precision with the same draws, so a
//! number differs from the CPU's only where logarithm, sine or the order of a sum round differently.

#[cfg(test)]
mod tests;

use std::fmt::Write;

use crate::data::functions::DeviceFunction;
use crate::data::inputs::DeviceInputs;
use crate::data::prompts::Task;
use crate::data::seed::Seed;
use crate::error::{Error, Result};

/// Threads of a block; one block samples one prompt.
const THREADS: usize = 256;

/// Doubles in the static shared memory that every device grants a block, 48 KiB.
const SHARED_DOUBLES: usize = 48 * 1024 / 8;

/// Source of a kernel that samples one training batch:
/// `sample(float* tokens, float* targets, const ScheduleRow* rows, const unsigned long long* progress)`, launched with
/// `batch` blocks of [`threads`](Self::threads) threads and no dynamic shared memory. Tokens are as
/// [`tokens`](crate::networks::tokens) lays them out; every element is written. The row in use is
/// `rows[progress[0] - progress[1]]`, the prompts are `progress[0] * batch ..`.
///
/// The dimensions in that row have to be some for which [`Task::new`] accepts the task, and at most `features`.
#[derive(Clone, Debug)]
pub struct DeviceSampler {
    /// CUDA C++ that includes nothing.
    pub source: String,
    /// Name of the kernel.
    pub entry: &'static str,
    /// Threads of a block.
    pub threads: u32,
}

impl DeviceSampler {
    /// The sampler of `points` points in up to `features` dimensions. `None` where a device cannot sample this: a
    /// function or distribution without a description for devices, or a prompt that does not fit into shared memory (in 20
    /// dimensions, networks of more than about 250 hidden units).
    pub fn new(
        function: &str,
        inputs: &str,
        seed: Seed,
        stream: &str,
        batch: usize,
        points: usize,
        features: usize,
    ) -> Result<Option<DeviceSampler>> {
        if batch == 0 || batch > 1 << 16 {
            return Err(Error::BadData(format!("a batch of {batch} prompts; accepted: 1 to 65536")));
        }
        let task = Task::new(function, inputs, features, points)?;
        let constants = Constants { task: &task, seed, stream, batch, threads: THREADS };
        Ok(constants.source().map(|source| DeviceSampler {
            source,
            entry: "sample",
            threads: THREADS as u32,
        }))
    }
}

/// What the kernel is compiled for.
struct Constants<'a> {
    task: &'a Task,
    seed: Seed,
    stream: &'a str,
    batch: usize,
    threads: usize,
}

impl Constants<'_> {
    fn source(&self) -> Option<String> {
        let (function, inputs) = self.task.on_device()?;
        let mut text = String::new();
        let mut define = |name: &str, value: &dyn std::fmt::Display| {
            writeln!(text, "#define {name} {value}").expect("a string takes any text");
        };
        define("BATCH", &self.batch);
        define("POINTS", &self.task.points);
        define("FEATURES", &self.task.dim);
        define("THREADS", &self.threads);
        define("CHUNK", &self.chunk(function, inputs)?);
        define("NOISE", &exact(self.task.noise()));
        for (name, part) in [
            ("INPUTS_KEY", "inputs"),
            ("FUNCTION_KEY", "function"),
            ("NOISE_KEY", "noise"),
            ("BASIS_KEY", "basis"),
        ] {
            let [low, high] = self.seed.key(&format!("{}/{part}", self.stream));
            define(name, &format!("0x{high:08x}{low:08x}ull"));
        }
        match function {
            DeviceFunction::Linear { nonzero, sign } => {
                define("FUNCTION", &"LINEAR");
                define("NONZERO", &nonzero.unwrap_or(0));
                define("SIGN", &sign);
            }
            DeviceFunction::Quadratic => define("FUNCTION", &"QUADRATIC"),
            DeviceFunction::TwoLayer { hidden, bias, fan_in, tanh } => {
                define("FUNCTION", &"TWO_LAYER");
                define("HIDDEN", &hidden);
                define("BIAS", &bias);
                define("FAN_IN", &fan_in);
                define("TANH", &tanh);
            }
            DeviceFunction::DecisionTree { depth } => {
                define("FUNCTION", &"DECISION_TREE");
                define("DEPTH", &depth);
            }
        }
        match inputs {
            DeviceInputs::Gaussian => define("INPUTS", &"GAUSSIAN"),
            DeviceInputs::Skewed { kappa, trace_normalised, share } => {
                define("INPUTS", &"SKEWED");
                define("KAPPA", &exact(kappa));
                define("TRACE_NORMALISED", &trace_normalised);
                define("SHARE", &format!("{share}ull"));
            }
        }
        Some(text + include_str!("prompts.cu"))
    }

    /// How many points shared memory holds at once beside what belongs to the whole prompt; a multiple of 4, so that
    /// a chunk begins with a whole Philox block. `None` if there is no room for so many.
    fn chunk(&self, function: DeviceFunction, inputs: DeviceInputs) -> Option<usize> {
        let (points, features) = (self.task.points, self.task.dim);
        let weights = match function {
            DeviceFunction::Linear { .. } | DeviceFunction::Quadratic => features,
            DeviceFunction::TwoLayer { hidden, bias, .. } => {
                hidden * (features + 1) + if bias { hidden + 1 } else { 0 }
            }
            DeviceFunction::DecisionTree { .. } => 0,
        };
        let (basis, copies) = match inputs {
            DeviceInputs::Gaussian => (0, 1),
            DeviceInputs::Skewed { .. } => (2 * features * features, 2),
        };
        // Beside these: partial sums of labels, one for each thread or each point; a permutation; padding.
        let whole = weights + basis + self.threads + features + 8;
        let per_point = copies * features + 2;
        let room = SHARED_DOUBLES.checked_sub(whole)? / per_point / 4 * 4;
        (room > 0).then(|| room.min(points.next_multiple_of(4)))
    }
}

/// A double as the shortest text that reads back as the same double.
fn exact(value: f64) -> String {
    format!("{value:e}")
}
