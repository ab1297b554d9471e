//! The laboratory: *prompts go in, learners predict along their steps, pairs of trajectories are compared, claims
//! and figures come out.* Modules are listed in the order of the data flow.
//!
//! Axes, everywhere: `s` step, `b` prompt, `t` pairs read so far, `d` feature, `q` query.

mod error;
pub mod exact;
pub mod linalg;
pub mod registry;
pub mod stats;

pub mod analyses;
pub mod compare;
pub mod constructions;
pub mod data;
pub mod findings;
pub mod learners;
pub mod networks;
pub mod probe;
pub mod solvers;

pub use data::prompts::{Prompts, Questions, Task};
pub use data::seed::Seed;
pub use error::{Error, Result};
pub use learners::steps::Steps;
pub use learners::{Learner, Trajectory};
