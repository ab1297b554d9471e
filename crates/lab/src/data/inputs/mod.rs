//! Input distributions. To add one: a file with a `ROW`, and a line in [`INPUTS`].

mod gaussian;
mod skewed;

use crate::data::seed::{Draws, Seed};
use crate::error::Result;
use crate::linalg::dot;
use crate::registry::{Row, Spec};

/// A family of input distributions: what is common to one prompt is drawn once for it.
pub trait Inputs: Send + Sync {
    /// The distribution that prompt `index` of a stream draws its inputs from.
    fn distribution(&self, dim: usize, seed: Seed, stream: &str, index: u64) -> InputDistribution;

    /// Whether the distribution exists in this dimension.
    fn check(&self, _dim: usize) -> Result<()> {
        Ok(())
    }

    /// The distribution as plain data, where a device can draw from it too.
    fn on_device(&self) -> Option<DeviceInputs> {
        None
    }
}

/// An input distribution as plain data: what a device needs to draw the same inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeviceInputs {
    /// N(0, I).
    Gaussian,
    /// N(0, Σ), half of the eigenvalues κ, the rest 1, in a random basis.
    Skewed {
        /// Condition number.
        kappa: f64,
        /// Whether eigenvalues are scaled so that tr Σ = d.
        trace_normalised: bool,
        /// How many consecutive prompts share a basis.
        share: u64,
    },
}

/// x = root · z with z standard normal, or z itself. Plain data, so that a device can sample from it too.
pub struct InputDistribution {
    /// Σ^{1/2} `[d,d]` row-major; identity when absent.
    pub root: Option<Vec<f64>>,
}

impl InputDistribution {
    /// Draws one input.
    pub fn draw(&self, draws: &mut Draws, x: &mut [f64]) {
        draws.fill_normal(x);
        if let Some(root) = &self.root {
            let z = x.to_vec();
            x.iter_mut().zip(root.chunks_exact(z.len())).for_each(|(x, row)| *x = dot(row, &z));
        }
    }
}

/// One row of the registry of input distributions.
pub type InputsRow = Row<dyn Inputs>;

/// Every input distribution.
pub const INPUTS: &[InputsRow] = &[gaussian::ROW, skewed::ROW];

/// Builds an input distribution from its name and settings.
pub fn build(spec: &Spec) -> Result<Box<dyn Inputs>> {
    spec.build("inputs", INPUTS)
}
