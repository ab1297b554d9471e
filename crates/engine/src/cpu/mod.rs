//! Plans executed on this machine's cores.

mod arena;
mod backward;
pub mod bench;
pub mod executor;
pub mod gemm;
pub(crate) mod lanes;
pub mod ops;
pub mod parallel;
pub mod simd;
pub mod weights;
mod work_queue;
pub(crate) mod workspace;
