//! y = Σ wᵢ xᵢ² / √3: the square of a normal has second moment 3, so labels keep variance d.

use super::{DeviceFunction, Function, FunctionClass, FunctionRow, Properties};
use crate::data::seed::Draws;

/// Registry row.
pub const ROW: FunctionRow = FunctionRow {
    name: "quadratic",
    summary: "y = Σ wᵢxᵢ² / √3, w ~ N(0, I)",
    cite: "Garg et al. 2022",
    settings: &[],
    properties: Properties { linear: false },
    build: |_| Ok(Box::new(Quadratic)),
};

struct Quadratic;

impl FunctionClass for Quadratic {
    fn draw(&self, dim: usize, draws: &mut Draws) -> Box<dyn Function> {
        let w = draws.normals(dim);
        Box::new(move |x: &[f64]| w.iter().zip(x).map(|(w, x)| w * x * x).sum::<f64>() / 3f64.sqrt())
    }

    fn on_device(&self) -> Option<DeviceFunction> {
        Some(DeviceFunction::Quadratic)
    }
}
