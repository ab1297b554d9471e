//! Properties of every network: causality, shared prefixes, same bits on any number of threads.

mod common;

use common::{
    all_networks, networks_of_several_stages, normals, relative, rough_params, tiny_gpt2, tiny_lstm,
};
use engine::EngineError;
use engine::cpu::Runner;
use engine::model::hooks::{Patch, Site, SiteKind, Tokens, Values};
use engine::model::networks::{Gpt2Config, LstmConfig, Mode, Network};
use engine::model::ops::{AttentionKind, Mask, Weighting};
use engine::model::optim::{OptimiserState, adam::AdamConfig};

fn causal(network: &Network) -> bool {
    !matches!(network, Network::Gpt2(config) if config.attention.mask == Mask::Full)
}

fn feed(runner: &mut Runner) {
    let graph = runner.graph();
    let (tokens, targets) = (graph.batch * graph.given * graph.features, graph.batch * runner.points());
    runner.set_tokens(&normals("tokens", tokens, 1.0)).unwrap();
    runner.set_targets(&normals("targets", targets, 1.0)).unwrap();
}

#[test]
fn parameter_counts() {
    assert_eq!(Network::Gpt2(Gpt2Config::default()).layout().len(), 9_534_977);
    assert_eq!(Network::Lstm(LstmConfig::default()).layout().len(), 5_268_993);
}

#[test]
fn the_future_is_not_seen() {
    for network in all_networks() {
        let params = rough_params(&network);
        let mut runner = network.runner(2, 8, Mode::Infer).unwrap();
        let tokens = normals("tokens", 2 * 8 * 3, 1.0);
        runner.set_tokens(&tokens).unwrap();
        runner.forward(&params);
        let before = runner.predictions().to_vec();
        let mut changed = tokens.clone();
        // Tokens 5, 6, 7 of each prompt change; predictions at tokens 0, 2, 4 may not.
        for prompt in changed.chunks_exact_mut(8 * 3) {
            prompt[5 * 3..].iter_mut().for_each(|x| *x += 1.0);
        }
        runner.set_tokens(&changed).unwrap();
        runner.forward(&params);
        let same = |point: usize| before[point] == runner.predictions()[point];
        assert!(!same(3), "{network:?}: the token itself is not read");
        assert_eq!(same(0) && same(1) && same(2), causal(&network), "{network:?}");
    }
}

#[test]
fn queries_after_a_shared_prefix_equal_whole_prompts() {
    let (batch, pairs, count, d) = (3, 4, 5, 3);
    for network in all_networks().into_iter().filter(causal) {
        let params = rough_params(&network);
        let tokens = normals("tokens", batch * 2 * pairs * d, 1.0);
        let queries = normals("queries", batch * count * d, 1.0);
        let mut prefix = network.runner(batch, 2 * pairs, Mode::Infer).unwrap();
        prefix.set_tokens(&tokens).unwrap();
        prefix.forward(&params);
        let mut fast = network.query_runner(&prefix, count).unwrap();
        for t in 0..=pairs {
            fast.forward(&params, &prefix, t, &queries).unwrap();
            let mut whole = network.runner(1, 2 * t + 1, Mode::Infer).unwrap();
            for b in 0..batch {
                for q in 0..count {
                    let mut prompt = tokens[b * 2 * pairs * d..][..2 * t * d].to_vec();
                    prompt.extend(&queries[(b * count + q) * d..][..d]);
                    whole.set_tokens(&prompt).unwrap();
                    whole.forward(&params);
                    let (slow, at) = (whole.predictions()[t], b * count + q);
                    assert!(
                        (slow - fast.predictions()[at]).abs() < 1e-5 * (1.0 + slow.abs()),
                        "{network:?} t={t}"
                    );
                    let width = network.width();
                    for layer in 0..=network.layers() {
                        let expected = &whole.hidden(layer)[2 * t * width..];
                        let error = relative(&fast.hidden(layer)[at * width..][..width], expected);
                        assert!(error < 1e-5, "{network:?}: hidden {layer} at t={t} is off by {error}");
                    }
                    assert!(
                        relative(&fast.last()[at * width..][..width], &whole.last()[2 * t * width..]) < 1e-5
                    );
                }
            }
        }
    }
}

#[test]
fn inference_equals_training_forward() {
    for network in all_networks() {
        let params = rough_params(&network);
        let mut train = network.runner(2, 10, Mode::Train).unwrap();
        let mut infer = network.runner(2, 10, Mode::Infer).unwrap();
        feed(&mut train);
        infer.set_tokens(&normals("tokens", 2 * 10 * 3, 1.0)).unwrap();
        train.forward(&params);
        infer.forward(&params);
        assert_eq!(train.predictions(), infer.predictions());
        for layer in 0..=network.layers() {
            assert_eq!(train.hidden(layer), infer.hidden(layer));
        }
        assert_eq!(train.last(), infer.last());
    }
}

#[test]
fn a_predictor_leaves_out_only_what_no_prediction_depends_on() {
    for network in all_networks() {
        let params = rough_params(&network);
        for mode in [Mode::Train, Mode::Infer] {
            let mut whole = network.runner(3, 10, mode).unwrap();
            let mut predictor = network.predictor(3, 5, mode).unwrap();
            assert!(predictor.bytes() < whole.bytes(), "{network:?}: nothing is left out");
            let tokens = normals("tokens", 3 * 10 * 3, 1.0);
            let kinds = SiteKind::ALL.map(|(kind, _)| kind).into_iter().chain([SiteKind::Z(Some(1))]);
            let sites = kinds.flat_map(|kind| [1, 2].map(|block| Site { block, kind }));
            let mean = || Values::PerPosition(normals("output", 40 * network.width(), 1.0).into());
            let replaced = |site| {
                let all = [(Tokens::All, Values::Zero), (Tokens::All, mean()), (Tokens::X, mean())];
                let listed = (Tokens::These(vec![1, 4, 7]), mean());
                all.into_iter()
                    .chain([listed])
                    .map(move |(tokens, values)| vec![Patch { site, tokens, values }])
            };
            let possible = |_: &Vec<Patch>| matches!(network, Network::Gpt2(_));
            for patches in [Vec::new()].into_iter().chain(sites.flat_map(replaced).filter(possible)) {
                for runner in [&mut whole, &mut predictor] {
                    runner.patch(&patches).unwrap();
                    runner.set_tokens(&tokens).unwrap();
                    runner.forward(&params);
                }
                assert_eq!(whole.predictions(), predictor.predictions(), "{network:?}, {patches:?}");
                for layer in 0..=network.layers() {
                    let [a, b] = [&whole, &predictor].map(|r| r.at_x(r.hidden(layer)).collect::<Vec<_>>());
                    assert_eq!((a.len(), a), (15, b), "{network:?}: layer {layer}, {patches:?}");
                }
                assert!(whole.at_x(whole.last()).eq(predictor.at_x(predictor.last())));
            }
        }
        let gradients = |mut runner: Runner| {
            let mut grads = vec![0.0; params.len()];
            feed(&mut runner);
            let loss = runner.gradients(&params, &mut grads);
            (loss, grads)
        };
        let (loss, expected) = gradients(network.runner(3, 10, Mode::Train).unwrap());
        let (same, found) = gradients(network.predictor(3, 5, Mode::Train).unwrap());
        assert_eq!(loss, same);
        assert!(relative(&found, &expected) < 1e-6, "{network:?}: {}", relative(&found, &expected));
    }
}

/// Three training steps of a network large enough to be cut into many tasks.
fn three_steps(network: &Network, threads: usize) -> Vec<u32> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let mut params = rough_params(network);
        let mut grads = vec![0.0; params.len()];
        let mut adam = OptimiserState::new(AdamConfig::default(), params.len());
        let batch = if params.len() > 1 << 20 { 30 } else { 150 };
        let mut runner = network.runner(batch, 10, Mode::Train).unwrap();
        feed(&mut runner);
        for _ in 0..3 {
            grads.fill(0.0);
            runner.forward(&params);
            runner.backward(&params, &mut grads);
            adam.step(&mut params, &grads, 1e-3, Some(1.0));
        }
        params.iter().map(|p| p.to_bits()).collect()
    })
}

#[test]
fn same_bits_on_any_number_of_threads() {
    let wide = Gpt2Config { width: 48, heads: 3, ..tiny_gpt2() };
    // Wide enough for products whose inner size is cut into blocks.
    let wider = Gpt2Config { width: 320, heads: 2, layers: 1, ..tiny_gpt2() };
    let networks = [Network::Gpt2(wide), Network::Gpt2(wider), tiny_lstm()];
    for network in networks.into_iter().chain(networks_of_several_stages()) {
        let one = three_steps(&network, 1);
        assert!(one == three_steps(&network, 1) && one == three_steps(&network, 3), "{network:?}");
    }
}

#[test]
fn training_lowers_the_loss() {
    for network in all_networks() {
        let mut params = network.layout().initial(&engine::model::parameters::SplitMix::new(1));
        let mut grads = vec![0.0; params.len()];
        let mut adam = OptimiserState::new(AdamConfig::default(), params.len());
        let mut runner = network.runner(2, 6, Mode::Train).unwrap();
        feed(&mut runner);
        runner.forward(&params);
        let first = runner.loss();
        for _ in 0..300 {
            grads.fill(0.0);
            runner.forward(&params);
            runner.backward(&params, &mut grads);
            adam.step(&mut params, &grads, 1e-2, Some(1.0));
        }
        assert!(runner.loss() < 0.3 * first, "{network:?}: {first} → {}", runner.loss());
    }
}

#[test]
fn wrong_shapes_are_refused_in_words() {
    let network = Network::Gpt2(tiny_gpt2());
    let mut runner = network.runner(2, 6, Mode::Infer).unwrap();
    let error = runner.set_tokens(&[0.0; 7]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tokens has 7 values, but 36 are needed (2 prompts × 6 tokens × 3 features)"
    );
    assert!(matches!(runner.set_targets(&[0.0; 6]), Err(EngineError::Unsupported(_))));
    assert!(matches!(
        network.runner(2, 11, Mode::Infer),
        Err(EngineError::Config { field: "positions", value: 10, .. })
    ));
    assert!(network.runner(0, 4, Mode::Infer).is_err());
    let odd = Network::Gpt2(Gpt2Config { heads: 3, ..tiny_gpt2() });
    assert!(matches!(odd.runner(1, 4, Mode::Infer), Err(EngineError::Config { field: "heads", .. })));
    let mut queries = network.query_runner(&runner, 2).unwrap();
    let params = rough_params(&network);
    assert!(queries.forward(&params, &runner, 4, &[0.0; 12]).is_err(), "only 3 pairs were run");
    let whole = network.runner(2, 10, Mode::Infer).unwrap();
    let error = network.query_runner(&whole, 1).unwrap().forward(&params, &whole, 5, &[0.0; 6]).unwrap_err();
    assert_eq!(error.to_string(), "a query after 5 pairs is token 11, but the network reads 10 tokens");
    assert!(tiny_lstm().query_runner(&runner, 2).is_err(), "another network's prefix");
    let other = tiny_lstm().runner(2, 6, Mode::Infer).unwrap();
    assert!(network.query_runner(&other, 2).is_err(), "another network's prefix");
    let kind = AttentionKind { mask: Mask::Full, weighting: Weighting::Softmax };
    let full = Network::Gpt2(Gpt2Config { attention: kind, ..tiny_gpt2() });
    assert!(full.query_runner(&full.runner(2, 6, Mode::Infer).unwrap(), 2).is_err());
}
