//! Activations by name: what is read can be put back without a trace, and what is put elsewhere arrives.

mod common;

use common::{networks_of_several_stages, normals, relative, rough_params, tiny_gpt2, tiny_lstm};
use engine::cpu::Runner;
use engine::model::hooks::{Patch, Site, SiteKind, Tokens, Values};
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
    Patch::per_prompt(site, tokens, values.collect::<Vec<f32>>())
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
                if site.kind == SiteKind::Out {
                    // computed nowhere: what was read comes back up to the rounding of one sum
                    let apart = relative(runner.predictions(), kept.predictions());
                    assert!(apart < 1e-5, "{site} of {network:?}: {apart}");
                } else {
                    assert_eq!(runner.predictions(), kept.predictions(), "{site} of {network:?}");
                }
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
            written.forward_from(&params, block).unwrap();
            assert_eq!(written.predictions(), donor.predictions(), "block {block} of {network:?}");
            // a pass from that block on takes it, too
            let mut from = run(&network, &params, "tokens", Mode::Infer);
            from.patch(std::slice::from_ref(&patch)).unwrap();
            from.forward_from(&params, block).unwrap();
            assert_eq!(from.predictions(), donor.predictions(), "block {block} of {network:?}");
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
        runner.forward_from(&params, block).unwrap();
        assert_ne!(runner.predictions(), whole, "block {block}");
        runner.write(&own).unwrap();
        runner.forward_from(&params, block).unwrap();
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
fn an_ablated_block_adds_nothing_and_rows_stand_at_their_positions() {
    let network = Network::Gpt2(tiny_gpt2());
    let params = rough_params(&network);
    let mut runner = run(&network, &params, "tokens", Mode::Infer);
    let out = Site { block: 2, kind: SiteKind::Out };
    runner.patch(&[Patch { site: out, tokens: Tokens::All, values: Values::Zero }]).unwrap();
    runner.forward(&params);
    assert_eq!(runner.hidden(2), runner.hidden(1));
    // values for each position, at the y tokens alone
    let width = network.width();
    let rows = normals("rows", TOKENS * width, 1.0);
    let site = Site { block: 1, kind: SiteKind::ResidPost };
    let whole = run(&network, &params, "tokens", Mode::Infer);
    let values = Values::PerPosition(rows.clone().into());
    runner.patch(&[Patch { site, tokens: Tokens::Y, values }]).unwrap();
    runner.forward(&params);
    for (at, row) in runner.hidden(1).chunks_exact(width).enumerate() {
        let token = at % TOKENS;
        let expected = if token % 2 == 1 { &rows[token * width..] } else { &whole.hidden(1)[at * width..] };
        assert_eq!(row, &expected[..width], "token {token}");
    }
}

#[test]
fn queries_take_the_patches_of_the_token_that_they_stand_at() {
    let network = Network::Gpt2(tiny_gpt2());
    let params = rough_params(&network);
    let (width, features) = (network.width(), network.features());
    let tokens = normals("tokens", BATCH * TOKENS * features, 1.0);
    let donor = run(&network, &params, "others", Mode::Train);
    let mean = || Values::PerPosition(normals("mean", TOKENS * 4 * width, 1.0).into());
    let site = |block, kind| Site { block, kind };
    let patches = [
        Patch { site: site(1, SiteKind::Z(Some(1))), tokens: Tokens::Y, values: Values::Zero },
        Patch { site: site(1, SiteKind::MlpHidden), tokens: Tokens::All, values: mean() },
        Patch { site: site(2, SiteKind::Out), tokens: Tokens::X, values: mean() },
        taken(&donor, site(2, SiteKind::ResidMid), &[4, 8]),
    ];
    let mut whole = network.runner(BATCH, TOKENS, Mode::Infer).unwrap();
    whole.patch(&patches).unwrap();
    whole.set_tokens(&tokens).unwrap();
    whole.forward(&params);
    let mut queries = network.query_runner(&whole, 2).unwrap();
    queries.patch(&patches).unwrap();
    for pairs in [2, 4] {
        // the next x of each prompt, twice
        let next = (0..BATCH).flat_map(|b| {
            let at = (b * TOKENS + 2 * pairs) * features;
            tokens[at..at + features].repeat(2)
        });
        queries.forward(&params, &whole, pairs, &next.collect::<Vec<f32>>()).unwrap();
        let points = TOKENS.div_ceil(2);
        let expected: Vec<f32> =
            (0..BATCH).flat_map(|b| [whole.predictions()[b * points + pairs]; 2]).collect();
        let apart = relative(queries.predictions(), &expected);
        assert!(apart < 1e-5, "after {pairs} pairs: {apart}");
    }
    // what touches neither the query nor a token before it, and what does not say whose token it is
    let mut refused = |tokens: Tokens, values: Values, pairs: usize, said: &str| {
        queries.patch(&[Patch { site: site(1, SiteKind::ResidPost), tokens, values }]).unwrap();
        let asked = vec![0.0; BATCH * 2 * features];
        let error = queries.forward(&params, &whole, pairs, &asked).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    };
    refused(Tokens::Y, Values::Zero, 0, "at the y tokens touches nothing, as queries stand at token 0");
    refused(Tokens::These(vec![5]), Values::Zero, 2, "token 5 touches nothing, as queries stand at token 4");
    let all = vec![0.0; BATCH * TOKENS * width];
    refused(Tokens::All, Values::PerPrompt(all.into()), 2, "need the tokens by their numbers");
    let short = vec![0.0; 3 * width];
    refused(Tokens::All, Values::PerPosition(short.into()), 2, "values for 3 positions, but 5 are needed");
}

#[test]
fn the_last_tokens_alone_are_what_they_are_in_whole_prompts() {
    for network in transformers() {
        let params = rough_params(&network);
        let (donor, whole) =
            (run(&network, &params, "others", Mode::Train), run(&network, &params, "tokens", Mode::Infer));
        for first in [0, 3, 8].into_iter().filter(|first| *first == 0 || !network.sees_later_tokens()) {
            let tokens: Vec<usize> = (first..TOKENS).collect();
            let mut suffix = network.suffix_runner(&whole, tokens.len()).unwrap();
            for site in sites(&network) {
                // at the first token of the suffix and at the last
                let patch = taken(&donor, site, &[first, TOKENS - 1]);
                let mut expected = run(&network, &params, "tokens", Mode::Infer);
                expected.patch(std::slice::from_ref(&patch)).unwrap();
                expected.forward(&params);
                let stream = taken(&whole, Site { kind: SiteKind::ResidPre, ..site }, &tokens);
                let own: Vec<usize> = (0..tokens.len()).collect();
                suffix.write(&Patch { tokens: Tokens::These(own), ..stream }).unwrap();
                let moved = Tokens::These(vec![0, tokens.len() - 1]);
                suffix.patch(&[Patch { tokens: moved, ..patch }]).unwrap();
                suffix.forward_from(&params, &whole, site.block).unwrap();
                let found: Vec<f32> =
                    suffix.predictions().chunks_exact(tokens.len()).map(|of| of[tokens.len() - 1]).collect();
                let points = TOKENS.div_ceil(2);
                let expected: Vec<f32> =
                    expected.predictions().chunks_exact(points).map(|of| of[points - 1]).collect();
                if site.kind == SiteKind::Out {
                    assert!(relative(&found, &expected) < 1e-6, "{site} from token {first} of {network:?}");
                } else {
                    assert_eq!(found, expected, "{site} from token {first} of {network:?}");
                }
            }
        }
        let said = |tokens| network.suffix_runner(&whole, tokens).err().map(|error| error.to_string());
        assert!(said(TOKENS + 1).unwrap().contains("accepted: 1 to 9"));
        assert!(said(0).unwrap().contains("accepted: 1 to 9"));
        assert_eq!(said(2).is_some_and(|said| said.contains("see them")), network.sees_later_tokens());
    }
    let lstm = tiny_lstm();
    let whole = run(&lstm, &rough_params(&lstm), "tokens", Mode::Infer);
    assert!(lstm.suffix_runner(&whole, 2).unwrap_err().to_string().contains("only a Transformer"));
}

#[test]
fn what_touches_nothing_is_refused() {
    let network = Network::Gpt2(tiny_gpt2());
    let params = rough_params(&network);
    let mut runner = run(&network, &params, "tokens", Mode::Infer);
    let patch = |block, kind, tokens: &[usize], len: usize| {
        Patch::per_prompt(Site { block, kind }, tokens, vec![0.0; len])
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
    let mean = |len: usize| Patch {
        site: Site { block: 1, kind: SiteKind::Out },
        tokens: Tokens::All,
        values: Values::PerPosition(vec![0.0; len].into()),
    };
    refused(mean(TOKENS * width - 1), "are no whole rows; accepted: [positions, ");
    refused(mean(8 * width), "values for 8 positions, but 9 are needed");
    let error = runner.forward_from(&params, 3).unwrap_err().to_string();
    assert!(error.contains("there is no such block; accepted: 1 to 2"), "{error}");
    let inside = runner.activation(Site { block: 1, kind: SiteKind::MlpHidden }).unwrap_err().to_string();
    assert!(inside.contains("is not kept in inference"), "{inside}");
    let lstm = tiny_lstm();
    let mut runner = run(&lstm, &rough_params(&lstm), "tokens", Mode::Infer);
    let error = runner.forward_from(&rough_params(&lstm), 1).unwrap_err().to_string();
    assert!(error.contains("only a Transformer"), "{error}");
    let error = runner.activation(Site { block: 1, kind: SiteKind::ResidPost }).unwrap_err().to_string();
    assert!(error.contains("only a Transformer"), "{error}");
    let mut predictor = network.predictor(BATCH, 5, Mode::Infer).unwrap();
    let error = predictor.patch(&[patch(2, SiteKind::Z(None), &[1], BATCH * width)]).unwrap_err().to_string();
    assert!(
        error
            .contains("token 1 touches nothing, as none of them is computed there; accepted: multiples of 2"),
        "{error}"
    );
}
