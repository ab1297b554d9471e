//! Whether a network says here what it said in the program that trained it.

use std::path::Path;

use ndarray::{Array2, Ix2};

use super::load::check_size;
use crate::data::npz::{DIGEST, Reader};
use crate::data::prompts::Prompts;
use crate::error::{Error, Result};
use crate::networks::Weights;

/// The largest difference, relative to the root mean square of outputs, at which two programs run the same network: far above
/// float32's and TF32's round-off over many layers, far below what other heads or activations do.
pub const OUTPUT_TOLERANCE: f64 = 1e-3;

/// How far a network's own outputs are from those that another program computed.
#[derive(Clone, Copy, Debug)]
pub struct OutputDifference {
    /// The largest difference.
    pub largest: f64,
    /// Its prompt and point.
    pub at: (usize, usize),
    /// Root mean square of the other program's outputs.
    pub scale: f64,
}

impl OutputDifference {
    /// Compares the network's own outputs for `prompts` with those given, `[b,n]`.
    pub fn measure(weights: &Weights, prompts: &Prompts, outputs: &Array2<f64>) -> Result<OutputDifference> {
        check_size(weights, "the network", prompts.dim(), prompts.points())?;
        let difference = weights.predictions(prompts)? - outputs;
        let scale = (outputs.iter().map(|v| v * v).sum::<f64>() / outputs.len() as f64).sqrt();
        let start = OutputDifference { largest: 0.0, at: (0, 0), scale };
        // What is not a number is further away than anything.
        let size = |v: f64| if v.is_nan() { f64::INFINITY } else { v.abs() };
        Ok(difference.indexed_iter().fold(start, |found, (at, &v)| match size(v) > found.largest {
            true => OutputDifference { largest: size(v), at, scale },
            false => found,
        }))
    }

    /// The same, relative to the size of outputs.
    pub fn relative(&self) -> f64 {
        self.largest / self.scale.max(f64::MIN_POSITIVE)
    }

    /// Whether both programs run the same network.
    pub fn agrees(&self) -> bool {
        self.relative() <= OUTPUT_TOLERANCE
    }
}

/// Reads `outputs` `[b,n]`, finite, of these prompts.
pub fn read_outputs(path: &Path, prompts: &Prompts) -> Result<Array2<f64>> {
    let mut reader = Reader::open(path)?;
    let outputs = reader.array::<Ix2>("outputs", &["prompt", "point"])?;
    let bad = |why: String| Err(Error::content(path, why));
    if outputs.dim() != prompts.ys.dim() {
        let (found, wanted) = (outputs.dim(), prompts.ys.dim());
        return bad(format!("array 'outputs' has shape {found:?}; accepted: that of 'ys', {wanted:?}"));
    }
    if let Some(((b, t), value)) = outputs.indexed_iter().find(|(_, v)| !v.is_finite()) {
        return bad(format!("array 'outputs' is {value} at [{b}, {t}]; accepted: finite numbers"));
    }
    if reader.has(DIGEST) && reader.bits(DIGEST)? != prompts.digest() {
        return bad("was computed for other prompts; accepted: the outputs for the prompts given".into());
    }
    Ok(outputs)
}
