//! That layers read on a CUDA device, of prompts and of queries, are those read on the cores.

use std::sync::Arc;

use engine::cuda::checks::{Check, relative_distance, tolerance};
use engine::cuda::{self, Precision};
use engine::model::networks::{Gpt2Config, LstmConfig, Network};
use engine::model::parameters::{RandomSource, SplitMix};

use super::{Ablation, Probed, ReadOut, ReadPoint};
use crate::data::prompts::Task;
use crate::data::seed::Seed;
use crate::error::Result;
use crate::learners::steps::Steps;
use crate::networks::Weights;

/// More prompts than run together, at lengths and numbers of queries that divide nothing.
const PROMPTS: usize = 70;
const QUERIES: usize = 207;
const POINTS: usize = 9;
const DIM: usize = 5;

/// Layers of a Transformer, of the same with parts ablated, and of an LSTM, under several read-outs.
pub fn layers(device: &Arc<cuda::Device>, precision: Precision) -> Result<Vec<Check>> {
    let task = Task::new("linear", "gaussian", DIM, POINTS)?;
    let mut checks = Vec::new();
    for (name, network) in networks() {
        let probed = with_read_outs(name, network);
        let steps = Steps::range(0, probed.layers() as u64);
        let prompts = task.sample(Seed(1), "checks", 0, 3 * PROMPTS);
        let mut check = |what: &str, found: &[f64], expected: &[f64]| {
            let error = relative_distance(found, expected, 0.0);
            checks.push(Check { name: format!("{what} of {name}"), error, tolerance: tolerance(precision) });
        };
        let found = probed.trajectory_on(device, precision, &prompts, &steps)?;
        let expected = probed.trajectory_on_cores(&prompts, &steps)?;
        check("layers", &flat(found), &flat(expected));
        let questions = task.questions(Seed(2), "checks", 0, PROMPTS, vec![1, 4, POINTS], QUERIES);
        let found = probed.answers_on(device, precision, &questions, &steps)?;
        let expected = probed.answers_on_cores(&questions, &steps)?;
        check("answers", &flat(found), &flat(expected));
        if matches!(probed.weights.network, Network::Gpt2(_)) {
            let ablated = probed.ablated(&Ablation::parse("ablate", "zero:1")?, None)?;
            let found = ablated.trajectory_on(device, precision, &prompts, &steps)?;
            let expected = ablated.trajectory_on_cores(&prompts, &steps)?;
            check("ablated layers", &flat(found), &flat(expected));
        }
    }
    Ok(checks)
}

fn flat<D: ndarray::Dimension>(values: ndarray::Array<f64, D>) -> Vec<f64> {
    values.into_iter().collect()
}

fn networks() -> [(&'static str, Network); 2] {
    let gpt2 =
        Gpt2Config { features: DIM, positions: 40, width: 64, layers: 3, heads: 2, ..Default::default() };
    let lstm = LstmConfig { features: DIM, width: 64, layers: 2 };
    [("a Transformer", Network::Gpt2(gpt2)), ("an LSTM", Network::Lstm(lstm))]
}

/// Made-up weights, larger than those at the start of training, and a read-out of every kind.
fn with_read_outs(name: &str, network: Network) -> Probed {
    let random = SplitMix::new(5);
    let mut params = network.layout().initial(&random);
    params.iter_mut().enumerate().for_each(|(i, p)| *p += 0.05 * random.normal("shake", i as u64));
    let (layers, width) = (network.layers(), network.width());
    let read_out = |layer: usize| {
        let affine = (0..=width).map(|i| f64::from(random.normal("read-outs", (layer * 1000 + i) as u64)));
        let point = match layer {
            _ if layer == layers => ReadPoint::Final,
            1 => ReadPoint::Normalised,
            _ => ReadPoint::Raw,
        };
        ReadOut::new(affine.collect(), point)
    };
    let weights = Arc::new(Weights::new(network, params));
    Probed::new(name.into(), weights, (0..=layers).map(read_out).collect(), None)
}
