//! Networks at shapes that between them reach every kernel, with made-up prompts and parameters.

use crate::cuda::Precision;
use crate::model::networks::{Gpt2Config, LstmConfig, Network};
use crate::model::ops::{Activation, AttentionKind, Mask, Weighting};
use crate::model::parameters::{RandomSource, SplitMix};
use crate::trainer::Batch;

/// A network at one shape, under a name.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it exercises.
    pub name: &'static str,
    /// The network.
    pub network: Network,
    /// Prompts.
    pub batch: usize,
    /// Tokens per prompt.
    pub tokens: usize,
}

/// Networks that between them reach every kernel and every variant of it.
pub fn cases() -> Vec<Case> {
    let base =
        Gpt2Config { features: 5, positions: 40, width: 64, layers: 2, heads: 2, ..Default::default() };
    let case = |name, network, batch, tokens| Case { name, network, batch, tokens };
    let gpt2 = |name, config, batch, tokens| case(name, Network::Gpt2(config), batch, tokens);
    let lstm = |name, [width, layers]: [usize; 2], batch, tokens| {
        case(name, Network::Lstm(LstmConfig { features: 5, width, layers }), batch, tokens)
    };
    let wide = Gpt2Config { heads: 1, width: 136, layers: 1, positions: 202, ..base.clone() };
    let variant =
        |mask, weighting| Gpt2Config { attention: AttentionKind { mask, weighting }, ..base.clone() };
    vec![
        gpt2("causal softmax", base.clone(), 5, 22),
        gpt2("one token", base.clone(), 3, 1),
        gpt2("small heads", Gpt2Config { heads: 8, ..base.clone() }, 4, 18),
        gpt2("one wide head", Gpt2Config { heads: 1, width: 256, ..base.clone() }, 2, 40),
        gpt2("full softmax", variant(Mask::Full, Weighting::Softmax), 4, 22),
        gpt2("causal ReLU attention", variant(Mask::Causal, Weighting::Relu), 4, 34),
        gpt2("full linear attention", variant(Mask::Full, Weighting::Linear), 4, 18),
        gpt2("ReLU activation", Gpt2Config { activation: Activation::Relu, ..base.clone() }, 4, 22),
        gpt2("long prompts", Gpt2Config { positions: 202, ..base.clone() }, 2, 202),
        // The last accumulators of a head reach beyond it.
        gpt2("a head of 96", Gpt2Config { heads: 1, width: 96, ..base.clone() }, 2, 22),
        // More than shared memory holds in training, on any device: fragments come from global memory.
        gpt2("a head of 136 over long prompts", wide, 2, 202),
        gpt2("the paper's network", Gpt2Config { layers: 3, ..Gpt2Config::default() }, 8, 82),
        // So many parameters that they move part by part, and little else to do.
        gpt2("short prompts", Gpt2Config { layers: 3, ..Gpt2Config::default() }, 2, 8),
        // Enough rows that every block of the MLP's kernels on Hopper has several tiles.
        gpt2("a large batch", Gpt2Config { layers: 1, ..Gpt2Config::default() }, 120, 82),
        lstm("LSTM", [64, 3], 5, 22),
        lstm("narrow LSTM", [8, 2], 3, 7),
        lstm("LSTM of one token", [16, 3], 2, 1),
        lstm("LSTM deeper than long", [40, 9], 70, 4),
        lstm("the paper's LSTM", [256, 2], 64, 82),
    ]
}

impl Case {
    /// A case by its name.
    pub(super) fn named(name: &str) -> Case {
        cases().into_iter().find(|case| case.name == name).expect("a case of this name")
    }

    /// Made-up prompts for a step.
    pub(super) fn prompts(&self, step: usize) -> Batch {
        let (random, features) = (SplitMix::new(7 + step as u64), self.network.features());
        let tokens = (0..self.batch * self.tokens * features).map(|i| random.normal("tokens", i as u64));
        let targets = (0..self.batch * self.tokens.div_ceil(2)).map(|i| random.normal("targets", i as u64));
        Batch { tokens: tokens.collect(), targets: targets.collect() }
    }

    /// Parameters far enough from the start of training that every gradient is of some size.
    pub(super) fn params(&self) -> Vec<f32> {
        let mut params = self.network.layout().initial(&SplitMix::new(3));
        let random = SplitMix::new(4);
        params.iter_mut().enumerate().for_each(|(i, p)| *p += 0.05 * random.normal("shake", i as u64));
        params
    }

    /// How far a value or a gradient may be from the expected one, relative to its size.
    pub(super) fn tolerance(&self, precision: Precision) -> f64 {
        // ReLU jumps at 0, so that values rounded differently may take different sides.
        let relu = matches!(&self.network, Network::Gpt2(config) if config.activation == Activation::Relu);
        tolerance(precision) * if relu { 8.0 } else { 1.0 }
    }
}

/// How far a value or a gradient may be from the expected one, relative to its size.
pub fn tolerance(precision: Precision) -> f64 {
    match precision {
        Precision::Float32 => 2e-5,
        Precision::Tf32 => 5e-3,
        Precision::Bf16 => 4e-2,
    }
}
