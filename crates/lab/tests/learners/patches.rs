//! Patches of a learner: `patch=zero:blocks.7.attn.z.3@y`, of which `ablate=` is the short form.

use std::sync::Arc;

use engine::cpu::Runner;
use engine::model::hooks::{Patch, Site, SiteKind, Tokens};
use engine::model::networks::{Gpt2Config, Mode, Network};
use lab::networks::experiment::TaskSpec;
use lab::networks::tokens;
use lab::patching::{Donor, Part, Patched, Place, RecordedPatches};
use lab::probe::{self, Ablation, Outputs, Probed, Replaced, Replacement, StandIns};
use lab::{Learner, Prompts, Seed, Steps};

use crate::ablation::{values, weights};
use crate::shared::{self, gpt2, largest, lstm, task};

fn whole() -> Probed {
    Probed::trained("x".into(), Arc::new(weights(|_, _| ())))
}

fn patched(probed: &Probed, text: &str) -> Probed {
    let replaced = Replaced::parse(&gpt2(), text).unwrap();
    let sites = || replaced.iter().map(|one| one.site);
    let (seed, network) = (Seed(1), probed.weights());
    let means = Outputs::means(network, &task(), seed, 16, sites()).unwrap();
    let donor = Outputs::donor(network, &task(), seed, sites()).unwrap();
    probed.replaced(&replaced, StandIns { means: Some(&means), donor: Some(&donor) }).unwrap()
}

#[test]
fn an_ablation_is_a_patch() {
    let whole = whole();
    let means = Outputs::of_parts(whole.weights(), &task(), Seed(1), 16).unwrap();
    let parts = [
        ("blocks.2.out", probe::Part::Layer(2)),
        ("blocks.1.attn.z.1", probe::Part::Head { layer: 1, head: 1 }),
    ];
    for (site, part) in parts {
        for with in [Replacement::Zero, Replacement::Mean] {
            let ablated = whole.ablated(&[Ablation { part, with }], Some(&means)).unwrap();
            let patched = patched(&whole, &format!("{with}:{site}"));
            assert_eq!(values(&patched), values(&ablated), "{with}:{site}");
            assert_eq!(patched.id(), ablated.id());
        }
    }
}

#[test]
fn tokens_of_one_kind_are_patched_alone() {
    let whole = whole();
    let of = |text: &str| values(&patched(&whole, text));
    // a y token is read by later tokens alone, and the first prediction has none before it
    for site in ["blocks.1.attn.z", "blocks.2.mlp.hidden", "blocks.1.resid_pre"] {
        let [x, y, both] = ["@x", "@y", ""].map(|role| of(&format!("donor:{site}{role}")));
        let plain = values(&whole);
        assert!(largest(&y, &plain) > 1e-4, "{site}@y");
        assert!(largest(&x, &y) > 1e-4 && largest(&x, &both) > 1e-4, "{site}: roles differ");
        assert_eq!(y.slice(ndarray::s![.., .., 0]), plain.slice(ndarray::s![.., .., 0]), "{site}@y");
    }
    assert_eq!(of("zero:blocks.1.attn.z@x+blocks.1.attn.z@y"), of("zero:blocks.1.attn.z"));
}

#[test]
fn a_donors_stream_is_its_prompt() {
    let whole = whole();
    let donor = task().sample(Seed(1), "probe/donor", 0, 1);
    let own = shared::all_layers(&whole, &donor);
    let found = values(&patched(&whole, "donor:blocks.1.resid_pre"));
    for prompt in 0..found.dim().1 {
        assert_eq!(found.slice(ndarray::s![.., prompt, ..]), own.slice(ndarray::s![.., 0, ..]));
    }
}

#[test]
fn answers_of_a_patched_network_are_what_its_trajectory_says() {
    let text = "zero:blocks.1.attn.z.0@y+mean:blocks.2.mlp.hidden@x+donor:blocks.3.resid_mid+blocks.1.out@x";
    let patched = patched(&whole(), text);
    assert_eq!(
        patched.id().to_string(),
        "x:patch=zero:blocks.1.attn.z.0@y+mean:blocks.2.mlp.hidden@x+donor:blocks.3.resid_mid+donor:blocks.1.out@x,\
         readout=trained"
    );
    let prompts = task().sample(Seed(3), "t", 0, 5);
    shared::answers_are_what_the_trajectory_says(&patched, &Steps::range(0, 3), &prompts, &[1, 4, 7], 1e-3);
}

#[test]
fn patches_that_cannot_be_are_refused_in_words() {
    let said = |text: &str| Replaced::parse(&gpt2(), text).unwrap_err().to_string();
    for text in
        ["blocks.1.out", "one:blocks.1.out", "zero:blocks.1.out@z", "zero:blocks.1.out+one:blocks.2.out"]
    {
        assert!(said(text).contains("accepted: zero:, mean: or donor:"), "{}", said(text));
    }
    let near = said("zero:blocks.2.attn.q");
    assert!(near.contains("did you mean blocks.2.attn.z?"), "{near}");
    assert!(near.contains("attn.z.0 to attn.z.1 [tokens, 8]"), "{near}");
    assert!(said("zero:blocks.4.out").contains("there is no such block; accepted: 1 to 3"));
    assert!(
        said("mean:blocks.1.attn.z.2").contains("there is no such head; accepted: 0 to 1, each [tokens, 8]")
    );
    let error = Replaced::parse(&lstm(), "zero:blocks.1.out").unwrap_err().to_string();
    assert!(error.contains("only a Transformer"), "{error}");
    // at the last block's y tokens no prediction would notice
    let one = |kind, tokens, with| [Replaced { with, site: Site { block: 3, kind }, tokens }];
    let refused =
        |replaced: &[Replaced]| whole().replaced(replaced, StandIns::default()).err().unwrap().to_string();
    let unseen = refused(&one(SiteKind::MlpHidden, Tokens::Y, Replacement::Zero));
    assert!(unseen.contains("blocks.3.mlp.hidden: a patch at the y tokens touches nothing"), "{unseen}");
    whole().replaced(&one(SiteKind::ResidPre, Tokens::Y, Replacement::Zero), StandIns::default()).unwrap();
    let missing = refused(&one(SiteKind::ResidMid, Tokens::All, Replacement::Mean));
    assert!(missing.contains("what stands in for blocks.3.resid_mid was not measured"), "{missing}");
}

/// Whole prompts, run with the patch, one place after the other.
#[test]
fn maps_are_what_whole_prompts_answer() {
    let task = task();
    let weights = weights(|_, _| ());
    let (prompts, donors) = Donor::Both.pairs(&task, Seed(4), 11);
    let (count, points) = (prompts.count(), prompts.points());
    let rows = 2 * points - 1;
    let run = |of: &Prompts, mode: Mode| {
        let mut runner = weights.network.runner(count, rows, mode).unwrap();
        let (all, features) = (tokens(of, weights.network.features()), weights.network.features());
        let read: Vec<f32> =
            all.chunks_exact(2 * points * features).flat_map(|p| p[..rows * features].to_vec()).collect();
        runner.set_tokens(&read).unwrap();
        runner.forward(weights.for_passes());
        runner
    };
    let answers = |runner: &Runner| -> Vec<f64> {
        runner.predictions().chunks_exact(points).map(|of| f64::from(of[points - 1])).collect()
    };
    let (base, donor) = (run(&prompts, Mode::Infer), run(&donors, Mode::Train));
    let places = [Place::Y, Place::Query, Place::Token(0), Place::Token(5)];
    let parts = [
        (Part::Stream, SiteKind::ResidPre),
        (Part::Attention, SiteKind::Z(None)),
        (Part::Mlp, SiteKind::MlpHidden),
    ];
    for (part, kind) in parts {
        let found = Patched::of(&weights, [&prompts, &donors], part, &places).unwrap();
        assert!(
            largest(&found.base, &answers(&base)) < 1e-6 && largest(&found.donor, &answers(&donor)) < 1e-6
        );
        for (layer, found) in found.patched.iter().enumerate() {
            for (place, found) in places.iter().zip(found) {
                let site = Site { block: layer + 1, kind };
                let (all, at) = (donor.activation(site).unwrap(), place.tokens(points - 1));
                let width = all.len() / (count * rows);
                let values = (0..count).flat_map(|b| at.iter().map(move |t| (b * rows + t) * width));
                let values: Vec<f32> = values.flat_map(|from| all[from..from + width].to_vec()).collect();
                let mut patched = run(&prompts, Mode::Infer);
                patched.patch(&[Patch::per_prompt(site, &at, values)]).unwrap();
                patched.forward(weights.for_passes());
                assert!(
                    largest(found, &answers(&patched)) < 1e-5,
                    "{part:?} at {place}, layer {}",
                    layer + 1
                );
            }
        }
    }
    let beyond = Patched::of(&weights, [&prompts, &donors], Part::Stream, &[Place::Token(rows)]);
    let said = beyond.unwrap_err().to_string();
    assert!(said.contains(&format!("there is no token {rows}; accepted: 0 to {}", rows - 1)), "{said}");
}

#[test]
fn recorded_patches_are_what_the_weights_answer() {
    let spec = TaskSpec { function: "linear".into(), inputs: "gaussian".into(), dim: 3, points: 11 };
    let network =
        Gpt2Config { features: 3, positions: 22, width: 16, layers: 3, heads: 2, ..Default::default() };
    let weights = shared::random(Network::Gpt2(network));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(RecordedPatches::FILE);
    RecordedPatches::of(&weights, &spec, &|_| ()).unwrap().write(&path).unwrap();
    let recorded = RecordedPatches::read(&path).unwrap();
    let task = spec.build().unwrap();
    let (prompts, donors) = Donor::Labels.pairs(&task, Seed(0), 16);
    let live = Patched::of(&weights, [&prompts, &donors], Part::Stream, &Place::ROLES).unwrap();
    let found = recorded.find([&prompts, &donors]).expect("the first of those that were asked");
    assert_eq!((&found.base, &found.donor), (&live.base, &live.donor));
    assert_eq!(found.patched, live.patched);
    assert!(recorded.find([&donors, &prompts]).is_none(), "other prompts");
    let (prompts, donors) = Donor::Labels.pairs(&task, Seed(1), 16);
    assert!(recorded.find([&prompts, &donors]).is_none(), "another seed");
}
