//! Networks as learners: the layout of a prompt, and the properties of every learner.

use lab::networks::train::Trainer;
use lab::networks::{Weights, tokens};
use lab::probe::{Probed, ReadPoint};
use lab::{Learner, Seed, Steps, Task};
use ndarray::s;

use crate::shared::{self, experiment, largest, other_future, task};

const GPT2: &str = "kind = \"gpt2\"\nlayers = 3\nheads = 2\nwidth = 16\npositions = 20";
const LSTM: &str = "kind = \"lstm\"\nlayers = 2\nwidth = 12";

/// A network after a few steps of training, probed on few prompts: no good, but nothing is symmetric any more.
fn probed(network: &str) -> Probed {
    Probed::fit("x".into(), trained(network), &task(), Seed(1), 512).unwrap()
}

fn trained(network: &str) -> Weights {
    let mut trainer = Trainer::new(&experiment(network, 20, 0)).unwrap();
    for _ in 0..20 {
        trainer.step().unwrap();
    }
    let network = trainer.network().clone();
    Weights::new(network, trainer.params().unwrap().into_owned())
}

#[test]
fn a_networks_own_read_out_predicts_what_the_network_predicts() {
    let prompts = task().sample(Seed(5), "t", 0, 70); // more than one chunk
    for network in [GPT2, LSTM] {
        let expected = trained(network).predictions(&prompts).unwrap();
        let own = Probed::trained_on(ReadPoint::Raw, "x".into(), trained(network).into());
        let last = own.default_steps().last();
        let found = own.trajectory(&prompts, &own.default_steps()).unwrap().values;
        let worst = |layer: u64| largest(found.index_axis(ndarray::Axis(0), layer as usize - 1), &expected);
        assert!(worst(last) < 1e-4, "{network}: {}", worst(last));
        assert!(worst(1) > 1e-2, "{network}: the first layer says something else, but {}", worst(1));
        let message = own.trajectory(&prompts, &Steps::single(last + 1)).unwrap_err().to_string();
        assert!(message.contains(&format!("layers 0 to {last}")), "{message}");
    }
}

/// F1: the prompt is x₁, (y₁,0,…,0), x₂, …, and inputs of fewer dimensions are padded.
#[test]
fn prompts_become_interleaved_tokens() {
    let prompts = Task::new("linear", "gaussian", 2, 3).unwrap().sample(Seed(1), "t", 0, 2);
    let tokens = tokens(&prompts, 4);
    assert_eq!(tokens.len(), 2 * 6 * 4);
    for b in 0..2 {
        for t in 0..3 {
            let at = |token: usize| &tokens[(b * 6 + token) * 4..(b * 6 + token + 1) * 4];
            let (x, y) = (prompts.xs.slice(s![b, t, ..]), prompts.ys[[b, t]] as f32);
            assert_eq!(at(2 * t), [x[0] as f32, x[1] as f32, 0.0, 0.0]);
            assert_eq!(at(2 * t + 1), [y, 0.0, 0.0, 0.0]);
        }
    }
}

#[test]
fn networks_use_the_past_and_only_the_past() {
    let prompts = task().sample(Seed(2), "t", 0, 5);
    for network in [GPT2, LSTM] {
        let probed = probed(network);
        let steps = probed.default_steps();
        shared::only_the_past_is_used(&probed, &steps, &prompts, (-7.0, 9.0), 0.0);
        let before = probed.trajectory(&prompts, &steps).unwrap().values;
        for t in [0, 3] {
            let after = probed.trajectory(&other_future(&prompts, t, (-7.0, 9.0)), &steps).unwrap().values;
            assert_ne!(
                after.slice(s![.., .., t + 1..]),
                before.slice(s![.., .., t + 1..]),
                "{network} t={t}"
            );
        }
    }
}

#[test]
fn answers_are_what_the_trajectory_says() {
    let prompts = task().sample(Seed(3), "t", 0, 5);
    for network in [GPT2, LSTM] {
        let probed = probed(network);
        let steps = Steps::range(0, probed.default_steps().last());
        shared::answers_are_what_the_trajectory_says(&probed, &steps, &prompts, &[1, 4, 7], 1e-4);
    }
}

#[test]
fn batches_change_no_prediction_and_layers_are_checked() {
    let prompts = task().sample(Seed(4), "t", 0, 70); // more than one chunk
    let probed = probed(GPT2);
    let steps = Steps::single(2);
    let all = probed.trajectory(&prompts, &steps).unwrap().values;
    let some = probed.trajectory(&prompts.head(3, 8), &steps).unwrap().values;
    let worst = largest(&some, all.slice(s![.., ..3, ..]));
    assert!(worst < 1e-5, "{worst}");
    let message = probed.trajectory(&prompts, &Steps::single(4)).unwrap_err().to_string();
    assert!(message.contains("layers 0 to 3"), "{message}");
}

#[test]
fn read_outs_are_least_squares_optimal() {
    // On the prompts it was fitted to, no read-out can be worse than predicting zero, and the last layer's fitted
    // read-out no worse than the trained one.
    let task = task();
    let probed = probed(GPT2);
    let prompts = task.sample(Seed(1), "probe", 0, 512);
    let found = probed.trajectory(&prompts, &Steps::range(0, 3)).unwrap();
    for s in 0..4 {
        let loss = found.errors(&prompts, s).iter().map(|e| e * e).sum::<f64>();
        let zero = prompts.ys.iter().map(|y| y * y).sum::<f64>();
        assert!(loss <= zero * (1.0 + 1e-9), "layer {s}: {loss} {zero}");
    }
}
