//! What a program that compares learners uses: `use lab::prelude::*;`.

pub use crate::compare::Comparison;
pub use crate::compare::rates::{RateFit, Trend};
pub use crate::compare::similarity::{Heatmap, InducedWeights, Metric, View, induced_weights};
pub use crate::data::prompts::{Prompts, Questions, Task};
pub use crate::data::seed::Seed;
pub use crate::error::{Error, Result};
pub use crate::findings::{Bound, Claim, Kind, Verdict};
pub use crate::learners::steps::Steps;
pub use crate::learners::{Learner, Trajectory};
pub use crate::solvers::{self, Iterative, Problem, Solver};
pub use crate::stats::Estimate;
