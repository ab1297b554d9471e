//! Ablations: layers and heads of a network replaced by zero or by their mean.

use std::sync::Arc;

use engine::model::hooks::Values;
use lab::networks::Weights;
use lab::probe::{self, Ablation, Options, Outputs, Part, Probed, Replacement};
use lab::{Learner, Questions, Seed, Steps};
use ndarray::{Array3, s};

use crate::shared::{self, all_layers, gpt2, largest, lstm, random, states, task};

const LAYERS: usize = 3;
const HEADS: usize = 2;

/// Random weights, some of which `edit` sees by name.
pub fn weights(edit: impl Fn(&str, &mut [f32])) -> Weights {
    let network = gpt2();
    let layout = network.layout();
    let mut params = layout.initial(&Seed(7));
    params.iter_mut().for_each(|p| *p *= 5.0); // far enough from the start that every part matters
    for (spec, place) in layout.iter() {
        edit(&spec.name, place.of_mut(&mut params));
    }
    Weights::new(network, params)
}

/// Read-outs are fitted to the network as it is, once; only the body differs below.
fn probed(weights: Weights) -> Probed {
    let options = Options { prompts: Some(64), held_out: 64, ..Options::default() };
    Probed::fit_with("x".into(), Arc::new(weights), &task(), Seed(1), &options, &|_| ()).unwrap()
}

pub fn values(probed: &Probed) -> Array3<f64> {
    all_layers(probed, &task().sample(Seed(2), "t", 0, 11))
}

fn without(probed: &Probed, parts: impl IntoIterator<Item = Part>) -> Probed {
    let ablations: Vec<Ablation> =
        parts.into_iter().map(|part| Ablation { part, with: Replacement::Zero }).collect();
    probed.ablated(&ablations, None).unwrap()
}

#[test]
fn skipping_a_layer_that_adds_nothing_changes_nothing() {
    let silent = |name: &str, values: &mut [f32]| {
        if name.starts_with("h.1.") && name.contains("c_proj") {
            values.fill(0.0);
        }
    };
    let whole = probed(weights(silent));
    assert_eq!(values(&without(&whole, [Part::Layer(2)])), values(&whole));
    let (other, whole) = (values(&without(&whole, [Part::Layer(1)])), values(&whole));
    assert!(largest(other.slice(s![1.., .., ..]), whole.slice(s![1.., .., ..])) > 1e-3);
}

#[test]
fn without_all_layers_the_read_in_is_left() {
    let network = weights(|_, _| ());
    let trained = Probed::trained("x".into(), Arc::new(network));
    let nothing = without(&trained, (1..=LAYERS).map(Part::Layer));
    let found = values(&nothing);
    for layer in 0..=LAYERS {
        assert_eq!(found.slice(s![layer, .., ..]), found.slice(s![0, .., ..]), "layer {layer}");
    }
    assert_eq!(found.slice(s![0, .., ..]), values(&trained).slice(s![0, .., ..]));
    assert_eq!(nothing.id().to_string(), "x:ablate=zero:1+zero:2+zero:3,readout=trained");
}

#[test]
fn silencing_all_heads_of_a_layer_is_a_layer_without_attention() {
    let network = || weights(|_, _| ());
    let heads = (0..HEADS).map(|head| Part::Head { layer: 2, head });
    let silenced = values(&without(&Probed::trained("x".into(), Arc::new(network())), heads));
    let deaf = weights(|name, values| {
        if name == "h.1.attn.c_proj.weight" {
            values.fill(0.0);
        }
    });
    let deaf = values(&Probed::trained("x".into(), Arc::new(deaf)));
    assert!(largest(&silenced, &deaf) < 1e-5);
    assert!(largest(&silenced, &values(&Probed::trained("x".into(), Arc::new(network())))) > 1e-3);
}

#[test]
fn means_are_those_of_the_prompts() {
    let whole = Probed::trained("x".into(), Arc::new(weights(|_, _| ())));
    let one = task().sample(Seed(1), "probe/means", 0, 8);
    let means = Outputs::of_parts(whole.weights(), &task(), Seed(1), 8).unwrap();
    let parts = [Part::Layer(2), Part::Head { layer: 1, head: 1 }];
    for part in parts {
        let ablated = whole.ablated(&[Ablation { part, with: Replacement::Mean }], Some(&means)).unwrap();
        let off = largest(&all_layers(&ablated, &one), &all_layers(&whole, &one));
        assert!(off > 1e-4, "{part:?} says the same to all");
    }
    // The mean of what a layer adds, taken by hand.
    let hidden = states(whole.weights(), &one);
    let (before, after) = (&hidden[1], &hidden[2]);
    let ablated =
        whole.ablated(&[Ablation { part: Part::Layer(2), with: Replacement::Mean }], Some(&means)).unwrap();
    let by_hand = |position: usize, e: usize| {
        let at = |b: usize| (b * 16 + position) * 16 + e;
        (0..8).map(|b| f64::from(after[at(b)]) - f64::from(before[at(b)])).sum::<f64>() / 8.0
    };
    let Values::PerPosition(output) = &ablated.patches()[0].values else { panic!("a mean") };
    for position in [0, 5, 15] {
        for e in 0..16 {
            assert!((f64::from(output[position * 16 + e]) - by_hand(position, e)).abs() < 1e-5);
        }
    }
}

#[test]
fn answers_of_an_ablated_network_are_what_its_trajectory_says() {
    let whole = probed(weights(|_, _| ()));
    let means = Outputs::of_parts(whole.weights(), &task(), Seed(1), 64).unwrap();
    let ablations = [
        Ablation { part: Part::Layer(1), with: Replacement::Mean },
        Ablation { part: Part::Head { layer: 2, head: 0 }, with: Replacement::Zero },
        Ablation { part: Part::Head { layer: 3, head: 1 }, with: Replacement::Mean },
    ];
    let ablated = whole.ablated(&ablations, Some(&means)).unwrap();
    assert_eq!(ablated.id().to_string(), "x:ablate=mean:1+zero:2.0+mean:3.1");
    let prompts = task().sample(Seed(3), "t", 0, 5);
    let steps = Steps::range(0, LAYERS as u64);
    shared::answers_are_what_the_trajectory_says(&ablated, &steps, &prompts, &[1, 4, 7], 1e-3);
    // A query past the last position that has a mean is an error, not a guess.
    let questions = Questions::reask(prompts, 8);
    assert!(ablated.answers(&questions, &steps).unwrap_err().to_string().contains("16 positions"));
}

#[test]
fn parts_that_do_not_exist_are_refused() {
    let whole = Probed::trained("x".into(), Arc::new(weights(|_, _| ())));
    let refused = |part| {
        let ablations = [Ablation { part, with: Replacement::Zero }];
        whole.ablated(&ablations, None).err().unwrap().to_string()
    };
    assert!(refused(Part::Layer(0)).contains("accepted: 1 to 3"));
    assert!(refused(Part::Layer(4)).contains("accepted: 1 to 3"));
    assert!(refused(Part::Head { layer: 1, head: 2 }).contains("accepted: 0 to 1"));
    let lstm = Probed::trained("x".into(), Arc::new(random(lstm())));
    let ablation = Ablation { part: Part::Layer(1), with: Replacement::Zero };
    assert!(lstm.ablated(&[ablation], None).err().unwrap().to_string().contains("Transformer"));
    let bad = [("ablate", "7"), ("ablate", "one:7"), ("ablate", "zero:7."), ("ablate", "mean:1+")];
    let older = [("skip", "x"), ("skip", "1.2"), ("head", "3"), ("silence", "1.+2"), ("skip", "zero:1")];
    for (setting, value) in bad.into_iter().chain(older) {
        let message = Ablation::parse(setting, value).unwrap_err().to_string();
        assert!(message.contains("accepted"), "{message}");
    }
    let message = probe::build("none,skipp=1", None, &|_| ()).err().unwrap().to_string();
    assert!(message.contains("did you mean skip"), "{message}");
}

#[test]
fn older_spellings_mean_the_same() {
    let texts = |setting: &str, value: &str| -> Vec<String> {
        Ablation::parse(setting, value).unwrap().iter().map(ToString::to_string).collect()
    };
    assert_eq!(texts("ablate", "zero:7.3+8+mean:1"), ["zero:7.3", "zero:8", "mean:1"]);
    assert_eq!(texts("skip", "7+8"), texts("ablate", "zero:7+8"));
    assert_eq!(texts("mean", "7"), texts("ablate", "mean:7"));
    assert_eq!(texts("silence", "7.0+7.1"), texts("ablate", "zero:7.0+7.1"));
    assert_eq!(texts("head", "7.3"), texts("ablate", "mean:7.3"));
}
