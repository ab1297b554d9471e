//! Attention over all heads of all prompts, as one operation; that of single queries after a shared prefix, and of the last
//! tokens of prompts.

use super::Op;
use crate::model::plan::{Mode, PlanBuilder, Var};

/// Which tokens a token sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mask {
    /// Itself and those before it.
    #[default]
    Causal,
    /// All tokens of the prompt.
    Full,
}

/// How scores become weights; n is the number of tokens seen, s = q·k/√(head size).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weighting {
    /// exp(s) / Σ exp(s)
    #[default]
    Softmax,
    /// max(s, 0) / n
    Relu,
    /// s / n
    Linear,
}

/// The variant of attention: mask and weighting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttentionKind {
    /// Which tokens a token sees.
    pub mask: Mask,
    /// How scores become weights.
    pub weighting: Weighting,
}

/// z`[b, a, h·k]` = Σ_s weight(q`[b,t,h]`·k`[b,s,h]`) v`[b,s,h]` for the query row a, token t = a·every
#[derive(Debug, Clone, Copy)]
pub struct Attention {
    /// Queries, keys and values side by side, `[batch, tokens, 3·heads·size]`.
    pub qkv: Var,
    /// Attention weights `[batch, heads, query rows, padded tokens]`, saved for backward.
    pub weights: Option<Var>,
    /// Output z `[batch, query rows, heads·size]`.
    pub out: Var,
    /// Mask and weighting.
    pub kind: AttentionKind,
    /// Prompts.
    pub batch: usize,
    /// Tokens per prompt.
    pub tokens: usize,
    /// Every so many tokens there is a query row; the first token of a prompt always is one.
    pub every: usize,
    /// Heads.
    pub heads: usize,
    /// Width of one head.
    pub size: usize,
}

impl Attention {
    /// Query rows computed together; keys likewise.
    pub(crate) const BLOCK: usize = 32;

    /// Columns of a score matrix are padded to a multiple of this, the values of the widest register.
    pub(crate) const PADDING: usize = 16;

    /// Adds the operation to a plan, writing to `out`. Every `every`-th token is a query, all are keys.
    pub fn add(
        plan: &mut PlanBuilder,
        qkv: Var,
        kind: AttentionKind,
        [batch, tokens, heads, size]: [usize; 4],
        every: usize,
        out: Var,
    ) -> Self {
        assert!(Self::BLOCK.is_multiple_of(every), "blocks begin with a query row");
        let mut op = Self { qkv, weights: None, out, kind, batch, tokens, every, heads, size };
        let scores = batch * heads * op.scores_len();
        op.weights = (plan.mode() == Mode::Train).then(|| plan.saved_for_backward(scores));
        plan.push(Op::Attention(op));
        op
    }

    /// Width of all heads together.
    pub(crate) fn width(&self) -> usize {
        self.heads * self.size
    }

    /// Query rows of a prompt.
    pub(crate) fn query_rows(&self) -> usize {
        self.tokens.div_ceil(self.every)
    }

    /// Values in one score matrix.
    pub(crate) fn scores_len(&self) -> usize {
        self.query_rows() * Self::padded(self.tokens)
    }

    /// Columns of a score matrix over so many tokens: whole registers.
    pub(crate) fn padded(tokens: usize) -> usize {
        tokens.next_multiple_of(Self::PADDING)
    }
}

/// Attention of queries `[batch, queries]` over the KV cache of a prefix run, and over themselves.
#[derive(Debug, Clone, Copy)]
pub struct QueryAttention {
    /// Queries, keys and values of the query tokens, `[batch, queries, 3·heads·size]`.
    pub qkv: Var,
    /// The same layer in the plan of the prefix, whose keys and values are the cache.
    pub prefix: Attention,
    /// Output z `[batch, queries, heads·size]`.
    pub out: Var,
    /// Queries per prompt.
    pub queries: usize,
}

impl QueryAttention {
    /// Adds the operation to a plan, writing to `out`.
    pub fn add(plan: &mut PlanBuilder, qkv: Var, prefix: Attention, queries: usize, out: Var) {
        plan.push(Op::QueryAttention(Self { qkv, prefix, out, queries }));
    }
}

/// Attention of the last tokens of prompts `[batch, tokens]` over the KV cache of a run over whole prompts, and over themselves.
#[derive(Debug, Clone, Copy)]
pub struct SuffixAttention {
    /// Queries, keys and values of these tokens, `[batch, tokens, 3·heads·size]`.
    pub qkv: Var,
    /// The same layer in the plan of the whole prompts, whose keys and values are the cache.
    pub prefix: Attention,
    /// Output z `[batch, tokens, heads·size]`.
    pub out: Var,
    /// Tokens per prompt, its last ones.
    pub tokens: usize,
}

impl SuffixAttention {
    /// Adds the operation to a plan, writing to `out`.
    pub fn add(plan: &mut PlanBuilder, qkv: Var, prefix: Attention, tokens: usize, out: Var) {
        plan.push(Op::SuffixAttention(Self { qkv, prefix, out, tokens }));
    }
}
