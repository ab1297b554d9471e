//! Full binary decision trees: a node sends x right when a random coordinate is positive; leaves are N(0, 1).

use super::{DeviceFunction, Function, FunctionClass, FunctionRow, Properties};
use crate::data::seed::Draws;
use crate::registry::Setting;

/// Registry row.
pub const ROW: FunctionRow = FunctionRow {
    name: "decision-tree",
    summary: "full binary tree on the signs of random coordinates, leaves ~ N(0, 1)",
    cite: "Garg et al. 2022",
    settings: &[Setting { name: "depth", default: "4", help: "levels of decisions, 1 to 20" }],
    properties: Properties { linear: false },
    build: |settings| Ok(Box::new(DecisionTree { depth: settings.whole("depth", 1, 20)? })),
};

struct DecisionTree {
    depth: usize,
}

impl FunctionClass for DecisionTree {
    fn draw(&self, dim: usize, draws: &mut Draws) -> Box<dyn Function> {
        let depth = self.depth;
        // Node i has children 2i+1 and 2i+2.
        let coordinates: Vec<usize> = (0..(1 << depth) - 1).map(|_| draws.below(dim)).collect();
        let leaves = draws.normals(1 << depth);
        Box::new(move |x: &[f64]| {
            let leaf = (0..depth).fold(0, |node, _| 2 * node + 1 + usize::from(x[coordinates[node]] > 0.0));
            leaves[leaf - coordinates.len()]
        })
    }

    fn on_device(&self) -> Option<DeviceFunction> {
        Some(DeviceFunction::DecisionTree { depth: self.depth })
    }
}
