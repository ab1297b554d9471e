//! What can go wrong with a GPU, in sentences that say what is missing and what still works.

use cudarc::cublaslt::result::CublasError;
use cudarc::driver::DriverError;
use thiserror::Error;

use super::buffer::BufferError;
use super::guards::Side;

/// A GPU that cannot be used, or that failed.
#[derive(Debug, Error)]
pub enum CudaError {
    /// There is no usable GPU here.
    #[error("no CUDA device: {0}; the CPU still works (device cpu)")]
    Unavailable(String),
    /// A network or setting that the CUDA device does not offer.
    #[error("the CUDA device cannot run this network: {0}; the CPU can (device cpu)")]
    Unsupported(String),
    /// The device's memory does not suffice.
    #[error(
        "the CUDA device has {free_mib} MiB of memory left of {total_mib}, but {needed_mib} MiB more are needed; a smaller batch needs less"
    )]
    Memory {
        /// MiB asked for.
        needed_mib: usize,
        /// MiB left.
        free_mib: usize,
        /// MiB in all.
        total_mib: usize,
    },
    /// The driver refused or a kernel failed.
    #[error("CUDA failed to {action}: {source}")]
    Driver {
        /// What was attempted.
        action: &'static str,
        /// The driver's answer.
        source: DriverError,
    },
    /// cuBLASLt refused.
    #[error("cuBLASLt failed to {action}: {source}")]
    Blas {
        /// What was attempted.
        action: &'static str,
        /// The library's answer.
        source: CublasError,
    },
    /// A kernel did not compile.
    #[error("NVRTC could not compile {name}: {log}")]
    Compile {
        /// Which source.
        name: String,
        /// The compiler's words.
        log: String,
    },
    /// A device buffer is too short for what is asked of it, or of another type.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// Something was written beyond the end of a buffer, or before its start.
    #[error(
        "the guard {side} the device buffer '{buffer}' of {bytes} bytes was overwritten, {offset} bytes from it"
    )]
    Overrun {
        /// Which buffer.
        buffer: &'static str,
        /// Its size.
        bytes: usize,
        /// Which of its guards.
        side: Side,
        /// Bytes between the buffer and the nearest byte that was overwritten.
        offset: usize,
    },
    /// A buffer handed in does not fit the network.
    #[error(transparent)]
    Shape(#[from] crate::EngineError),
}

/// Names what was attempted.
pub(crate) fn driver(action: &'static str) -> impl FnOnce(DriverError) -> CudaError {
    move |source| CudaError::Driver { action, source }
}

/// Names what was attempted.
pub(crate) fn blas(action: &'static str) -> impl FnOnce(CublasError) -> CudaError {
    move |source| CudaError::Blas { action, source }
}
