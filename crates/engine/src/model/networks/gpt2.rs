//! GPT-2 over tokens: pre-LayerNorm blocks, tanh-GELU, learned positions, linear read-in and read-out.
//!
//! Parameter names are those of Hugging Face's `GPT2Model` (Conv1D weights are `[in, out]`) plus `read_in` and `read_out`.

use super::{Architecture, Trunk, finish, own, positive, torch_linear, weight_and_bias};
use crate::error::EngineError;
use crate::model::graph::{BlockVars, Graph, LayerCache};
use crate::model::ops::{
    Activation, Attention, AttentionKind, Epilogue, LayerNorm, Linear, Mask, Pick, QueryAttention,
    SuffixAttention,
};
use crate::model::parameters::{Init, Param, ParamLayout, ParamSpec};
use crate::model::plan::{Mode, PlanBuilder, Scope, Var};

/// Sizes and variants of a GPT-2; the default is the paper's network.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpt2Config {
    /// Features of a token.
    pub features: usize,
    /// Longest prompt, in tokens.
    pub positions: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Blocks.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Variant of attention.
    pub attention: AttentionKind,
    /// Activation inside the MLP.
    pub activation: Activation,
}

impl Default for Gpt2Config {
    fn default() -> Self {
        Self {
            features: 20,
            positions: 202,
            width: 256,
            layers: 12,
            heads: 8,
            attention: AttentionKind::default(),
            activation: Activation::Gelu,
        }
    }
}

/// How tokens attend: to each other; single queries, to the KV cache of a prefix; the last ones of a prompt, to both.
#[derive(Clone, Copy)]
enum Attend<'a> {
    Prompt,
    Prefix(&'a [LayerCache]),
    Suffix(&'a [LayerCache]),
}

impl Architecture for Gpt2Config {
    fn params(&self) -> Vec<ParamSpec> {
        let e = self.width;
        let normal = Init::Normal { std: 0.02 };
        // Each block adds to the residual stream twice; the sum keeps its size.
        let residual = Init::Normal { std: 0.02 / (2.0 * self.layers as f32).sqrt() };
        let (zeros, ones) = (Init::Constant(0.0), Init::Constant(1.0));
        let mut specs = torch_linear("read_in", self.features, e).to_vec();
        specs.push(ParamSpec::new("wpe.weight", &[self.positions, e], normal));
        for layer in 0..self.layers {
            let mut add = |name: &str, shape: &[usize], init| {
                specs.push(ParamSpec::new(format!("h.{layer}.{name}"), shape, init));
            };
            add("ln_1.weight", &[e], ones);
            add("ln_1.bias", &[e], zeros);
            add("attn.c_attn.weight", &[e, 3 * e], normal);
            add("attn.c_attn.bias", &[3 * e], zeros);
            add("attn.c_proj.weight", &[e, e], residual);
            add("attn.c_proj.bias", &[e], zeros);
            add("ln_2.weight", &[e], ones);
            add("ln_2.bias", &[e], zeros);
            add("mlp.c_fc.weight", &[e, 4 * e], normal);
            add("mlp.c_fc.bias", &[4 * e], zeros);
            add("mlp.c_proj.weight", &[4 * e, e], residual);
            add("mlp.c_proj.bias", &[e], zeros);
        }
        specs.push(ParamSpec::new("ln_f.weight", &[e], ones));
        specs.push(ParamSpec::new("ln_f.bias", &[e], zeros));
        specs.extend(torch_linear("read_out", e, 1));
        specs
    }

    fn sizes(&self) -> [usize; 3] {
        [self.features, self.width, self.layers]
    }

    fn longest(&self) -> usize {
        self.positions
    }

    fn sees_later_tokens(&self) -> bool {
        self.attention.mask == Mask::Full
    }

    /// Queries, keys and values lie side by side.
    fn stacked(&self, name: &str) -> Option<[usize; 2]> {
        let across = if name.ends_with("c_attn.weight") { 3 } else { 1 };
        name.starts_with("h.").then_some([across, 1])
    }

    fn graph(&self, [batch, tokens]: [usize; 2], mode: Mode, scope: Scope) -> Result<Graph, EngineError> {
        self.check()?;
        if tokens > self.positions {
            let rule = format!("prompts of {tokens} tokens need at least as many");
            return Err(EngineError::Config { field: "positions", value: self.positions, rule });
        }
        Ok(self.build([batch, tokens], mode, scope, Attend::Prompt))
    }

    fn query_graph(&self, prefix: &Graph, queries: usize) -> Result<Graph, EngineError> {
        self.check()?;
        if self.attention.mask == Mask::Full {
            return Err(EngineError::Unsupported(
                "with full attention the prefix sees the queries, so it cannot be shared".into(),
            ));
        }
        self.check_prefix(prefix)?;
        let attend = Attend::Prefix(&prefix.caches);
        Ok(self.build([prefix.batch, queries], Mode::Infer, Scope::Everything, attend))
    }

    fn suffix_graph(&self, prefix: &Graph, tokens: usize) -> Result<Graph, EngineError> {
        self.check()?;
        self.check_prefix(prefix)?;
        let attend = Attend::Suffix(&prefix.caches);
        Ok(self.build([prefix.batch, tokens], Mode::Infer, Scope::Everything, attend))
    }
}

impl Gpt2Config {
    fn check(&self) -> Result<(), EngineError> {
        positive("features", self.features)?;
        positive("width", self.width)?;
        positive("heads", self.heads)?;
        if !self.width.is_multiple_of(self.heads) {
            let rule = format!("it must divide the width {}", self.width);
            return Err(EngineError::Config { field: "heads", value: self.heads, rule });
        }
        Ok(())
    }

    fn check_prefix(&self, prefix: &Graph) -> Result<(), EngineError> {
        let fits = |cache: &LayerCache| {
            matches!(cache, LayerCache::Attention(prefix) if prefix.heads == self.heads
                && prefix.heads * prefix.size == self.width && prefix.kind == self.attention)
        };
        let count = prefix.caches.len();
        if count != self.layers || prefix.tokens > self.positions || !prefix.caches.iter().all(fits) {
            return Err(EngineError::Unsupported("the prefix was run by another network".into()));
        }
        Ok(())
    }

    fn build(&self, [batch, tokens]: [usize; 2], mode: Mode, scope: Scope, attend: Attend) -> Graph {
        let layout = ParamLayout::new(self.params());
        let pair = |name: &str| weight_and_bias(&layout, name);
        let (e, rows) = (self.width, batch * tokens);
        let mut plan = PlanBuilder::new(mode, [batch, tokens]);
        let input = plan.input(rows * self.features, false);
        let table = own(&layout, "wpe.weight");
        let positions = match attend {
            Attend::Prompt => Epilogue::Positions { table, tokens },
            // a suffix is run from a block on, so that nothing is read in
            Attend::Prefix(_) | Attend::Suffix(_) => Epilogue::QueryPosition { table },
        };
        let mut x = plan.result(rows * e);
        Linear::add(&mut plan, input, pair("read_in"), true, [rows, self.features, e], positions, x);
        let mut hidden = vec![x];
        let (mut blocks, mut caches) = (Vec::new(), Vec::new());
        // From one prediction to the next: every token of a query, every second one of a prompt.
        let mut stride = if matches!(attend, Attend::Prompt) { 2 } else { 1 };
        let mut every = 1;
        for layer in 0..self.layers {
            plan.begin_layer();
            if scope == Scope::Predictions && layer + 1 == self.layers {
                (every, stride) = (stride, 1);
            }
            let pair = |name: &str| pair(&format!("h.{layer}.{name}"));
            let block = Block { config: self, pair: &pair, layer, batch, tokens, every };
            // x = x + attn(ln_1(x)); x = x + mlp(ln_2(x))
            let (resid_pre, adds_to) = (x, block.at_query_rows(&mut plan, x));
            let (z, resid_mid, cache) = block.attention_block(&mut plan, x, adds_to, attend);
            let (mlp_hidden, resid_post) = block.mlp_block(&mut plan, resid_mid);
            x = resid_post;
            let heads = self.heads;
            blocks.push(BlockVars { resid_pre, adds_to, z, resid_mid, mlp_hidden, resid_post, heads });
            caches.extend(cache);
            hidden.push(x);
        }
        let left = tokens.div_ceil(every);
        let last = plan.result(batch * left * e);
        LayerNorm::add(&mut plan, x, pair("ln_f"), [batch, left, e], last);
        let trunk = Trunk { input, hidden, blocks, caches, last: (last, left), stride };
        finish(plan, self, [batch, tokens], trunk)
    }
}

/// One block in a plan. It reads all `tokens` of a prompt and is computed at its query rows, every `every`-th token.
struct Block<'a> {
    config: &'a Gpt2Config,
    /// Weight and bias of a part of the block.
    pair: &'a dyn Fn(&str) -> [Param; 2],
    layer: usize,
    batch: usize,
    tokens: usize,
    every: usize,
}

impl Block<'_> {
    fn query_rows(&self) -> usize {
        self.tokens.div_ceil(self.every)
    }

    /// x at the query rows: what the block adds to.
    fn at_query_rows(&self, plan: &mut PlanBuilder, x: Var) -> Var {
        match self.every {
            1 => x,
            every => Pick::add(plan, x, [self.batch, self.tokens, self.config.width], every),
        }
    }

    /// z of attn(ln_1(x)), resid_mid = adds_to + attn(ln_1(x)), and what queries after this prompt need.
    fn attention_block(
        &self,
        plan: &mut PlanBuilder,
        x: Var,
        adds_to: Var,
        attend: Attend,
    ) -> (Var, Var, Option<LayerCache>) {
        let &Block { config, pair, batch, tokens, every, .. } = self;
        let (e, rows, query_rows) = (config.width, batch * tokens, batch * self.query_rows());
        let normed = plan.temporary("normed", rows * e);
        LayerNorm::add(plan, x, pair("ln_1"), [batch, tokens, e], normed);
        let qkv = match attend {
            // Kept in inference too: keys and values are the KV cache.
            Attend::Prompt => plan.result(rows * 3 * e),
            Attend::Prefix(_) | Attend::Suffix(_) => plan.temporary("qkv", rows * 3 * e),
        };
        Linear::add(plan, normed, pair("attn.c_attn"), false, [rows, e, 3 * e], Epilogue::None, qkv);
        let z = plan.temporary("z", query_rows * e);
        let cache = match attend {
            Attend::Prompt => {
                let shape = [batch, tokens, config.heads, e / config.heads];
                let op = Attention::add(plan, qkv, config.attention, shape, every, z);
                Some(LayerCache::Attention(op))
            }
            Attend::Prefix(caches) | Attend::Suffix(caches) => {
                let LayerCache::Attention(prefix) = caches[self.layer] else {
                    unreachable!("checked by `check_prefix`")
                };
                match attend {
                    Attend::Suffix(_) => SuffixAttention::add(plan, qkv, prefix, tokens, z),
                    _ => QueryAttention::add(plan, qkv, prefix, tokens, z),
                }
                None
            }
        };
        let resid_mid = plan.temporary("resid_mid", query_rows * e);
        let add = Epilogue::Add(adds_to);
        Linear::add(plan, z, pair("attn.c_proj"), false, [query_rows, e, e], add, resid_mid);
        (z, resid_mid, cache)
    }

    /// The hidden layer of mlp(ln_2(resid_mid)), which is up, activation, down; and resid_mid + mlp(ln_2(resid_mid)).
    fn mlp_block(&self, plan: &mut PlanBuilder, resid_mid: Var) -> (Var, Var) {
        let &Block { config, pair, batch, .. } = self;
        let (e, rows) = (config.width, batch * self.query_rows());
        let normed = plan.temporary("normed", rows * e);
        LayerNorm::add(plan, resid_mid, pair("ln_2"), [batch, self.query_rows(), e], normed);
        let derivative = plan.temporary("derivative", rows * 4 * e);
        let hidden = plan.temporary("mlp hidden", rows * 4 * e);
        let activate = Epilogue::Activate { kind: config.activation, derivative };
        Linear::add(plan, normed, pair("mlp.c_fc"), false, [rows, e, 4 * e], activate, hidden);
        let resid_post = plan.result(rows * e);
        let add = Epilogue::Add(resid_mid);
        Linear::add(plan, hidden, pair("mlp.c_proj"), false, [rows, 4 * e, e], add, resid_post);
        (hidden, resid_post)
    }
}
