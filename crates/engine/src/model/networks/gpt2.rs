//! GPT-2 over tokens: pre-LayerNorm blocks, tanh-GELU, learned positions, linear read-in and read-out.
//!
//! Parameter names are those of Hugging Face's `GPT2Model` (Conv1D weights are `[in, out]`) plus `read_in` and `read_out`.

use super::{positive, torch_linear};
use crate::cpu::executor::{Graph, Memory};
use crate::cpu::ops::{
    Activation, Attention, AttentionKind, Epilogue, LayerNorm, Linear, Mask, MeanSquare, Pick,
    QueryAttention, ReadOut,
};
use crate::cpu::parallel::prompts_per_group;
use crate::error::EngineError;
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

/// How tokens attend: to each other, or, for queries, to a prefix.
enum Attend<'a> {
    Prompt,
    Prefix(&'a [Memory]),
}

impl Gpt2Config {
    /// All parameters, in order.
    pub fn params(&self) -> Vec<ParamSpec> {
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

    /// Plans the network for `batch` prompts of `tokens` tokens.
    pub(super) fn graph(
        &self,
        batch: usize,
        tokens: usize,
        mode: Mode,
        scope: Scope,
    ) -> Result<Graph, EngineError> {
        self.check()?;
        if tokens > self.positions {
            let rule = format!("prompts of {tokens} tokens need at least as many");
            return Err(EngineError::Config { field: "positions", value: self.positions, rule });
        }
        Ok(self.build([batch, tokens], mode, scope, Attend::Prompt))
    }

    /// Plans queries after a prefix.
    pub(super) fn query_graph(&self, prefix: &Graph, queries: usize) -> Result<Graph, EngineError> {
        self.check()?;
        if self.attention.mask == Mask::Full {
            return Err(EngineError::Unsupported(
                "with full attention the prefix sees the queries, so it cannot be shared".into(),
            ));
        }
        let fits = |memory: &Memory| {
            matches!(memory, Memory::Attention(prefix) if prefix.heads == self.heads
                && prefix.heads * prefix.size == self.width && prefix.kind == self.attention)
        };
        let count = prefix.memories.len();
        if count != self.layers || prefix.tokens > self.positions || !prefix.memories.iter().all(fits) {
            return Err(EngineError::Unsupported("the prefix was run by another network".into()));
        }
        let attend = Attend::Prefix(&prefix.memories);
        Ok(self.build([prefix.batch, queries], Mode::Infer, Scope::Everything, attend))
    }

    fn build(&self, [batch, tokens]: [usize; 2], mode: Mode, scope: Scope, attend: Attend) -> Graph {
        let layout = ParamLayout::new(self.params());
        let pair = |name: &str| -> [Param; 2] {
            ["weight", "bias"].map(|part| layout.place(&format!("{name}.{part}")).expect("own parameter"))
        };
        let (e, rows) = (self.width, batch * tokens);
        let mut plan = PlanBuilder::new(mode, batch, prompts_per_group(batch, tokens));
        let input = plan.input(rows * self.features, false);
        let table = layout.place("wpe.weight").expect("own parameter");
        let positions = match attend {
            Attend::Prompt => Epilogue::Positions { table, tokens },
            Attend::Prefix(_) => Epilogue::QueryPosition { table },
        };
        let mut stream = plan.kept(rows * e);
        Linear::add(&mut plan, input, pair("read_in"), true, [rows, self.features, e], positions, stream);
        let mut hidden = vec![stream];
        let (mut streams, mut memories) = (Vec::new(), Vec::new());
        // From one prediction to the next: every token of a query, every second one of a prompt.
        let mut stride = if matches!(attend, Attend::Prompt) { 2 } else { 1 };
        let mut left = tokens;
        for layer in 0..self.layers {
            let pair = |name: &str| pair(&format!("h.{layer}.{name}"));
            plan.begin_layer();
            let mut every = 1;
            if scope == Scope::Predictions && layer + 1 == self.layers {
                (every, stride) = (stride, 1);
                left = tokens.div_ceil(every);
            }
            let before = match every {
                1 => stream,
                _ => Pick::add(&mut plan, stream, [batch, tokens, e], every),
            };
            streams.push(before);
            let normed = plan.temporary("normed", rows * e);
            LayerNorm::add(&mut plan, stream, pair("ln_1"), [batch, tokens, e], normed);
            let qkv = match attend {
                // Kept in inference too: queries look back at keys and values.
                Attend::Prompt => plan.kept(rows * 3 * e),
                Attend::Prefix(_) => plan.temporary("qkv", rows * 3 * e),
            };
            Linear::add(&mut plan, normed, pair("attn.c_attn"), false, [rows, e, 3 * e], Epilogue::None, qkv);
            let attended = plan.temporary("attended", batch * left * e);
            match attend {
                Attend::Prompt => {
                    let shape = [batch, tokens, self.heads, e / self.heads];
                    memories.push(Memory::Attention(Attention::add(
                        &mut plan,
                        qkv,
                        self.attention,
                        shape,
                        every,
                        attended,
                    )));
                }
                Attend::Prefix(memories) => {
                    let Memory::Attention(prefix) = memories[layer] else {
                        unreachable!("checked by `query_graph`")
                    };
                    QueryAttention::add(&mut plan, qkv, prefix, tokens, attended);
                }
            }
            let middle = plan.temporary("middle", batch * left * e);
            let (sizes, add) = ([batch * left, e, e], Epilogue::Add(before));
            Linear::add(&mut plan, attended, pair("attn.c_proj"), false, sizes, add, middle);
            stream = self.mlp(&mut plan, middle, [batch, left], pair);
            hidden.push(stream);
        }
        let last = plan.kept(batch * left * e);
        LayerNorm::add(&mut plan, stream, pair("ln_f"), [batch, left, e], last);
        let predictions = ReadOut::add(&mut plan, last, pair("read_out"), [batch, left, e], stride);
        let targets = (mode == Mode::Train).then(|| plan.input(batch * tokens.div_ceil(2), false));
        let loss = targets.map(|targets| MeanSquare::add(&mut plan, predictions, targets));
        Graph {
            plan: plan.finish(loss),
            mode,
            batch,
            tokens,
            given: tokens,
            longest: self.positions,
            features: self.features,
            params: layout.len(),
            input,
            targets,
            hidden,
            streams,
            last,
            predictions,
            loss,
            memories,
        }
    }

    /// LayerNorm, up, activation, down, added to the stream.
    fn mlp(
        &self,
        plan: &mut PlanBuilder,
        middle: Var,
        [batch, tokens]: [usize; 2],
        pair: impl Fn(&str) -> [Param; 2],
    ) -> Var {
        let (e, rows) = (self.width, batch * tokens);
        let normed = plan.temporary("normed", rows * e);
        LayerNorm::add(plan, middle, pair("ln_2"), [batch, tokens, e], normed);
        let slope = plan.temporary("slope", rows * 4 * e);
        let raised = plan.temporary("raised", rows * 4 * e);
        let activate = Epilogue::Activate { kind: self.activation, slope };
        Linear::add(plan, normed, pair("mlp.c_fc"), false, [rows, e, 4 * e], activate, raised);
        let out = plan.kept(rows * e);
        Linear::add(plan, raised, pair("mlp.c_proj"), false, [rows, 4 * e, e], Epilogue::Add(middle), out);
        out
    }
}
