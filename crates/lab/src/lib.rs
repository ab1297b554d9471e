//! The laboratory: *prompts go in, learners predict along their steps, pairs of trajectories are compared, claims
//! and figures come out.* Modules are listed in the order of the data flow.
//!
//! Axes, everywhere: `s` step, `b` prompt, `t` pairs read so far, `d` feature, `q` query.

mod error;
pub mod exact;
pub mod registry;
pub mod seed;

pub mod functions;
pub mod inputs;
pub mod prompts;
pub mod sampling;

pub mod learner;
pub mod linalg;
pub mod solvers;
pub mod steps;

pub mod constructions;

pub mod checks;
pub mod devices;
pub mod experiment;
pub mod models;
pub mod networks;
pub mod probe;
pub mod runs;
pub mod sweeps;
pub mod tensorboard;
pub mod train;

pub mod matching;
pub mod memory;
pub mod rates;
pub mod similarity;
pub mod stats;

pub mod analyses;
pub mod claims;
pub mod figure;

pub use error::{Error, Result};
pub use learner::{Learner, Trajectory};
pub use prompts::{Prompts, Questions, Task};
pub use seed::Seed;
pub use steps::Steps;
