//! Function classes. To add one: a file with a `ROW`, and a line in [`FUNCTIONS`].

mod decision_tree;
mod linear;
mod quadratic;
mod two_layer;

use crate::data::seed::Draws;
use crate::error::Result;
use crate::registry::{Row, Spec};

/// A distribution over functions.
pub trait FunctionClass: Send + Sync {
    /// Draws the function of one prompt.
    fn draw(&self, dim: usize, draws: &mut Draws) -> Box<dyn Function>;

    /// Standard deviation of the noise that is added to its values in a prompt.
    fn noise(&self) -> f64 {
        0.0
    }

    /// The Bayes-optimal algorithm by its text: its answer is the label's mean given the pairs read. `None` where the registry
    /// has none.
    fn best_learner(&self) -> Option<String> {
        None
    }

    /// Whether the class exists in this dimension.
    fn check(&self, _dim: usize) -> Result<()> {
        Ok(())
    }

    /// The class as plain data, where a device can draw from it too.
    fn on_device(&self) -> Option<DeviceFunction> {
        None
    }
}

/// A function class as plain data, noise apart: what a device needs to draw the same functions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeviceFunction {
    /// wᵀx, all of w or a random subset of it, or the sign of the sum.
    Linear {
        /// Coordinates that are kept; all when absent.
        nonzero: Option<usize>,
        /// Whether the label is the sign.
        sign: bool,
    },
    /// Σ wᵢxᵢ² / √3.
    Quadratic,
    /// Two-layer network.
    TwoLayer {
        /// Hidden units.
        hidden: usize,
        /// Whether both layers have a bias; if not, values are scaled by √(2/hidden).
        bias: bool,
        /// Whether the first layer is divided by √d.
        fan_in: bool,
        /// tanh instead of ReLU.
        tanh: bool,
    },
    /// Full binary tree on the signs of coordinates.
    DecisionTree {
        /// Levels of decisions.
        depth: usize,
    },
}

/// One function R^d → R.
pub trait Function {
    /// f(x)
    fn value(&self, x: &[f64]) -> f64;
}

impl<F: Fn(&[f64]) -> f64> Function for F {
    fn value(&self, x: &[f64]) -> f64 {
        self(x)
    }
}

/// One row of the registry of function classes.
pub type FunctionRow = Row<dyn FunctionClass, Properties>;

/// What a function class promises.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// Its values are linear in x and free of noise, so that least squares with t ≥ d recovers it.
    pub linear: bool,
}

/// Every function class.
pub const FUNCTIONS: &[FunctionRow] = &[
    linear::LINEAR,
    linear::NOISY,
    linear::SPARSE,
    linear::CLASSIFICATION,
    quadratic::ROW,
    two_layer::RELU,
    two_layer::TANH,
    decision_tree::ROW,
];

/// Builds a function class from its name and settings.
pub fn build(spec: &Spec) -> Result<Box<dyn FunctionClass>> {
    spec.build("function", FUNCTIONS)
}
