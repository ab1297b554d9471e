//! x ~ N(0, I).

use super::{DeviceInputs, InputDistribution, Inputs, InputsRow};
use crate::data::seed::Seed;

/// Registry row.
pub const ROW: InputsRow = InputsRow {
    name: "gaussian",
    summary: "x ~ N(0, I), the isotropic case",
    cite: "",
    settings: &[],
    properties: (),
    build: |_| Ok(Box::new(Gaussian)),
};

struct Gaussian;

impl Inputs for Gaussian {
    fn distribution(&self, _dim: usize, _seed: Seed, _stream: &str, _index: u64) -> InputDistribution {
        InputDistribution { root: None }
    }

    fn on_device(&self) -> Option<DeviceInputs> {
        Some(DeviceInputs::Gaussian)
    }
}
