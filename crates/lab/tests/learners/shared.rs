//! Properties of any learner, and small networks to have them.

use engine::deviation::worst;
use engine::model::networks::{Gpt2Config, LstmConfig, Mode, Network};
use lab::networks::experiment::Experiment;
use lab::networks::{Weights, tokens};
use lab::{Learner, Prompts, Questions, Seed, Steps, Task};
use ndarray::{Array3, s};

/// Largest |a − b|; NaN where either is.
pub fn largest<'a>(a: impl IntoIterator<Item = &'a f64>, b: impl IntoIterator<Item = &'a f64>) -> f64 {
    worst(a.into_iter().zip(b).map(|(a, b)| (a - b).abs()))
}

/// Prompts whose labels from t on, and whose inputs after t, are others.
pub fn other_future(prompts: &Prompts, t: usize, (x, y): (f64, f64)) -> Prompts {
    let mut other = prompts.clone();
    other.ys.slice_mut(s![.., t..]).fill(y);
    other.xs.slice_mut(s![.., t + 1.., ..]).fill(x);
    other
}

/// What is predicted after t pairs depends on these pairs and the query alone. `future` is put in place of what comes after.
pub fn only_the_past_is_used(
    learner: &dyn Learner,
    steps: &Steps,
    prompts: &Prompts,
    future: (f64, f64),
    tolerance: f64,
) {
    let values = |prompts: &Prompts| learner.trajectory(prompts, steps).unwrap().values;
    let before = values(prompts);
    let points = prompts.points();
    for t in [0, 3, points - 2, points - 1] {
        let after = values(&other_future(prompts, t, future));
        let off = largest(after.slice(s![.., .., ..=t]), before.slice(s![.., .., ..=t]));
        assert!(off <= tolerance, "{} at t={t}: {off:e}", learner.id());
    }
}

/// A query that is the next input is answered as the trajectory predicts there.
pub fn answers_are_what_the_trajectory_says(
    learner: &dyn Learner,
    steps: &Steps,
    prompts: &Prompts,
    lengths: &[usize],
    tolerance: f64,
) {
    let trajectory = learner.trajectory(prompts, steps).unwrap().values;
    for &t in lengths {
        let queries = prompts.xs.slice(s![.., t..t + 1, ..]).to_owned();
        let questions = Questions { prompts: prompts.clone(), lengths: vec![t], queries };
        let answers = learner.answers(&questions, steps).unwrap();
        for ((s, b), v) in trajectory.slice(s![.., .., t]).indexed_iter() {
            let a = answers[[s, b, 0, 0]];
            let off = (a - v).abs();
            assert!(off <= tolerance * (1.0 + v.abs()), "{} step {s} t={t}: {a} {v}", learner.id());
        }
    }
}

/// The task of the small networks.
pub fn task() -> Task {
    Task::new("linear", "gaussian", 3, 8).unwrap()
}

/// A GPT-2 of three layers and two heads.
pub fn gpt2() -> Network {
    let (layers, heads) = (3, 2);
    Network::Gpt2(Gpt2Config { features: 3, positions: 20, width: 16, layers, heads, ..Default::default() })
}

/// An LSTM of two layers.
pub fn lstm() -> Network {
    Network::Lstm(LstmConfig { features: 3, width: 12, layers: 2 })
}

/// A network as it is before training.
pub fn random(network: Network) -> Weights {
    let params = network.layout().initial(&Seed(7));
    Weights::new(network, params)
}

/// Hidden states of prompts after every layer, and what the network's own read-out reads, `[b, position, width]` each.
pub fn states(weights: &Weights, prompts: &Prompts) -> Vec<Vec<f32>> {
    let network = &weights.network;
    let mut runner = network.runner(prompts.count(), 2 * prompts.points(), Mode::Infer).unwrap();
    runner.set_tokens(&tokens(prompts, network.features())).unwrap();
    runner.forward(weights.params());
    let hidden = (0..=network.layers()).map(|layer| runner.hidden(layer).to_vec());
    hidden.chain([runner.last().to_vec()]).collect()
}

/// A few steps of training on that task.
pub fn experiment(network: &str, steps: usize, seed: u64) -> Experiment {
    let text = format!(
        "name = \"x\"\n[task]\nfunction = \"linear\"\ninputs = \"gaussian\"\ndim = 3\npoints = 8\n[network]\n{network}\n\
         [training]\nsteps = {steps}\nbatch = 8\nrate = 1e-2\nseed = {seed}\n"
    );
    Experiment::parse(&text, "x.toml".as_ref()).unwrap()
}

/// Predictions `[s, b, n]` of all layers.
pub fn all_layers(learner: &dyn Learner, prompts: &Prompts) -> Array3<f64> {
    learner.trajectory(prompts, &Steps::range(0, learner.default_steps().last())).unwrap().values
}
