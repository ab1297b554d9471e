//! What rows of the table have in common: the lab they work in, the settings they ask about, the notebook they write to.

pub mod compared;
pub mod distances;
pub mod errors;
pub mod fingerprints;
pub mod lab;
pub mod maps;
pub mod names;
pub mod notebook;
pub mod paired;
pub mod problems;
pub mod setting;

use crate::error::Result;
use crate::learners::Learner;
use crate::solvers;

/// Everything that the file of a row is likely to name.
pub mod prelude {
    pub use super::compared::{Compared, Measure};
    pub use super::errors::{by_pairs, mean_error, median_error, ratio, squares};
    pub use super::lab::{Data, Lab};
    pub use super::notebook::Notebook;
    pub use super::setting::{Baseline, ISOTROPIC, Setting};
    pub use super::{DIM, LAST, POINTS, solver};
    pub use crate::analyses::{Analysis, Cost, Headline};
    pub use crate::compare::Comparison;
    pub use crate::compare::rates::Trend;
    pub use crate::compare::similarity::{Metric, View};
    pub use crate::data::prompts::{Prompts, Task};
    pub use crate::error::Result;
    pub use crate::findings::Bound::{self, AtLeast, AtMost, Within};
    pub use crate::findings::{Axis, HeatmapPanel, Kind, LinesPanel, Panel, Scale, Series, Stroke};
    pub use crate::learners::steps::Steps;
    pub use crate::learners::{Learner, Trajectory};
    pub use crate::stats::{Estimate, bootstrap, line, mean};
    pub use engine::deviation::{least, worst};
}

/// Dimension of the paper's problems.
pub const DIM: usize = 20;
/// Points per prompt: 40 pairs and a query.
pub const POINTS: usize = 41;
/// Pairs read at the last position.
pub const LAST: usize = POINTS - 1;

/// An algorithm by its text; analyses only name algorithms that exist.
pub fn solver(text: &str) -> Result<Box<dyn Learner>> {
    solvers::build(text)
}
