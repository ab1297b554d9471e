//! A network with the read-out it was trained with, applied to every layer: what its layers say without a read-out
//! of their own.

use engine::networks::Mode;
use engine::runner::Runner;
use ndarray::{Array3, Array4};

use crate::error::{Error, Result};
use crate::learner::{Learner, Trajectory, Unit};
use crate::networks::{Weights, tokens};
use crate::prompts::{Prompts, Questions};
use crate::registry::Id;
use crate::steps::Steps;

/// Prompts run through the network at a time.
const CHUNK: usize = 64;
/// As in the networks' LayerNorm.
const EPSILON: f32 = 1e-5;

/// What the read-out is given of a layer before the last; of the last it always gets what it was trained on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// The residual stream as it is, as the authors' code does.
    Raw,
    /// The residual stream after the final LayerNorm, where the network has one.
    Normalised,
}

/// A network whose one read-out reads all layers.
pub struct OwnReadOut {
    id: Id,
    weights: Weights,
    given: Given,
}

impl OwnReadOut {
    /// Wraps a network.
    pub fn new(name: String, weights: Weights, given: Given) -> OwnReadOut {
        OwnReadOut { id: Id { name, given: Default::default() }, weights, given }
    }

    fn parameter(&self, name: &str) -> Option<&[f32]> {
        self.weights.layout.slice(&self.weights.params, name)
    }

    /// Reads one hidden state `[e]`.
    fn read(&self, hidden: &[f32], normalised: bool) -> f64 {
        let mut state = hidden.to_vec();
        if normalised
            && let (Some(gain), Some(shift)) = (self.parameter("ln_f.weight"), self.parameter("ln_f.bias"))
        {
            let count = state.len() as f32;
            let mean = state.iter().sum::<f32>() / count;
            let variance = state.iter().map(|s| (s - mean).powi(2)).sum::<f32>() / count;
            let scale = 1.0 / (variance + EPSILON).sqrt();
            for ((s, g), b) in state.iter_mut().zip(gain).zip(shift) {
                *s = (*s - mean) * scale * g + b;
            }
        }
        let weight = self.parameter("read_out.weight").expect("every network has a read-out");
        let bias = self.parameter("read_out.bias").expect("every network has a read-out");
        let sum: f64 = state.iter().zip(weight).map(|(s, w)| f64::from(*s) * f64::from(*w)).sum();
        sum + f64::from(bias[0])
    }
}

impl Learner for OwnReadOut {
    fn id(&self) -> Id {
        self.id.clone()
    }

    fn unit(&self) -> Unit {
        Unit::Layer
    }

    fn default_steps(&self) -> Steps {
        Steps::range(1, self.weights.network.layers() as u64)
    }

    fn trajectory(&self, prompts: &Prompts, steps: &Steps) -> Result<Trajectory> {
        let network = &self.weights.network;
        if steps.last() > network.layers() as u64 {
            let why = format!("{} has layers 0 to {}", self.id, network.layers());
            return Err(Error::BadSteps { text: steps.to_string(), why });
        }
        let (count, points) = (prompts.count(), prompts.points());
        let tokens = tokens(prompts, network.features());
        let per_prompt = 2 * points * network.features();
        let mut values = Array3::zeros((steps.len(), count, points));
        let mut runner: Option<Runner> = None;
        for (i, chunk) in tokens.chunks(CHUNK * per_prompt).enumerate() {
            let size = chunk.len() / per_prompt;
            if runner.is_none() || size != CHUNK {
                runner = Some(network.runner(size, 2 * points, Mode::Infer)?);
            }
            let runner = runner.as_mut().expect("made above");
            runner.set_tokens(chunk)?;
            runner.forward(&self.weights.params);
            for (s, &layer) in steps.as_slice().iter().enumerate() {
                let normalised = self.given == Given::Normalised || layer == network.layers() as u64;
                let states = runner.hidden(layer as usize).chunks_exact(network.width()).step_by(2);
                for (j, hidden) in states.enumerate() {
                    values[[s, i * CHUNK + j / points, j % points]] = self.read(hidden, normalised);
                }
            }
        }
        Trajectory::new(self.id(), Unit::Layer, steps.clone(), values, prompts)
    }

    fn answers(&self, _: &Questions, _: &Steps) -> Result<Array4<f64>> {
        let why = "only its predictions along prompts are looked at";
        Err(Error::Unsupported { learner: self.id.to_string(), action: "answer fresh queries", why })
    }
}
