//! A network planned for one shape: the plan, and the values in it that the outside reads or feeds.

use crate::model::ops::{Attention, LstmLayer};
use crate::model::plan::{Mode, Plan, Var};

/// A plan and the values in it that the outside looks at.
#[derive(Debug)]
pub struct Graph {
    /// The operations.
    pub plan: Plan,
    /// What the plan is for.
    pub mode: Mode,
    /// Prompts.
    pub batch: usize,
    /// Tokens per prompt (for queries: queries per prompt).
    pub tokens: usize,
    /// Tokens per prompt as it is fed in; those after the first `tokens` are not read.
    pub given: usize,
    /// The longest prompt the network can read, in tokens.
    pub longest: usize,
    /// Features per token.
    pub features: usize,
    /// Values in the flat parameter buffer.
    pub params: usize,
    /// Tokens that are read, `[batch, tokens, features]`.
    pub input: Var,
    /// Targets `[batch, points]`; absent in inference.
    pub targets: Option<Var>,
    /// Hidden states `[batch, tokens, width]`: the read-in, then one per layer; the last may be at the x tokens only.
    pub hidden: Vec<Var>,
    /// The activations of each block of a Transformer; none of an LSTM.
    pub blocks: Vec<BlockVars>,
    /// What the read-out reads: the final LayerNorm for GPT-2, the last layer for an LSTM.
    pub last: Var,
    /// Predictions `[batch, points]`.
    pub predictions: Var,
    /// The loss, one number; absent in inference.
    pub loss: Option<Var>,
    /// What queries after a shared prefix need of each layer.
    pub caches: Vec<LayerCache>,
}

impl Graph {
    /// Predictions per prompt: one at every x token, that is, at tokens 0, 2, 4, …
    pub fn points(&self) -> usize {
        self.tokens.div_ceil(2)
    }
}

/// The values of a layer that queries after a shared prefix read.
#[derive(Debug, Clone, Copy)]
pub enum LayerCache {
    /// The KV cache: keys and values.
    Attention(Attention),
    /// State of an LSTM.
    Lstm(LstmLayer),
}

/// The activations of a block of a Transformer; all but the first at the tokens that it is computed at.
#[derive(Debug, Clone, Copy)]
pub struct BlockVars {
    /// The residual stream before it, at every token.
    pub resid_pre: Var,
    /// The same at the tokens that it is computed at: what it adds to.
    pub adds_to: Var,
    /// What its heads hand to the projection.
    pub z: Var,
    /// The residual stream between attention and MLP.
    pub resid_mid: Var,
    /// Inside the MLP, after its activation.
    pub mlp_hidden: Var,
    /// The residual stream after it.
    pub resid_post: Var,
    /// Attention heads.
    pub heads: usize,
}
