//! Networks over tokens: they know nothing of prompts, only `[batch, tokens, features]` in and one number
//! per x token out.

mod gpt2;
mod lstm;

pub use crate::model::plan::{Mode, Scope};
pub use gpt2::Gpt2Config;
pub use lstm::LstmConfig;

use crate::error::EngineError;
use crate::model::graph::Graph;
use crate::model::ops::Mask;
use crate::model::optim::muon::MuonMatrix;
use crate::model::parameters::{Init, Param, ParamLayout, ParamSpec};

/// A network to be built at any shape.
#[derive(Debug, Clone, PartialEq)]
pub enum Network {
    /// A Transformer.
    Gpt2(Gpt2Config),
    /// A stack of LSTM layers.
    Lstm(LstmConfig),
}

impl Network {
    /// Names, shapes and initial distributions of all parameters, in the order of the flat buffer.
    pub fn params(&self) -> Vec<ParamSpec> {
        match self {
            Network::Gpt2(config) => config.params(),
            Network::Lstm(config) => config.params(),
        }
    }

    /// The layout of the flat parameter buffer.
    pub fn layout(&self) -> ParamLayout {
        ParamLayout::new(self.params())
    }

    /// The weight matrices inside the layers, which Muon may move, in the order of the flat buffer.
    pub fn muon_matrices(&self) -> Vec<MuonMatrix> {
        let layout = self.layout();
        let inside = |name: &str| match self {
            Network::Gpt2(_) => name.starts_with("h."),
            Network::Lstm(_) => name.starts_with("lstm."),
        };
        let matrix = |(spec, place): (&ParamSpec, Param)| {
            let [rows, columns] = spec.shape[..] else { return None };
            // Queries, keys and values lie side by side; the four gates one above the other.
            let across = if spec.name.ends_with("c_attn.weight") { 3 } else { 1 };
            let down = if matches!(self, Network::Lstm(_)) { 4 } else { 1 };
            inside(&spec.name).then_some(MuonMatrix { place, rows, columns, across, down })
        };
        layout.iter().filter_map(matrix).collect()
    }

    /// Number of layers.
    pub fn layers(&self) -> usize {
        match self {
            Network::Gpt2(config) => config.layers,
            Network::Lstm(config) => config.layers,
        }
    }

    /// Width of a hidden state.
    pub fn width(&self) -> usize {
        match self {
            Network::Gpt2(config) => config.width,
            Network::Lstm(config) => config.width,
        }
    }

    /// Features of a token.
    pub fn features(&self) -> usize {
        match self {
            Network::Gpt2(config) => config.features,
            Network::Lstm(config) => config.features,
        }
    }

    /// Plans the network for `batch` prompts of `tokens` tokens.
    pub fn graph(&self, batch: usize, tokens: usize, mode: Mode) -> Result<Graph, EngineError> {
        self.scoped((batch, tokens), mode, Scope::Everything)
    }

    /// As [`Network::graph`] for prompts of `points` points, but with only what predictions depend on
    /// ([`Scope::Predictions`]): not the last label, which no prediction sees, and not the last layer of a Transformer at
    /// the other labels.
    pub fn prediction_graph(&self, batch: usize, points: usize, mode: Mode) -> Result<Graph, EngineError> {
        let sees_all = matches!(self, Network::Gpt2(config) if config.attention.mask == Mask::Full);
        let unread = if sees_all { 0 } else { 1 };
        let tokens = (2 * points).saturating_sub(unread);
        let graph = self.scoped((batch, tokens), mode, Scope::Predictions)?;
        Ok(Graph { given: 2 * points, ..graph })
    }

    fn scoped(
        &self,
        (batch, tokens): (usize, usize),
        mode: Mode,
        scope: Scope,
    ) -> Result<Graph, EngineError> {
        positive("batch", batch)?;
        positive("tokens", tokens)?;
        match self {
            Network::Gpt2(config) => config.graph(batch, tokens, mode, scope),
            Network::Lstm(config) => config.graph(batch, tokens, mode),
        }
    }

    /// Plans `queries` single tokens per prompt after prefixes that `prefix` is the graph of.
    pub fn query_graph(&self, prefix: &Graph, queries: usize) -> Result<Graph, EngineError> {
        positive("queries", queries)?;
        match self {
            Network::Gpt2(config) => config.query_graph(prefix, queries),
            Network::Lstm(config) => config.query_graph(prefix, queries),
        }
    }
}

/// Refuses 0.
fn positive(field: &'static str, value: usize) -> Result<(), EngineError> {
    if value > 0 {
        return Ok(());
    }
    Err(EngineError::Config { field, value, rule: "it must be at least 1".into() })
}

/// PyTorch's default for `nn.Linear`: weight `[outer, inner]` and bias uniform on ±1/√inner.
fn torch_linear(name: &str, inner: usize, outer: usize) -> [ParamSpec; 2] {
    let init = Init::Uniform { bound: 1.0 / (inner as f32).sqrt() };
    [
        ParamSpec::new(format!("{name}.weight"), &[outer, inner], init),
        ParamSpec::new(format!("{name}.bias"), &[outer], init),
    ]
}
