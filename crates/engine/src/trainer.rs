//! Training, whatever the device: the interface that [`CpuTrainer`](crate::cpu::CpuTrainer) and
//! [`CudaTrainer`](crate::cuda::CudaTrainer) share.

use std::borrow::Cow;

use crate::model::optim::OptimiserState;

/// A network in training on a device.
///
/// `E` is the caller's error, which what the device says can become: a step may also fail because the caller has no
/// prompts for it.
pub trait Trainer<E> {
    /// Steps taken so far.
    fn done(&self) -> u64;

    /// Parameters as they are now.
    fn params(&self) -> Result<Cow<'_, [f32]>, E>;

    /// Moments and step count as they are now.
    fn optimiser(&self) -> Result<Cow<'_, OptimiserState>, E>;

    /// Bytes of device memory in use; `None` where the device is this machine's cores.
    fn device_bytes(&self) -> Option<usize>;

    /// Points per prompt that steps are prepared for.
    fn points(&self) -> Option<usize>;

    /// Prepares steps with `points` points per prompt, fed as said.
    fn prepare(&mut self, points: usize, feed: &Feed) -> Result<(), E>;

    /// Spends seconds on making the prepared steps faster: a GPU chooses the algorithm of every matmul by the time of a whole
    /// step, because what is fastest alone may not be beside the weight gradients on other streams, or with operands
    /// that kernels left in the cache. What was chosen before is kept. Changes the last bits of what steps compute.
    ///
    /// # Panics
    /// If nothing was prepared.
    fn tune(&mut self) -> Result<(), E> {
        Ok(())
    }

    /// Begins, beside the steps, what preparing these shapes will need (points per prompt, and how steps are fed). It only
    /// ever saves time; a device that has nothing to begin leaves it out.
    fn prepare_ahead(&self, _shapes: &[(usize, Feed)]) {}

    /// The most steps that one call of [`Trainer::run`] should be given, so that a request to stop is heard soon.
    fn chunk(&self) -> usize;

    /// Takes steps, one per row of the schedule, and returns what each reported. `next` gives one batch after the other,
    /// unless a kernel samples them.
    ///
    /// Fewer steps are taken than there are rows when a loss or gradient is not finite: that step is reported last, and the
    /// parameters are those before it.
    ///
    /// # Panics
    /// If nothing was prepared.
    fn run(&mut self, schedule: &[ScheduleRow], next: NextBatch<'_, E>) -> Result<Vec<StepResult>, E>;

    /// Predictions `[count, points]` for tokens `[count, 2·points, features]`, in float32 whatever the training.
    fn predictions(&self, tokens: &[f32], points: usize) -> Result<Vec<f32>, E>;
}

/// Gives the batches of steps, one after the other.
pub type NextBatch<'a, E> = &'a mut (dyn FnMut() -> Result<Batch, E> + Send);

/// The prompts of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Tokens `[batch, 2·points, features]`.
    pub tokens: Vec<f32>,
    /// Targets `[batch, points]`.
    pub targets: Vec<f32>,
}

/// Where a step's prompts come from.
#[derive(Debug, Clone)]
pub enum Feed {
    /// A CUDA kernel `sample(tokens, targets, rows, progress)` in this source, one block of `threads` per prompt.
    Kernel {
        /// CUDA source.
        source: String,
        /// Threads per block.
        threads: u32,
    },
    /// The host samples them before each step.
    Host,
}

/// The schedule of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScheduleRow {
    /// Learning rate.
    pub rate: f32,
    /// Dimensions in use.
    pub dims: u32,
}

/// What a step reports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepResult {
    /// Mean squared error over all positions, before the update.
    pub loss: f32,
    /// Gradient norm before clipping.
    pub norm: f32,
}

impl StepResult {
    /// Whether the step can be taken.
    pub fn is_finite(&self) -> bool {
        self.loss.is_finite() && self.norm.is_finite()
    }
}
