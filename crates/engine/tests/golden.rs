//! Agreement with PyTorch: forward, every named gradient, and three Adam steps (files by `scripts/golden/make.py`).

mod common;

use std::collections::HashMap;

use common::{golden, relative};
use engine::cpu::Runner;
use engine::model::networks::{Gpt2Config, LstmConfig, Mode, Network};
use engine::model::optim::{OptimiserState, adam::AdamConfig};

const TOLERANCE: f32 = 1e-5;

fn check(file: &str, network: &Network, batch: usize, tokens: usize, epsilon: f32) {
    let golden = golden(file);
    check_runner(file, &golden, network, network.runner(batch, tokens, Mode::Train).unwrap(), epsilon);
    check_runner(file, &golden, network, network.predictor(batch, tokens / 2, Mode::Train).unwrap(), epsilon);
}

fn check_runner(
    file: &str,
    golden: &HashMap<String, Vec<f32>>,
    network: &Network,
    mut runner: Runner,
    epsilon: f32,
) {
    let layout = network.layout();
    let mut params = vec![0.0; layout.len()];
    for (spec, place) in layout.iter() {
        place.of_mut(&mut params).copy_from_slice(&golden[&format!("param/{}", spec.name)]);
    }
    let names = golden.keys().filter(|name| name.starts_with("param/")).count();
    assert_eq!(names, layout.iter().count(), "parameters by name");
    let close = |what: &str, found: &[f32], expected: &[f32]| {
        let error = relative(found, expected);
        assert!(error < TOLERANCE, "{file}: {what} differs from PyTorch by {error}");
    };
    let agree = |what: &str, found: &[f32], key: &str| close(what, found, &golden[key]);
    // At every token, or, where the network was not computed at all of them, at the x tokens.
    let states = |runner: &Runner, found: &[f32], key: &str| {
        if found.len() == golden[key].len() {
            return agree(key, found, key);
        }
        let found: Vec<f32> = runner.at_x(found).flatten().copied().collect();
        let expected = golden[key].chunks_exact(network.width()).step_by(2);
        close(key, &found, &expected.flatten().copied().collect::<Vec<f32>>());
    };
    runner.set_tokens(&golden["tokens"]).unwrap();
    runner.set_targets(&golden["targets"]).unwrap();
    let mut grads = vec![0.0; layout.len()];
    let mut adam = OptimiserState::new(AdamConfig { epsilon, ..Default::default() }, layout.len());
    for (step, &expected) in golden["norm"].iter().enumerate() {
        grads.fill(0.0);
        runner.forward(&params);
        runner.backward(&params, &mut grads);
        if step == 0 {
            for layer in 0..runner.hidden_count() {
                states(&runner, runner.hidden(layer), &format!("hidden.{layer}"));
            }
            states(&runner, runner.last(), "last");
            agree("predictions", runner.predictions(), "predictions");
            agree("loss", &[runner.loss()], "loss");
            for (spec, place) in layout.iter() {
                let name = format!("grad/{}", spec.name);
                agree(&name, place.of(&grads), &name);
            }
        }
        let norm = adam.step(&mut params, &grads, 1e-3, Some(1.0));
        assert!((norm / expected - 1.0).abs() < TOLERANCE, "gradient norm at step {step}");
    }
    for (spec, place) in layout.iter() {
        let name = format!("adam/{}", spec.name);
        agree(&name, place.of(&params), &name);
    }
}

#[test]
fn gpt2_agrees_with_hugging_face() {
    let config =
        Gpt2Config { features: 4, positions: 12, width: 16, layers: 2, heads: 2, ..Default::default() };
    check("gpt2.safetensors", &Network::Gpt2(config), 3, 10, 1e-6);
}

#[test]
fn lstm_agrees_with_torch() {
    let config = LstmConfig { features: 3, width: 12, layers: 3 };
    check("lstm.safetensors", &Network::Lstm(config), 3, 10, 1e-8);
}
