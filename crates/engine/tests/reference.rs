//! The reference implementation against PyTorch and finite differences, and the CPU backend against the reference.

mod common;

use common::{all_networks, golden, networks_of_several_stages, normals, relative, rough_params, tiny_gpt2};
use engine::cpu::Runner;
use engine::model::networks::{Gpt2Config, LstmConfig, Mode, Network};
use engine::reference::{Evaluation, evaluate};

fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

fn floats(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

/// Made-up prompts: tokens `[batch, tokens, features]` and one target per x token.
fn prompts(network: &Network, [batch, tokens]: [usize; 2]) -> (Vec<f32>, Vec<f32>) {
    let targets = normals("targets", batch * tokens.div_ceil(2), 1.0);
    (normals("tokens", batch * tokens * network.features(), 1.0), targets)
}

#[test]
fn the_reference_agrees_with_pytorch() {
    let gpt2 =
        Gpt2Config { features: 4, positions: 12, width: 16, layers: 2, heads: 2, ..Default::default() };
    let lstm = LstmConfig { features: 3, width: 12, layers: 3 };
    for (file, network) in
        [("gpt2.safetensors", Network::Gpt2(gpt2)), ("lstm.safetensors", Network::Lstm(lstm))]
    {
        let (golden, layout) = (golden(file), network.layout());
        let params: Vec<f64> =
            layout.iter().flat_map(|(spec, _)| doubles(&golden[&format!("param/{}", spec.name)])).collect();
        let found = evaluate(&network, &params, &doubles(&golden["tokens"]), &doubles(&golden["targets"]), 3);
        // Both sides were computed in double precision; the file was rounded to single.
        let agree = |key: &str, found: &[f64]| {
            let error = relative(&floats(found), &golden[key]);
            assert!(error < 2e-7, "{file}: {key} differs from PyTorch by {error}");
        };
        found.hidden.iter().enumerate().for_each(|(layer, x)| agree(&format!("hidden.{layer}"), x));
        agree("last", &found.last);
        agree("predictions", &found.predictions);
        agree("loss", &[found.loss]);
        for (spec, place) in layout.iter() {
            agree(&format!("grad/{}", spec.name), &found.gradients[place.range()]);
        }
    }
}

#[test]
fn every_gradient_of_the_reference_is_the_finite_difference() {
    for network in all_networks() {
        let (tokens, targets) = prompts(&network, [2, 6]);
        let (tokens, targets, params) =
            (doubles(&tokens), doubles(&targets), doubles(&rough_params(&network)));
        let found = evaluate(&network, &params, &tokens, &targets, 2);
        let largest = found.gradients.iter().fold(0.0f64, |m, g| m.max(g.abs()));
        for (spec, place) in network.layout().iter() {
            for index in place.range() {
                let loss = |by: f64| {
                    let mut moved = params.clone();
                    moved[index] += by;
                    evaluate(&network, &moved, &tokens, &targets, 2).loss
                };
                let numeric = (loss(1e-5) - loss(-1e-5)) / 2e-5;
                let error = (numeric - found.gradients[index]).abs() / largest;
                assert!(error < 1e-8, "{network:?}: {}, value {index}, is off by {error:e}", spec.name);
            }
            let used = found.gradients[place.range()].iter().any(|g| *g != 0.0);
            assert!(used, "{network:?}: {} has no gradient at all", spec.name);
        }
    }
}

/// Hidden states and predictions of a runner, at every token or, where it leaves some out, at the x tokens.
fn check_forward(what: &str, runner: &Runner, network: &Network, expected: &Evaluation) {
    let width = network.width();
    let check = |name: String, found: &[f32], expected: &[f64]| {
        let error = relative(found, &floats(expected));
        assert!(error < 1e-5, "{what}: {name} is off by {error:e}");
    };
    let states = |name: String, found: &[f32], expected: &[f64]| {
        if found.len() == expected.len() {
            return check(name, found, expected);
        }
        let found: Vec<f32> = runner.at_x(found).flatten().copied().collect();
        let prompts = expected.chunks_exact(expected.len() / runner.graph().batch);
        let at_x = prompts.flat_map(|prompt| prompt.chunks_exact(width).step_by(2)).flatten().copied();
        check(name, &found, &at_x.collect::<Vec<f64>>());
    };
    assert_eq!(runner.hidden_count(), expected.hidden.len());
    for (layer, expected) in expected.hidden.iter().enumerate() {
        states(format!("hidden {layer}"), runner.hidden(layer), expected);
    }
    states("last".into(), runner.last(), &expected.last);
    check("predictions".into(), runner.predictions(), &expected.predictions);
}

/// Every tensor's gradient, relative to its own size; some are 0 but for rounding, such as those of the keys' biases.
fn check_gradients(what: &str, network: &Network, found: &[f32], expected: &[f64]) {
    let norm = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>().sqrt();
    let apart: Vec<f64> = doubles(found).iter().zip(expected).map(|(a, b)| a - b).collect();
    let whole = norm(expected);
    for (spec, place) in network.layout().iter() {
        let own = norm(&expected[place.range()]);
        let error = norm(&apart[place.range()]) / own.max(1e-3 * whole);
        assert!(error < 2e-5, "{what}: gradient of {} is off by {error:e}", spec.name);
    }
}

fn check_cpu(network: &Network, params: &[f32], [batch, tokens]: [usize; 2]) {
    let (prompts, targets) = prompts(network, [batch, tokens]);
    let expected = evaluate(network, &doubles(params), &doubles(&prompts), &doubles(&targets), batch);
    let mut runners = Vec::new();
    for mode in [Mode::Train, Mode::Infer] {
        runners.push(("runner", mode, network.runner(batch, tokens, mode).unwrap()));
        if tokens % 2 == 0 {
            runners.push(("predictor", mode, network.predictor(batch, tokens / 2, mode).unwrap()));
        }
    }
    for (name, mode, mut runner) in runners {
        let what = format!("{name} for {mode:?}, {batch} × {tokens} tokens, of {network:?}");
        runner.set_tokens(&prompts).unwrap();
        if mode == Mode::Infer {
            runner.forward(params);
            check_forward(&what, &runner, network, &expected);
            continue;
        }
        runner.set_targets(&targets).unwrap();
        let mut gradients = vec![0.0; params.len()];
        let loss = f64::from(runner.gradients(params, &mut gradients));
        assert!((loss / expected.loss - 1.0).abs() < 1e-5, "{what}: the loss is {loss}");
        check_forward(&what, &runner, network, &expected);
        check_gradients(&what, network, &gradients, &expected.gradients);
    }
}

#[test]
fn the_cpu_computes_what_the_reference_does() {
    for network in all_networks() {
        let params = rough_params(&network);
        for shape in [[2, 6], [3, 10], [1, 1], [5, 7], [150, 10]] {
            check_cpu(&network, &params, shape);
        }
    }
}

#[test]
fn prompts_of_several_blocks_of_scores_agree_with_the_reference() {
    for network in all_networks() {
        let network = match network {
            Network::Gpt2(config) => Network::Gpt2(Gpt2Config { positions: 70, ..config }),
            lstm => lstm,
        };
        let params = rough_params(&network);
        [[2, 35], [1, 66]].into_iter().for_each(|shape| check_cpu(&network, &params, shape));
    }
}

#[test]
fn wide_networks_agree_with_the_reference() {
    let wide = Gpt2Config { width: 48, heads: 3, ..tiny_gpt2() };
    // Wide enough for products whose inner size is cut into blocks.
    let wider = Gpt2Config { width: 320, heads: 2, layers: 1, ..tiny_gpt2() };
    for network in [wide, wider].map(Network::Gpt2).into_iter().chain(networks_of_several_stages()) {
        let mut params = network.layout().initial(&engine::model::parameters::SplitMix::new(1));
        let noise = normals("rough", params.len(), 0.02);
        params.iter_mut().zip(&noise).for_each(|(p, n)| *p += n);
        [[6, 6], [30, 10]].into_iter().for_each(|shape| check_cpu(&network, &params, shape));
    }
}
