//! Activations by name: what is read can be put back without a trace, and what is put elsewhere arrives.

mod common;

use common::{networks_of_several_stages, normals, rough_params, tiny_gpt2, tiny_lstm};
use engine::cpu::Runner;
use engine::model::hooks::{Patch, Site, SiteKind};
use engine::model::networks::{Mode, Network};

const BATCH: usize = 5;
const TOKENS: usize = 9;

/// A run over tokens of their own, kept whole.
fn run(network: &Network, params: &[f32], name: &str, mode: Mode) -> Runner {
    let mut runner = network.runner(BATCH, TOKENS, mode).unwrap();
    let features = runner.graph().features;
    runner.set_tokens(&normals(name, BATCH * TOKENS * features, 1.0)).unwrap();
    runner.forward(params);
    runner
}

/// The activation of another run at some tokens.
fn taken(from: &Runner, site: Site, tokens: &[usize]) -> Patch {
    let all = from.activation(site).unwrap();
    let width = all.len() / (BATCH * TOKENS);
    let of = |b: usize, t: usize| &all[(b * TOKENS + t) * width..][..width];
    let values = (0..BATCH).flat_map(|b| tokens.iter().flat_map(move |&t| of(b, t).iter().copied()));
    Patch { site, tokens: tokens.to_vec(), values: values.collect() }
}

fn sites(network: &Network) -> Vec<Site> {
    let kinds = SiteKind::ALL.map(|(kind, _)| kind).into_iter().chain([SiteKind::Z(Some(1))]);
    let kinds: Vec<SiteKind> = kinds.collect();
    (1..=network.layers()).flat_map(|block| kinds.iter().map(move |&kind| Site { block, kind })).collect()
}

fn transformers() -> Vec<Network> {
    let several = networks_of_several_stages().into_iter();
    several
        .filter(|network| matches!(network, Network::Gpt2(_)))
        .chain([Network::Gpt2(tiny_gpt2())])
        .collect()
}

#[test]
fn an_identity_patch_changes_no_bit() {
    for network in transformers() {
        let params = rough_params(&network);
        let kept = run(&network, &params, "tokens", Mode::Train);
        let all: Vec<usize> = (0..TOKENS).collect();
        for site in sites(&network) {
            for mode in [Mode::Infer, Mode::Train] {
                let mut runner = run(&network, &params, "tokens", mode);
                runner.patch(&[taken(&kept, site, &all)]).unwrap();
                runner.forward(&params);
                assert_eq!(runner.predictions(), kept.predictions(), "{site} of {network:?}");
            }
        }
    }
}

#[test]
fn a_whole_stream_brings_the_other_prompt_with_it() {
    for network in transformers() {
        let params = rough_params(&network);
        let donor = run(&network, &params, "others", Mode::Train);
        let all: Vec<usize> = (0..TOKENS).collect();
        for block in 1..=network.layers() {
            let mut runner = run(&network, &params, "tokens", Mode::Infer);
            let before = runner.predictions().to_vec();
            let patch = taken(&donor, Site { block, kind: SiteKind::ResidPre }, &all);
            // while it runs, and written before the block
            runner.patch(std::slice::from_ref(&patch)).unwrap();
            runner.forward(&params);
            assert_eq!(runner.predictions(), donor.predictions(), "block {block} of {network:?}");
            let mut written = run(&network, &params, "tokens", Mode::Infer);
            written.write(&patch).unwrap();
            written.forward_from(&params, block);
            assert_eq!(written.predictions(), donor.predictions(), "block {block} of {network:?}");
            // and without patches it is itself again
            runner.patch(&[]).unwrap();
            runner.forward(&params);
            assert_eq!(runner.predictions(), before);
        }
    }
}

#[test]
fn from_the_last_block_to_the_first_streams_stay_what_they_were() {
    let network = Network::Gpt2(tiny_gpt2());
    let params = rough_params(&network);
    let donor = run(&network, &params, "others", Mode::Infer);
    let mut runner = run(&network, &params, "tokens", Mode::Infer);
    let whole = runner.predictions().to_vec();
    for block in (1..=network.layers()).rev() {
        let site = Site { block, kind: SiteKind::ResidPre };
        let own = taken(&runner, site, &[3, 4]);
        runner.write(&taken(&donor, site, &[3, 4])).unwrap();
        runner.forward_from(&params, block);
        assert_ne!(runner.predictions(), whole, "block {block}");
        runner.write(&own).unwrap();
        runner.forward_from(&params, block);
        assert_eq!(runner.predictions(), whole, "block {block}");
    }
}

#[test]
fn what_heads_add_is_patched_head_by_head() {
    let network = Network::Gpt2(tiny_gpt2());
    let params = rough_params(&network);
    let (mut one, mut all) =
        (run(&network, &params, "tokens", Mode::Infer), run(&network, &params, "tokens", Mode::Infer));
    let donor = run(&network, &params, "others", Mode::Train);
    let Network::Gpt2(config) = &network else { unreachable!() };
    let site = |kind| Site { block: 2, kind };
    let heads: Vec<Patch> =
        (0..config.heads).map(|head| taken(&donor, site(SiteKind::Z(Some(head))), &[0, 2, 8])).collect();
    one.patch(&heads).unwrap();
    all.patch(&[taken(&donor, site(SiteKind::Z(None)), &[0, 2, 8])]).unwrap();
    for runner in [&mut one, &mut all] {
        runner.forward(&params);
    }
    assert_eq!(one.predictions(), all.predictions());
}

#[test]
fn what_touches_nothing_is_refused() {
    let network = Network::Gpt2(tiny_gpt2());
    let params = rough_params(&network);
    let mut runner = run(&network, &params, "tokens", Mode::Infer);
    let patch = |block, kind, tokens: &[usize], len: usize| Patch {
        site: Site { block, kind },
        tokens: tokens.to_vec(),
        values: vec![0.0; len].into(),
    };
    let width = network.width();
    let mut refused = |patch: Patch, said: &str| {
        let error = runner.patch(&[patch]).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    };
    refused(patch(1, SiteKind::ResidPre, &[], 0), "blocks.1.resid_pre: a patch at no token changes nothing");
    refused(patch(9, SiteKind::ResidPre, &[0], BATCH * width), "there is no such block; accepted: 1 to 2");
    refused(patch(0, SiteKind::ResidPre, &[0], BATCH * width), "there is no such block");
    refused(patch(1, SiteKind::ResidPost, &[9], BATCH * width), "there is no token 9; accepted: 0 to 8");
    refused(patch(1, SiteKind::Z(Some(7)), &[0], BATCH), "there is no such head; accepted: 0 to");
    refused(patch(1, SiteKind::MlpHidden, &[0], BATCH * width), "values of a patch");
    let inside = runner.activation(Site { block: 1, kind: SiteKind::MlpHidden }).unwrap_err().to_string();
    assert!(inside.contains("is not kept in inference"), "{inside}");
    let lstm = tiny_lstm();
    let runner = run(&lstm, &rough_params(&lstm), "tokens", Mode::Infer);
    let error = runner.activation(Site { block: 1, kind: SiteKind::ResidPost }).unwrap_err().to_string();
    assert!(error.contains("only a Transformer"), "{error}");
    let mut predictor = network.predictor(BATCH, 5, Mode::Infer).unwrap();
    let error = predictor.patch(&[patch(2, SiteKind::Z(None), &[1], BATCH * width)]).unwrap_err().to_string();
    assert!(error.contains("multiples of 2"), "{error}");
}
