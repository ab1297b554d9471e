//! The laboratory: *prompts go in, learners predict along their steps, pairs of trajectories are compared, claims
//! and figures come out.* Modules are listed in the order of this flow.
//!
//! Is gradient descent exponentially slower than Newton's method, or only slower?
//!
//! ```
//! use lab::prelude::*;
//!
//! # fn main() -> lab::Result<()> {
//! let prompts = Task::new("linear", "gaussian", 5, 16)?.sample(Seed(0), "eval", 0, 64);
//! let newton = solvers::build("newton")?.trajectory(&prompts, &Steps::range(0, 16))?;
//! let gd = solvers::build("gd")?.trajectory(&prompts, &Steps::powers_of_two(0, 12))?;
//!
//! let found = Comparison::of_errors(&newton, &gd, &prompts)?.resampled(Seed(0)).over((3, 16));
//! println!("{}: {}", found.title(), found.describe());
//! assert!(found.evidence(Trend::Exponential).value > 6.0);
//! # Ok(())
//! # }
//! ```
//!
//! Axes, everywhere: `s` step, `b` prompt, `t` pairs read so far, `d` feature, `q` query.

// Blank lines keep the order of the flow.

pub mod data;

pub mod learners;

pub mod solvers;

pub mod constructions;

pub mod networks;

pub mod probe;

pub mod compare;

pub mod fingerprint;

pub mod patching;

pub mod states;

pub mod analyses;

pub mod findings;

// What all of them use.
mod adam;
mod error;
mod exact;
pub mod files;
pub mod interrupt;
pub mod linalg;
pub mod lock;
pub mod parallel;
pub mod prelude;
pub mod program;
pub mod registry;
pub mod stats;
pub mod streams;
mod tensors;
pub mod text;

pub use compare::Comparison;
pub use data::prompts::{Prompts, Questions, Task};
pub use data::seed::Seed;
pub use error::{Error, Result, hint};
pub use learners::steps::Steps;
pub use learners::{Learner, Trajectory};

/// Hears in words what a long computation is doing.
pub type Progress<'a> = &'a (dyn Fn(&str) + Sync);
