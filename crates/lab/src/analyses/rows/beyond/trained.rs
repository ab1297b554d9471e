//! A trained network held against Newton and gradient descent, for rows that compare trainings.

use crate::analyses::kit::distances::Distances;
use crate::analyses::kit::prelude::*;
use crate::stats::median_of;

/// Layers in which the paper finds the error to fall superlinearly, of twelve.
const SUPERLINEAR: (u64, u64) = (3, 8);

/// One network.
pub struct Trained {
    /// Its layers against Newton's steps.
    pub newton: Compared,
    /// Its layers against steps of gradient descent.
    pub gd: Compared,
    /// Error over d after all pairs, by layer.
    pub errors: Vec<(f64, f64)>,
    /// Growth from layer to layer of the e-folds by which a layer lowers the median error after all pairs.
    pub superlinear: Estimate,
}

impl Trained {
    /// Measures the network of a setting.
    pub fn measure(lab: &Lab, setting: &Setting) -> Result<Trained> {
        let (prompts, layers) = (setting.prompts(lab)?, setting.layers(lab)?);
        let error = |&layer: &u64| (layer as f64, lab.error(&layers, &prompts, layer, LAST).value);
        // deeper networks in proportion
        let depth = layers.steps.last() / 12;
        let (first, last) = (SUPERLINEAR.0 * depth, SUPERLINEAR.1 * depth);
        let distances = Distances::from_labels(&layers, &prompts);
        let superlinear = bootstrap(lab.seed, prompts.count(), |chosen| {
            line(&distances.removed(first, last, chosen, median_of)).1
        });
        Ok(Trained {
            newton: setting.errors(lab, setting.newton)?,
            gd: setting.errors(lab, setting.gd)?,
            errors: layers.steps.as_slice().iter().map(error).collect(),
            superlinear,
        })
    }
}

/// Best step of each layer; what is not above 0 has no place on a logarithmic axis.
pub fn best_by_layer(of: &Compared) -> Vec<(f64, f64)> {
    let layers = of.matching.a.as_slice().iter().map(|&layer| layer as f64);
    layers.zip(of.best_steps()).collect()
}
