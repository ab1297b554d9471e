//! Networks over tokens: they know nothing of prompts, only `[batch, tokens, features]` in and one number
//! per x token out.

mod gpt2;
mod lstm;

pub use crate::model::plan::{Mode, Scope};
pub use gpt2::Gpt2Config;
pub use lstm::LstmConfig;

use crate::error::EngineError;
use crate::model::graph::{BlockVars, Graph, LayerCache};
use crate::model::ops::{MeanSquare, ReadOut};
use crate::model::optim::muon::MuonMatrix;
use crate::model::parameters::{Init, Param, ParamLayout, ParamSpec};
use crate::model::plan::{PlanBuilder, Var};

/// A network to be built at any shape.
#[derive(Debug, Clone, PartialEq)]
pub enum Network {
    /// A Transformer.
    Gpt2(Gpt2Config),
    /// A stack of LSTM layers.
    Lstm(LstmConfig),
}

/// What an architecture must say of itself.
trait Architecture {
    /// Names, shapes and initial distributions of all parameters, in the order of the flat buffer.
    fn params(&self) -> Vec<ParamSpec>;

    /// `[features of a token, width of a hidden state, layers]`
    fn sizes(&self) -> [usize; 3];

    /// The longest prompt it can read, in tokens.
    fn longest(&self) -> usize;

    /// Whether a token sees those after it.
    fn sees_later_tokens(&self) -> bool;

    /// For a weight matrix inside the layers, how many matrices it has side by side and one above the other; `None` for
    /// those of read-in, read-out and positions.
    fn stacked(&self, name: &str) -> Option<[usize; 2]>;

    /// Plans the network for `[batch, tokens]`.
    fn graph(&self, shape: [usize; 2], mode: Mode, scope: Scope) -> Result<Graph, EngineError>;

    /// Plans queries after a prefix.
    fn query_graph(&self, prefix: &Graph, queries: usize) -> Result<Graph, EngineError>;

    /// Plans the last tokens of prompts.
    fn suffix_graph(&self, _prefix: &Graph, _tokens: usize) -> Result<Graph, EngineError> {
        Err(EngineError::Unsupported(
            "only a Transformer has blocks with named activations, and computes some tokens without those before".into(),
        ))
    }
}

impl Network {
    fn architecture(&self) -> &dyn Architecture {
        match self {
            Network::Gpt2(config) => config,
            Network::Lstm(config) => config,
        }
    }

    /// Names, shapes and initial distributions of all parameters, in the order of the flat buffer.
    pub fn params(&self) -> Vec<ParamSpec> {
        self.architecture().params()
    }

    /// The layout of the flat parameter buffer.
    pub fn layout(&self) -> ParamLayout {
        ParamLayout::new(self.params())
    }

    /// The weight matrices inside the layers, which Muon may move, in the order of the flat buffer.
    pub fn muon_matrices(&self) -> Vec<MuonMatrix> {
        let matrix = |(spec, place): (&ParamSpec, Param)| {
            let [rows, columns] = spec.shape[..] else { return None };
            let [across, down] = self.architecture().stacked(&spec.name)?;
            Some(MuonMatrix { place, rows, columns, across, down })
        };
        self.layout().iter().filter_map(matrix).collect()
    }

    /// Features of a token.
    pub fn features(&self) -> usize {
        self.architecture().sizes()[0]
    }

    /// Width of a hidden state.
    pub fn width(&self) -> usize {
        self.architecture().sizes()[1]
    }

    /// Number of layers.
    pub fn layers(&self) -> usize {
        self.architecture().sizes()[2]
    }

    /// Plans the network for `batch` prompts of `tokens` tokens.
    pub fn graph(&self, batch: usize, tokens: usize, mode: Mode) -> Result<Graph, EngineError> {
        self.scoped([batch, tokens], mode, Scope::Everything)
    }

    /// As [`Network::graph`] for prompts of `points` points, but with only what predictions depend on
    /// ([`Scope::Predictions`]): not the last label, which no prediction sees, and not the last layer of a Transformer at
    /// the other labels.
    pub fn prediction_graph(&self, batch: usize, points: usize, mode: Mode) -> Result<Graph, EngineError> {
        let unread = if self.architecture().sees_later_tokens() { 0 } else { 1 };
        let tokens = (2 * points).saturating_sub(unread);
        let graph = self.scoped([batch, tokens], mode, Scope::Predictions)?;
        Ok(Graph { given: 2 * points, ..graph })
    }

    fn scoped(&self, [batch, tokens]: [usize; 2], mode: Mode, scope: Scope) -> Result<Graph, EngineError> {
        positive("batch", batch)?;
        positive("tokens", tokens)?;
        self.architecture().graph([batch, tokens], mode, scope)
    }

    /// Plans `queries` single tokens per prompt after prefixes that `prefix` is the graph of.
    pub fn query_graph(&self, prefix: &Graph, queries: usize) -> Result<Graph, EngineError> {
        positive("queries", queries)?;
        self.architecture().query_graph(prefix, queries)
    }

    /// Plans the last `tokens` tokens of prompts that `prefix` is the graph of, to be run from a block on. A prediction stands at every
    /// token.
    pub fn suffix_graph(&self, prefix: &Graph, tokens: usize) -> Result<Graph, EngineError> {
        let most = prefix.tokens;
        if !(1..=most).contains(&tokens) {
            return Err(EngineError::Unsupported(format!("the last {tokens} tokens; accepted: 1 to {most}")));
        }
        if self.sees_later_tokens() && tokens < most {
            return Err(EngineError::Unsupported(format!(
                "the last {tokens} tokens, but those before see them; accepted: all {most}"
            )));
        }
        self.architecture().suffix_graph(prefix, tokens)
    }

    /// Whether a token sees those after it.
    pub fn sees_later_tokens(&self) -> bool {
        self.architecture().sees_later_tokens()
    }
}

/// The values of a network between read-in and loss, for [`finish`].
struct Trunk {
    input: Var,
    hidden: Vec<Var>,
    blocks: Vec<BlockVars>,
    caches: Vec<LayerCache>,
    /// What the read-out reads, at so many tokens of each prompt.
    last: (Var, usize),
    /// Tokens of these from one prediction to the next.
    stride: usize,
}

/// Read-out, and in training the loss: the same for every architecture.
fn finish(
    mut plan: PlanBuilder,
    network: &impl Architecture,
    [batch, tokens]: [usize; 2],
    trunk: Trunk,
) -> Graph {
    let ([features, width, _], layout, mode) =
        (network.sizes(), ParamLayout::new(network.params()), plan.mode());
    let Trunk { input, hidden, blocks, caches, last: (last, left), stride } = trunk;
    let pair = weight_and_bias(&layout, "read_out");
    let predictions = ReadOut::add(&mut plan, last, pair, [batch, left, width], stride);
    let targets = (mode == Mode::Train).then(|| plan.input(batch * tokens.div_ceil(2), false));
    let loss = targets.map(|targets| MeanSquare::add(&mut plan, predictions, targets));
    Graph {
        plan: plan.finish(loss),
        mode,
        batch,
        tokens,
        given: tokens,
        longest: network.longest(),
        features,
        params: layout.len(),
        input,
        targets,
        hidden,
        blocks,
        last,
        predictions,
        loss,
        caches,
    }
}

/// The weight and the bias of a part of a network.
fn weight_and_bias(layout: &ParamLayout, name: &str) -> [Param; 2] {
    ["weight", "bias"].map(|part| own(layout, &format!("{name}.{part}")))
}

/// A parameter of the network itself.
fn own(layout: &ParamLayout, name: &str) -> Param {
    layout.place(name).expect("a network knows its parameters")
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
