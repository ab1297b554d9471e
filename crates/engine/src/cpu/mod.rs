//! Plans executed on this machine's cores.
//!
//! ```text
//! runner.rs            a network at one shape: tokens in, predictions, hidden states, loss and gradients out
//! query_runner.rs      single queries after a shared prefix (its KV cache)
//! suffix_runner.rs     the last tokens of prompts, again from a block on
//! hooks.rs             activations read and replaced by name
//! trainer.rs           training steps
//! optimiser.rs         what ends a step: clipping, Adam, Muon
//! schedule.rs          stages, gradient buffers, group sizes
//! forward.rs, backward.rs  the passes, stage by stage
//! executor.rs          one stage, on all threads; work_queue.rs what threads take from
//! workspace.rs         buffers, and the views of them that groups of prompts have; arena.rs their memory
//! ops/                 forward and backward of every operation
//! weight_gradients.rs  gradients of weight matrices as tasks
//! packed_weights.rs    weight matrices packed for products
//! gemm/                matrix products
//! simd/                elementwise mathematics
//! ```

mod arena;
mod backward;
pub mod bench;
mod executor;
mod forward;
pub mod gemm;
pub(crate) mod hooks;
mod ops;
mod optimiser;
mod packed_weights;
mod query_runner;
mod runner;
mod schedule;
pub mod simd;
mod suffix_runner;
mod trainer;
mod weight_gradients;
mod work_queue;
mod workspace;

pub use executor::Profile;
pub use optimiser::gradient_norm;
pub use packed_weights::{ForwardParams, PackedWeights};
pub use query_runner::QueryRunner;
pub use runner::Runner;
pub use suffix_runner::SuffixRunner;
pub use trainer::CpuTrainer;
pub use work_queue::on_pool;
