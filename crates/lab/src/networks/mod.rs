//! Networks as configs name them, and their weights applied to prompts.

pub mod checks;
pub mod devices;
pub mod evaluation;
pub mod experiment;
mod find;
pub mod hub;
pub mod models;
pub mod pace;
pub mod pool;
pub mod runs;
pub mod sweeps;
pub mod tensorboard;
pub mod train;

use std::path::Path;
use std::sync::OnceLock;

pub use find::{Found, RUNS, find, find_in, run_names};

use engine::cpu::{ForwardParams, PackedWeights};
use engine::model::networks::{Gpt2Config, LstmConfig, Network};
use engine::model::ops::{Activation, AttentionKind, Mask, Weighting};
use engine::model::parameters::{ParamLayout, RandomSource};
use ndarray::Array2;
use serde::{Deserialize, Serialize};

use crate::data::prompts::Prompts;
use crate::data::seed::{Draws, Seed};
use crate::error::{Error, Result};

/// A network in an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum NetworkSpec {
    /// A GPT-2.
    Gpt2 {
        /// Blocks.
        layers: usize,
        /// Attention heads.
        heads: usize,
        /// Width of the residual stream.
        width: usize,
        /// Longest prompt in tokens (two per point).
        #[serde(default = "positions")]
        positions: usize,
        /// How attention weighs what it sees.
        #[serde(default)]
        attention: AttentionSpec,
    },
    /// A stack of LSTM layers.
    Lstm {
        /// Layers.
        layers: usize,
        /// Width of every layer.
        width: usize,
    },
}

/// The longest prompt is of 100,000 points.
const MOST_POSITIONS: usize = 1 << 20;

fn positions() -> usize {
    202
}

/// How attention weighs what it sees; always causal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttentionSpec {
    /// Softmax of the scores.
    #[default]
    Softmax,
    /// (1/t) ReLU of the scores.
    Relu,
    /// (1/t) times the scores.
    Linear,
}

impl NetworkSpec {
    /// The network for inputs of `dim` features and prompts of up to `points` points.
    pub fn build(&self, dim: usize, points: usize) -> Result<Network> {
        let bad = |field: &str, value: usize, accepted: String| {
            Err(Error::BadData(format!("field 'network.{field}' is {value}; accepted: {accepted}")))
        };
        let (layers, width) = match self {
            NetworkSpec::Gpt2 { layers, width, .. } | NetworkSpec::Lstm { layers, width } => {
                (*layers, *width)
            }
        };
        if layers == 0 || layers > 1000 {
            return bad("layers", layers, "1 to 1000".into());
        }
        if width == 0 || width > 1 << 16 {
            return bad("width", width, "1 to 65536".into());
        }
        Ok(match *self {
            NetworkSpec::Gpt2 { heads, positions, attention, .. } => {
                if heads == 0 || width % heads != 0 {
                    return bad("heads", heads, format!("a divisor of the width {width}"));
                }
                let least = 2 * points;
                if positions < least || positions > MOST_POSITIONS {
                    let accepted = format!("{least} (two per point) to {MOST_POSITIONS}");
                    return bad("positions", positions, accepted);
                }
                let weighting = match attention {
                    AttentionSpec::Softmax => Weighting::Softmax,
                    AttentionSpec::Relu => Weighting::Relu,
                    AttentionSpec::Linear => Weighting::Linear,
                };
                let attention = AttentionKind { mask: Mask::Causal, weighting };
                let activation = Activation::Gelu;
                Network::Gpt2(Gpt2Config {
                    features: dim,
                    positions,
                    width,
                    layers,
                    heads,
                    attention,
                    activation,
                })
            }
            NetworkSpec::Lstm { .. } => Network::Lstm(LstmConfig { features: dim, width, layers }),
        })
    }
}

/// First weights are pure functions of the seed, the parameter's name and the index.
impl RandomSource for Seed {
    fn normals(&self, stream: &str, first: u64, out: &mut [f32]) {
        self.first_normals(stream, first, out);
    }

    fn uniforms(&self, stream: &str, first: u64, out: &mut [f32]) {
        let key = self.key(stream);
        for (index, out) in (first..).zip(out) {
            // below 1 also after rounding to float32
            *out = (Draws::new(key, index).uniform() as f32).min(1.0 - f32::EPSILON);
        }
    }
}

/// Tokens `[b, 2n, features]`: x₁, (y₁,0,…,0), x₂, …; inputs of fewer dimensions are padded with zeros.
pub fn tokens(prompts: &Prompts, features: usize) -> Vec<f32> {
    let (count, points, dim) = prompts.xs.dim();
    let mut tokens = vec![0.0; count * 2 * points * features];
    for (i, pair) in tokens.chunks_exact_mut(2 * features).enumerate() {
        let (b, t) = (i / points, i % points);
        let x = prompts.xs.slice(ndarray::s![b, t, ..]);
        pair[..dim].iter_mut().zip(x).for_each(|(token, x)| *token = *x as f32);
        pair[features] = prompts.ys[[b, t]] as f32;
    }
    tokens
}

/// A network with its weights.
pub struct Weights {
    /// The network.
    pub network: Network,
    /// Where its parameters lie.
    pub layout: ParamLayout,
    params: Vec<f32>,
    /// Packed when the first prompts come.
    packed: OnceLock<PackedWeights>,
}

impl Weights {
    /// A network with given parameters.
    ///
    /// # Panics
    /// If there are not as many parameters as the network has.
    pub fn new(network: Network, params: Vec<f32>) -> Weights {
        let layout = network.layout();
        assert_eq!(params.len(), layout.len(), "length of the parameter buffer");
        Weights { network, layout, params, packed: OnceLock::new() }
    }

    /// The parameters, one after the other.
    pub fn params(&self) -> &[f32] {
        &self.params
    }

    /// The parameters alone.
    pub fn into_params(self) -> Vec<f32> {
        self.params
    }

    /// The parameters as passes take them.
    pub fn for_passes(&self) -> ForwardParams<'_> {
        let packed = self.packed.get_or_init(|| self.network.pack(&self.params));
        ForwardParams { flat: &self.params, packed: Some(packed) }
    }

    /// Reads the weights of a checkpoint, whatever else it holds.
    pub fn read(path: &Path, network: Network) -> Result<Weights> {
        let layout = network.layout();
        let params = engine::model::checkpoint::load(path, &layout)?.params;
        Ok(Weights::new(network, params))
    }

    /// Predictions `[b,n]` at the x tokens.
    pub fn predictions(&self, prompts: &Prompts) -> Result<Array2<f64>> {
        let tokens = tokens(prompts, self.network.features());
        let all = self.network.predictions(self.for_passes(), &tokens, prompts.points())?;
        let all = all.into_iter().map(f64::from).collect();
        let shape = (prompts.count(), prompts.points());
        Array2::from_shape_vec(shape, all).map_err(|e| Error::BadData(e.to_string()))
    }
}
