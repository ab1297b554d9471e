//! Sweeps: a base experiment plus axes. Every point is an ordinary run, so that it may be trained anywhere, in any order,
//! by any command, and is found again by the hash of its plan.

mod arrays;
mod axes;
mod figures;
mod folder;
mod groups;
mod measure;
mod outcome;
mod plan;
pub mod slurm;
mod survey;

pub use arrays::write_arrays;
pub use axes::assign;
pub use folder::{PLAN, PoolProcess, SweepFolder};
pub use measure::{LayerMatches, Measured, Measurer, Reached};
pub use outcome::{answer, outcome};
pub use plan::{Point, Quality, SEED, Slurm, Sweep, Test};
pub use survey::{PointStatus, abandoned, counts, story, survey};
