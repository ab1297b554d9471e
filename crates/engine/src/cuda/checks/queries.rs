//! Single queries after a shared prefix: predictions, hidden states and what is read out of them, against the CPU's query runner.
//!
//! What answers is a function of the case, so that the same comparison holds the CPU to whole prompts, in the tests below.

use std::sync::Arc;

use super::cases::{Case, tolerance};
use super::{Check, relative_distance};
use crate::cuda::lowering;
use crate::cuda::{
    CudaError, CudaQueryRunner, CudaRunner, Device, DeviceInfo, KernelSource, Precision, StateReader,
};
use crate::error::EngineError;
use crate::model::networks::{Gpt2Config, LstmConfig, Mode, Network};
use crate::model::ops::{AttentionKind, LayerNorm, Mask, Weighting};
use crate::model::parameters::{RandomSource, SplitMix};

type Result<T> = std::result::Result<T, CudaError>;

/// Prompts, and queries of each after some of its pairs.
#[derive(Debug, Clone)]
pub struct QueryCase {
    prompts: Case,
    queries: usize,
    pairs: Vec<usize>,
}

/// What was found after a number of pairs; states by layer, `[batch, queries, width]`.
struct Answers {
    hidden: Vec<Vec<f64>>,
    last: Vec<f64>,
    predictions: Vec<f64>,
    /// By reader.
    read: Vec<f64>,
}

/// Networks and shapes that between them reach every variant of the kernels.
pub fn query_cases() -> Vec<QueryCase> {
    let base =
        Gpt2Config { features: 5, positions: 40, width: 64, layers: 2, heads: 2, ..Default::default() };
    let weighted = |weighting| {
        let attention = AttentionKind { mask: Mask::Causal, weighting };
        Network::Gpt2(Gpt2Config { attention, ..base.clone() })
    };
    let sized = |heads, width, positions| {
        Network::Gpt2(Gpt2Config { heads, width, positions, layers: 1, ..base.clone() })
    };
    let lstm = |width, layers| Network::Lstm(LstmConfig { features: 5, width, layers });
    let paper = Network::Gpt2(Gpt2Config { layers: 3, ..Gpt2Config::default() });
    let case = |name, network, [batch, tokens, queries]: [usize; 3], pairs: &[usize]| QueryCase {
        prompts: Case { name, network, batch, tokens },
        queries,
        pairs: pairs.to_vec(),
    };
    vec![
        case("queries of a small network", weighted(Weighting::Softmax), [5, 22, 7], &[0, 1, 10, 11]),
        case("queries of ReLU attention", weighted(Weighting::Relu), [4, 34, 3], &[0, 1, 17]),
        case("queries of linear attention", weighted(Weighting::Linear), [4, 18, 18], &[0, 9]),
        case("one query, heads of 24", sized(3, 72, 40), [3, 38, 1], &[0, 1, 19]),
        case("queries of heads of 8", sized(8, 64, 40), [1, 2, 33], &[0, 1]),
        case("queries of a head of 136, long prompts", sized(1, 136, 202), [2, 202, 5], &[0, 50, 100]),
        case("queries of the paper's network", paper, [8, 82, 41], &[0, 1, 20, 41]),
        case("queries of an LSTM", lstm(64, 3), [5, 22, 7], &[0, 1, 11]),
        case("queries of a narrow LSTM", lstm(8, 2), [3, 6, 1], &[0, 3]),
    ]
}

impl QueryCase {
    /// What it exercises.
    pub fn name(&self) -> &'static str {
        self.prompts.name
    }

    fn tokens(&self) -> Vec<f32> {
        self.prompts.prompts(0).tokens
    }

    /// Made-up queries `[batch, queries, features]`.
    fn queries(&self) -> Vec<f32> {
        let random = SplitMix::new(11);
        let count = self.prompts.batch * self.queries * self.prompts.network.features();
        (0..count).map(|i| random.normal("queries", i as u64)).collect()
    }

    /// Weights and a constant, the same for every reader.
    fn affine(&self) -> Vec<f64> {
        let random = SplitMix::new(12);
        (0..=self.prompts.network.width()).map(|i| f64::from(random.normal("affine", i as u64))).collect()
    }

    /// Which states are read: one layer as it is and normalised, and what the read-out reads.
    fn readers<'a>(&self, affine: &'a [f64]) -> Vec<StateReader<'a>> {
        let last = self.prompts.network.layers();
        [(Some(0), false), (Some(last), true), (None, false)]
            .map(|(layer, normalised)| StateReader { layer, affine, normalised })
            .to_vec()
    }

    /// Kernels that it uses; none where the device does not offer the network.
    pub(super) fn kernels(&self, device: &DeviceInfo, precision: Precision) -> Vec<KernelSource> {
        let Case { network, batch, tokens, .. } = &self.prompts;
        let sources = || -> Result<Vec<KernelSource>> {
            let prefix = network.graph(*batch, *tokens, Mode::Infer)?;
            let queries = network.query_graph(&prefix, self.queries)?;
            let [mut all, more] = [
                lowering::sources(device, precision, &prefix)?,
                lowering::sources(device, precision, &queries)?,
            ];
            all.extend(more);
            Ok(all)
        };
        sources().unwrap_or_default()
    }
}

fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

/// What readers must find in states, `[readers, batch, queries]`, as plain formulas.
fn read(case: &QueryCase, hidden: &[Vec<f64>], last: &[f64]) -> Vec<f64> {
    let (affine, width) = (case.affine(), case.prompts.network.width());
    let of_row = |row: &[f64], normalised: bool| {
        let mean = row.iter().sum::<f64>() / width as f64;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
        let std = (variance + f64::from(LayerNorm::EPSILON)).sqrt();
        let value = |x: &f64| if normalised { (x - mean) / std } else { *x };
        affine[width] + row.iter().zip(&affine).map(|(x, a)| a * value(x)).sum::<f64>()
    };
    let readers = case.readers(&affine).into_iter();
    let states =
        readers.map(|reader| (reader.layer.map_or(last, |layer| &hidden[layer][..]), reader.normalised));
    states
        .flat_map(|(states, normalised)| states.chunks_exact(width).map(move |row| of_row(row, normalised)))
        .collect()
}

/// As the CPU answers.
fn on_cpu(case: &QueryCase) -> Result<Vec<Answers>> {
    let (Case { network, batch, tokens, .. }, params) = (&case.prompts, case.prompts.params());
    let mut prefix = network.runner(*batch, *tokens, Mode::Infer)?;
    prefix.set_tokens(&case.tokens())?;
    prefix.forward(&params);
    let mut runner = network.query_runner(&prefix, case.queries)?;
    let answers = case.pairs.iter().map(|&pairs| {
        runner.forward(&params, &prefix, pairs, &case.queries())?;
        let hidden: Vec<_> = (0..=network.layers()).map(|layer| doubles(runner.hidden(layer))).collect();
        let last = doubles(runner.last());
        let read = read(case, &hidden, &last);
        Ok(Answers { hidden, last, predictions: doubles(runner.predictions()), read })
    });
    answers.collect()
}

/// As a CUDA device answers.
fn on_device(device: &Arc<Device>, precision: Precision, case: &QueryCase) -> Result<Vec<Answers>> {
    let Case { network, batch, tokens, .. } = &case.prompts;
    let prefix = CudaRunner::new(device, network, precision, [*batch, *tokens], Mode::Infer)?;
    let mut runner = CudaQueryRunner::new(device, network, prefix, case.queries)?;
    runner.prefix().set_params(&case.prompts.params())?;
    runner.prefix().set_tokens(&case.tokens())?;
    runner.prefix().forward()?;
    runner.set_queries(&case.queries())?;
    let (affine, reads) = (case.affine(), precision != Precision::Bf16);
    if reads {
        runner.set_readers(&case.readers(&affine))?;
    }
    let mut answers = Vec::new();
    for &pairs in &case.pairs {
        runner.forward(pairs)?;
        let hidden = (0..=network.layers()).map(|layer| Ok(doubles(&runner.hidden(layer)?)));
        let (hidden, last) = (hidden.collect::<Result<Vec<_>>>()?, doubles(&runner.last()?));
        // Readers take float32 alone.
        let read = if reads { runner.read()? } else { read(case, &hidden, &last) };
        answers.push(Answers { hidden, last, predictions: doubles(&runner.predictions()?), read });
    }
    // What the CPU refuses is refused here.
    if runner.forward(tokens / 2 + 1).is_ok() {
        return Err(
            EngineError::Unsupported("queries after more pairs than there are, answered".into()).into()
        );
    }
    Ok(answers)
}

/// Queries on a CUDA device against the CPU's.
pub fn queries(device: &Arc<Device>, precision: Precision, case: &QueryCase) -> Result<Vec<Check>> {
    compare(case, tolerance(precision), |case| on_device(device, precision, case))
}

/// What `answer` finds against what the CPU finds, number by number.
fn compare(
    case: &QueryCase,
    tolerance: f64,
    answer: impl FnOnce(&QueryCase) -> Result<Vec<Answers>>,
) -> Result<Vec<Check>> {
    let (found, expected) = (answer(case)?, on_cpu(case)?);
    let mut checks = Vec::new();
    for ((found, expected), pairs) in found.iter().zip(&expected).zip(&case.pairs) {
        let mut check = |name: String, found: &[f64], expected: &[f64]| {
            let error = relative_distance(found, expected, 0.0);
            checks.push(Check { name: format!("{name} after {pairs} pairs"), error, tolerance });
        };
        for (layer, (found, expected)) in found.hidden.iter().zip(&expected.hidden).enumerate() {
            check(format!("hidden {layer}"), found, expected);
        }
        check("last".into(), &found.last, &expected.last);
        check("predictions".into(), &found.predictions, &expected.predictions);
        check("states read".into(), &found.read, &expected.read);
    }
    Ok(checks)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same answers from prompts that end with the query, one by one.
    fn as_whole_prompts(case: &QueryCase) -> Result<Vec<Answers>> {
        let (Case { network, batch, tokens, .. }, params) = (&case.prompts, case.prompts.params());
        let (features, width) = (network.features(), network.width());
        let (prompts, queries) = (case.tokens(), case.queries());
        let mut answers = Vec::new();
        for &pairs in &case.pairs {
            let mut runner = network.runner(1, 2 * pairs + 1, Mode::Infer)?;
            let mut found = Answers {
                hidden: vec![Vec::new(); network.layers() + 1],
                last: Vec::new(),
                predictions: Vec::new(),
                read: Vec::new(),
            };
            for (i, query) in queries.chunks_exact(features).enumerate() {
                let prompt = &prompts[i / case.queries * tokens * features..][..2 * pairs * features];
                runner.set_tokens(&[prompt, query].concat())?;
                runner.forward(&params);
                let end = |states: &[f32]| doubles(&states[2 * pairs * width..]);
                for (layer, hidden) in found.hidden.iter_mut().enumerate() {
                    hidden.extend(end(runner.hidden(layer)));
                }
                found.last.extend(end(runner.last()));
                found.predictions.push(f64::from(runner.predictions()[pairs]));
            }
            assert_eq!(found.predictions.len(), batch * case.queries);
            found.read = read(case, &found.hidden, &found.last);
            answers.push(found);
        }
        Ok(answers)
    }

    /// Whether whole prompts are few enough for a test.
    fn is_small(case: &QueryCase) -> bool {
        case.prompts.network.layout().len() * case.prompts.tokens < 10_000_000
    }

    #[test]
    fn whole_prompts_hold_every_comparison() {
        let cases: Vec<QueryCase> = query_cases().into_iter().filter(is_small).collect();
        assert!(cases.len() > 5);
        for case in cases {
            let checks = compare(&case, tolerance(Precision::Float32), as_whole_prompts).unwrap();
            assert_eq!(checks.len(), case.pairs.len() * (case.prompts.network.layers() + 4));
            let worst = super::super::worst(&checks).unwrap();
            assert!(worst.holds(), "{}: {}", case.name(), worst.shown());
        }
    }

    /// Queries that see each other, or another number of pairs, are found.
    #[test]
    fn a_wrong_number_of_pairs_fails() {
        let case = query_cases().remove(0);
        let shifted = |case: &QueryCase| {
            let mut answers = on_cpu(case)?;
            answers.rotate_left(1);
            Ok(answers)
        };
        let checks = compare(&case, tolerance(Precision::Float32), shifted).unwrap();
        assert!(
            checks.iter().filter(|check| !check.name.starts_with("hidden 0")).all(|check| !check.holds())
        );
    }
}
