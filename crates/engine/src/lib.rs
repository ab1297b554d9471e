//! A small training engine for small networks on the CPU.
//!
//! A network is written down once per shape as a [`plan::Plan`]: a list of coarse operations over
//! buffers that are allocated once and never again. [`runner::Runner`] executes the plan forward and
//! backward; [`adam::Adam`] updates one flat parameter buffer. Letters for axes, everywhere:
//! `b` batch, `t` token, `e` embedding, `h` head, `p` point (a pair x, y), `d` feature, `l` layer.
//!
//! ```
//! use engine::model::optim::{OptimiserState, adam::AdamConfig};
//! use engine::model::networks::{Gpt2Config, Mode, Network};
//! use engine::model::parameters::{ParamLayout, SplitMix};
//!
//! let network = Network::Gpt2(Gpt2Config { features: 3, positions: 8, width: 8, layers: 2, heads: 2, ..Default::default() });
//! let layout = ParamLayout::new(network.params());
//! let mut params = layout.initial(&SplitMix::new(1));
//! let mut grads = vec![0.0; layout.len()];
//! let mut adam = OptimiserState::new(AdamConfig::default(), layout.len());
//! let mut runner = network.runner(4, 8, Mode::Train).unwrap(); // 4 prompts of 8 tokens
//! runner.set_tokens(&vec![0.1; 4 * 8 * 3]).unwrap();
//! runner.set_targets(&vec![0.2; 4 * 4]).unwrap();
//! grads.fill(0.0);
//! runner.forward(&params);
//! runner.backward(&params, &mut grads);
//! let norm = adam.step(&mut params, &grads, 1e-3, Some(1.0));
//! assert!(runner.loss() > 0.0 && norm > 0.0);
//! ```

pub mod cpu;
pub mod cuda;
pub mod error;
pub mod hash;
pub mod interchange;
pub mod model;
pub mod reference;

pub use error::EngineError;
