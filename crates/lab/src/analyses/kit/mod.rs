//! What rows of the table have in common: the lab they work in, the settings they ask about, the notebook they write to.

pub mod compared;
pub mod errors;
pub mod lab;
pub mod maps;
pub mod notebook;
pub mod problems;
pub mod setting;

use crate::compare::matching::Matching;
use crate::compare::similarity::Heatmap;
use crate::error::Result;
use crate::findings::{HeatmapPanel, Panel};
use crate::learners::Learner;
use crate::solvers;

/// Everything that the file of a row is likely to name.
pub mod prelude {
    pub use super::compared::{Compared, Measure};
    pub use super::errors::{by_pairs, mean_error, median_error, ratio, squares};
    pub use super::lab::{Data, Lab};
    pub use super::notebook::Notebook;
    pub use super::setting::{Baseline, ISOTROPIC, Setting};
    pub use super::{DIM, LAST, POINTS, heatmap_panel, solver};
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

/// A heat-map with its best matches as a panel.
pub fn heatmap_panel(title: &str, map: &Heatmap, matching: &Matching) -> Panel {
    let rows = map.b.steps.len();
    Panel::Heatmap(HeatmapPanel {
        title: title.to_string(),
        x_label: map.a.label(),
        y_label: map.b.label(),
        x_steps: map.a.steps.as_slice().to_vec(),
        y_steps: map.b.steps.as_slice().to_vec(),
        values: (0..rows).map(|j| map.mean.column(j).to_vec()).collect(),
        value_label: map.label.to_string(),
        best: matching.best.clone(),
        best_interval: matching.intervals(),
        floor: Some(map.similarity_floor()),
    })
}
