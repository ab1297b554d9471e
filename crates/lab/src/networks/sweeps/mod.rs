//! Sweeps: a base experiment plus axes. Every point is an ordinary run, so that it may be trained anywhere, in any order,
//! by any command, and is found again by the hash of its plan.

mod axes;
mod figures;
mod groups;
mod measure;
mod outcome;
mod plan;

pub use measure::{Bench, Layers, Measured, Reached};
pub use outcome::outcome;
pub use plan::{Point, Quality, SEED, Slurm, Sweep, Test};
