//! Helpers shared by the tests.
#![allow(dead_code)]

use engine::model::networks::{Gpt2Config, LstmConfig, Network};
use engine::model::parameters::{RandomSource, SplitMix};

/// A small Transformer.
pub fn tiny_gpt2() -> Gpt2Config {
    Gpt2Config { features: 3, positions: 10, width: 8, layers: 2, heads: 2, ..Default::default() }
}

/// A small LSTM.
pub fn tiny_lstm() -> Network {
    Network::Lstm(LstmConfig { features: 3, width: 5, layers: 2 })
}

/// Normal numbers.
pub fn normals(stream: &str, len: usize, scale: f32) -> Vec<f32> {
    let random = SplitMix::new(11);
    (0..len as u64).map(|i| scale * random.normal(stream, i)).collect()
}

/// Parameters that no symmetry hides: every bias and gain is moved.
pub fn rough_params(network: &Network) -> Vec<f32> {
    let layout = network.layout();
    let mut params = layout.initial(&SplitMix::new(1));
    let noise = normals("rough", params.len(), 0.3);
    params.iter_mut().zip(&noise).for_each(|(p, n)| *p += n);
    params
}

/// Largest difference, relative to the largest value expected.
pub fn relative(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(1e-12f32, |m, e| m.max(e.abs()));
    found.iter().zip(expected).fold(0.0f32, |m, (f, e)| m.max((f - e).abs())) / largest
}
