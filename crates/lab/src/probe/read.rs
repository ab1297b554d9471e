//! Reading a prediction from a hidden state.

use engine::cpu::{QueryRunner, Runner};
use engine::model::networks::Network;
use engine::model::ops::LayerNorm;

use crate::linalg::vectorised;
use crate::networks::Weights;

/// How one layer is read: an affine map of its state.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadOut {
    weights: Vec<f64>,
    bias: f64,
    point: ReadPoint,
}

/// Where a layer is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPoint {
    /// resid_post, the residual stream after the layer; the state of an LSTM layer.
    Raw,
    /// What the network's own read-out reads: after the final LayerNorm for a Transformer.
    Final,
    /// resid_post, normalised first: (h − mean) / std.
    Normalised,
}

/// Hidden states of a run where something is predicted: at the x tokens of prompts, or at queries.
pub trait HiddenStates {
    /// HiddenStates after a layer, or, without one, what the network's own read-out reads: one for each prediction.
    fn rows(&self, layer: Option<usize>) -> impl Iterator<Item = &[f32]>;
}

impl HiddenStates for Runner {
    fn rows(&self, layer: Option<usize>) -> impl Iterator<Item = &[f32]> {
        self.at_x(layer.map_or(self.last(), |layer| self.hidden(layer)))
    }
}

impl HiddenStates for QueryRunner {
    fn rows(&self, layer: Option<usize>) -> impl Iterator<Item = &[f32]> {
        let states = layer.map_or(self.last(), |layer| self.hidden(layer));
        states.chunks_exact(states.len() / self.predictions().len())
    }
}

impl ReadPoint {
    /// Where fitted read-outs read: layer L where the network's own does, unless `raw`, the others raw.
    pub fn of_layer(layer: usize, layers: usize, raw: bool) -> ReadPoint {
        if layer == layers && !raw { ReadPoint::Final } else { ReadPoint::Raw }
    }

    /// The states of a layer, one for each prediction.
    pub fn of(self, states: &impl HiddenStates, layer: usize) -> impl Iterator<Item = &[f32]> {
        states.rows((self != ReadPoint::Final).then_some(layer))
    }
}

impl ReadOut {
    /// From weights followed by a bias.
    pub fn new(mut affine: Vec<f64>, point: ReadPoint) -> ReadOut {
        let bias = affine.pop().unwrap_or_default();
        ReadOut { weights: affine, bias, point }
    }

    /// Where it reads.
    pub fn point(&self) -> ReadPoint {
        self.point
    }

    /// Weights followed by the bias.
    pub fn affine(&self) -> Vec<f64> {
        let mut all = self.weights.clone();
        all.push(self.bias);
        all
    }

    /// The network's own read-out, for any layer: on the state as it is, or through the final LayerNorm, whose gain and bias
    /// are made part of the map.
    pub fn trained_on(point: ReadPoint, weights: &Weights) -> ReadOut {
        let of = |name: &str| -> Vec<f64> {
            let values = weights.layout.slice(weights.params(), name).expect("a parameter of every network");
            values.iter().map(|v| f64::from(*v)).collect()
        };
        let (w, b) = (of("read_out.weight"), of("read_out.bias")[0]);
        match weights.network {
            Network::Gpt2(_) if point == ReadPoint::Normalised => {
                let (gain, shift) = (of("ln_f.weight"), of("ln_f.bias"));
                let bias = b + w.iter().zip(&shift).map(|(w, s)| w * s).sum::<f64>();
                let weights = w.iter().zip(&gain).map(|(w, g)| w * g).collect();
                ReadOut { weights, bias, point }
            }
            _ => ReadOut { weights: w, bias: b, point: ReadPoint::Raw },
        }
    }

    /// Reads one state as it is.
    pub fn value(&self, row: &[f32]) -> f64 {
        self.bias + mixed_dot(&self.weights, row)
    }

    /// Reads the states of a layer into `out`, one number for each prediction.
    pub fn read(&self, states: &impl HiddenStates, layer: usize, out: &mut [f64]) {
        let rows = self.point.of(states, layer);
        let normalised = self.point == ReadPoint::Normalised;
        let total: f64 = self.weights.iter().sum();
        vectorised(
            #[inline(always)]
            || {
                for (row, out) in rows.zip(out) {
                    let value = mixed_dot(&self.weights, row);
                    *out = self.bias
                        + if normalised {
                            let (mean, std) = mean_and_std(row);
                            (value - mean * total) / std
                        } else {
                            value
                        };
                }
            },
        );
    }
}

/// Values summed at once: enough independent sums to keep the multiply-add units busy.
const LANES: usize = 16;

/// Σ f(i, x`[i]`) in double precision, in a fixed order that vectorises.
#[inline(always)]
fn lanes(x: &[f32], f: impl Fn(usize, f64) -> f64) -> f64 {
    let mut sums = [0.0; LANES];
    let (whole, rest) = x.as_chunks::<LANES>();
    for (block, x) in whole.iter().enumerate() {
        for i in 0..LANES {
            sums[i] += f(block * LANES + i, f64::from(x[i]));
        }
    }
    let done = x.len() - rest.len();
    for (i, x) in rest.iter().enumerate() {
        sums[i] += f(done + i, f64::from(*x));
    }
    sums.iter().sum()
}

#[inline(always)]
fn mixed_dot(weights: &[f64], row: &[f32]) -> f64 {
    let weights = &weights[..row.len()];
    lanes(row, |i, x| weights[i] * x)
}

#[inline(always)]
fn mean_and_std(row: &[f32]) -> (f64, f64) {
    let count = row.len() as f64;
    let mean = lanes(row, |_, x| x) / count;
    let variance = lanes(row, |_, x| (x - mean) * (x - mean)) / count;
    (mean, (variance + f64::from(LayerNorm::EPSILON)).sqrt())
}
