//! A small training engine for small networks, on the CPU and on CUDA devices.
//!
//! A network is planned once per shape as a [`Graph`](model::graph::Graph): a list of coarse [operations](model::ops) over
//! buffers that are allocated once and never again. A [`cpu::Runner`] (or a [`cuda::CudaRunner`]) executes the plan forward
//! and backward; an [`OptimiserState`](model::optim::OptimiserState) moves one flat parameter buffer. [`Trainer`] is whole
//! training steps, on either device. [`mod@reference`] has the same networks as plain formulas.
//!
//! Letters for axes, everywhere: `b` batch, `t` token, `e` embedding, `h` head, `p` point (a pair x, y), `d` feature,
//! `l` layer.
//!
//! ```
//! use engine::model::networks::{Gpt2Config, Mode, Network};
//! use engine::model::optim::{OptimiserState, adam::AdamConfig};
//! use engine::model::parameters::SplitMix;
//!
//! let config = Gpt2Config { features: 3, positions: 8, width: 8, layers: 2, heads: 2, ..Default::default() };
//! let network = Network::Gpt2(config);
//! let mut params = network.layout().initial(&SplitMix::new(1));
//! let mut grads = vec![0.0; params.len()];
//! let mut optimiser = OptimiserState::new(AdamConfig::default(), params.len());
//! let mut runner = network.runner(4, 8, Mode::Train).unwrap(); // 4 prompts of 8 tokens
//! runner.set_tokens(&vec![0.1; 4 * 8 * 3]).unwrap();
//! runner.set_targets(&vec![0.2; 4 * 4]).unwrap();
//! runner.forward(&params);
//! runner.backward(&params, &mut grads);
//! let norm = optimiser.step(&mut params, &grads, 1e-3, Some(1.0));
//! assert!(runner.loss() > 0.0 && norm > 0.0);
//! ```

pub mod cpu;
pub mod cuda;
pub mod deviation;
pub mod error;
pub mod hash;
pub mod host;
pub mod interchange;
pub mod model;
pub mod names;
mod parts;
pub mod reference;
pub mod text;
pub mod trainer;

pub use error::EngineError;
pub use trainer::Trainer;
