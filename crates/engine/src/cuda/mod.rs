//! The same networks on an NVIDIA GPU.
//!
//! Nothing of CUDA is needed to build: the driver, cuBLASLt and NVRTC are loaded when a [`Device`] is opened. A
//! [`Graph`](crate::model::graph::Graph) is *lowered* once to a list of `graph::Command`s, cuBLASLt matmuls and own
//! kernels with their pointers filled in; a training step is that list, captured as one CUDA graph and replayed.
//!
//! ```text
//! device.rs    opens the GPU
//! buffer.rs    typed buffers, and what may be asked of them
//! matrix.rs    buffers as matrices
//! memory.rs    where buffers are made, filled and read
//! guards.rs    bytes around buffers that nobody may touch
//! compiler.rs  kernels → NVRTC → cubin, cached on disk
//! usage.rs     registers, shared memory and spills of kernels
//! kernels/     CUDA sources: attention, LSTM, LayerNorm, read-in, read-out and loss, matmuls on Hopper, Adam, Muon
//! tensor_map.rs  matrices as Hopper's copy engine sees them
//! matmul.rs    one cuBLASLt matmul with its epilogue
//! algorithm.rs which of the library's algorithms are used at all
//! autotune.rs  the autotune cache: which algorithm a matmul uses
//! step_tuning.rs  the same chosen by the time of a whole step
//! gate.rs      steps side by side, or one network that is prepared alone
//! graph.rs     launches and matmuls on several streams, enqueued or captured as a CUDA graph
//! lowering/    operations of a plan → commands, forward and backward
//! runner.rs    a network at one shape: tokens in, predictions, hidden states and gradients out
//! query_runner.rs  single queries after a shared prefix (its KV cache)
//! state_readers.rs hidden states read out on the device, so that only numbers leave it
//! hooks.rs     activations read and replaced by name
//! optim/       what ends a step: gradient norm, clipping, Adam, Muon
//! trainer.rs   whole training steps as one CUDA graph
//! sampling.rs  one batch from a sampling kernel, to look at
//! checks/      that all of this computes what the CPU computes
//! ```

mod algorithm;
mod autotune;
mod buffer;
pub mod checks;
mod compiler;
mod device;
mod error;
mod gate;
mod graph;
mod guards;
mod hooks;
mod kernels;
mod lowering;
mod matmul;
mod matrix;
mod memory;
mod optim;
mod query_runner;
mod runner;
mod sampling;
mod state_readers;
mod step_tuning;
mod tensor_map;
mod trainer;
mod usage;

pub use buffer::{BufferError, DType};
pub use compiler::{KernelSource, cache_directory};
pub use device::{Device, DeviceInfo};
pub use error::CudaError;
pub use guards::{GuardReport, Side};
pub use query_runner::CudaQueryRunner;
pub use runner::CudaRunner;
pub use sampling::{SampleKernel, sample_once};
pub use state_readers::StateReader;
pub use trainer::{CudaTrainer, TABLE};
pub use usage::{KernelUsage, known_devices, nvrtc_is_present};

/// How numbers are stored and multiplied on the device. Parameters, the optimiser's moments and the residual stream are
/// float32 always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// float32 throughout.
    Float32,
    /// float32 in memory, matmuls with 10-bit mantissas (TF32).
    Tf32,
    /// Activations and the operands of matmuls in bf16.
    #[default]
    Bf16,
}

impl Precision {
    /// Every precision with its name in configs.
    pub const ALL: [(Precision, &'static str); 3] =
        [(Precision::Float32, "float32"), (Precision::Tf32, "tf32"), (Precision::Bf16, "bf16")];

    /// The name in configs.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The precision of a name.
    pub fn named(name: &str) -> Option<Precision> {
        Self::ALL.into_iter().find(|(_, other)| *other == name).map(|(precision, _)| precision)
    }

    /// Bytes of a stored activation.
    pub(crate) fn bytes(self) -> usize {
        if self == Precision::Bf16 { 2 } else { 4 }
    }
}
