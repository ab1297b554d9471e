//! Helpers shared by the tests.
#![allow(dead_code)]

use engine::deviation::worst;
use std::collections::HashMap;
use std::path::Path;

use engine::model::networks::{Gpt2Config, LstmConfig, Network};
use engine::model::ops::{Activation, AttentionKind, Mask, Weighting};
use engine::model::parameters::{RandomSource, SplitMix};
use safetensors::SafeTensors;

/// A small Transformer.
pub fn tiny_gpt2() -> Gpt2Config {
    Gpt2Config { features: 3, positions: 10, width: 8, layers: 2, heads: 2, ..Default::default() }
}

/// A small LSTM.
pub fn tiny_lstm() -> Network {
    Network::Lstm(LstmConfig { features: 3, width: 5, layers: 2 })
}

fn all_kinds() -> Vec<AttentionKind> {
    let weightings = [Weighting::Softmax, Weighting::Relu, Weighting::Linear];
    [Mask::Causal, Mask::Full]
        .into_iter()
        .flat_map(|mask| weightings.map(|weighting| AttentionKind { mask, weighting }))
        .collect()
}

/// Every kind of attention, another activation, and an LSTM.
pub fn all_networks() -> Vec<Network> {
    let mut networks: Vec<Network> = all_kinds()
        .into_iter()
        .map(|attention| Network::Gpt2(Gpt2Config { attention, ..tiny_gpt2() }))
        .collect();
    networks.push(Network::Gpt2(Gpt2Config { activation: Activation::Relu, ..tiny_gpt2() }));
    networks.push(tiny_lstm());
    networks
}

/// Networks with so many weights that they are computed in several stages: the weight gradients of one stage share the
/// threads with the backward pass of another.
pub fn networks_of_several_stages() -> [Network; 2] {
    let transformer = Gpt2Config { width: 256, layers: 3, ..tiny_gpt2() };
    [Network::Gpt2(transformer), Network::Lstm(LstmConfig { features: 3, width: 256, layers: 5 })]
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
    worst(found.iter().zip(expected).map(|(f, e)| (f - e).abs())) as f32 / largest
}

/// The tensors of a golden file by `scripts/golden/make.py`.
pub fn golden(name: &str) -> HashMap<String, Vec<f32>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let bytes = std::fs::read(path).expect("golden file");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let floats = |data: &[u8]| data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    file.iter().map(|(name, view)| (name.to_string(), floats(view.data()))).collect()
}
