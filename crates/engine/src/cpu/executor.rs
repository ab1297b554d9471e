//! Runs a network's plan: tokens in, hidden states, predictions, loss and gradients out.

use std::time::Instant;

use rayon::prelude::*;

use crate::cpu::backward::WayBack;
use crate::cpu::ops::{Attention, LstmLayer};
use crate::cpu::weights::{PackedParams, Parameters, Way};
pub use crate::cpu::work_queue::Profile;
use crate::cpu::work_queue::{carry, note};
use crate::cpu::workspace::{Buffers, Context, Prefix};
use crate::error::{EngineError, check_len};
use crate::model::ablation::{Change, Intervention, Positions};
use crate::model::plan::{Mode, Plan, Var};

/// A plan and the places in it that the outside looks at.
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
    /// Tokens per prompt as it is fed in; those after the first `tokens` are not looked at.
    pub given: usize,
    /// The longest prompt the network can read, in tokens.
    pub longest: usize,
    /// Features per token.
    pub features: usize,
    /// Values in the flat parameter buffer.
    pub params: usize,
    /// Tokens that are looked at, `[batch, tokens, features]`.
    pub input: Var,
    /// Targets `[batch, points]`; absent in inference.
    pub targets: Option<Var>,
    /// Hidden states `[batch, tokens, width]`: the read-in, then one per layer; the last may be at the x tokens only.
    pub hidden: Vec<Var>,
    /// What each block of a Transformer adds to: the hidden state before it, at the tokens that it is computed at.
    pub streams: Vec<Var>,
    /// What the read-out reads: the final LayerNorm for GPT-2, the last layer for an LSTM.
    pub last: Var,
    /// Predictions `[batch, points]`.
    pub predictions: Var,
    /// The loss, one number; absent in inference.
    pub loss: Option<Var>,
    /// What queries need of each layer.
    pub memories: Vec<Memory>,
}

/// The part of a layer that queries after a shared prefix look back at.
#[derive(Debug, Clone, Copy)]
pub enum Memory {
    /// Keys and values.
    Attention(Attention),
    /// State.
    Lstm(LstmLayer),
}

/// A network ready to run at one shape. Buffers are allocated once, here.
#[derive(Debug)]
pub struct Runner {
    graph: Graph,
    buffers: Buffers,
    /// Matrices of passes that bring none, for the way forward and for the way back.
    packed: [PackedParams; 2],
    profile: Option<Profile>,
    changes: Vec<Change>,
}

impl Runner {
    /// Allocates the buffers of a graph.
    pub fn new(graph: Graph) -> Self {
        let buffers = Buffers::new(&graph.plan);
        Self { graph, buffers, packed: Default::default(), profile: None, changes: Vec::new() }
    }

    /// From now on, forward passes replace the outputs of these parts; earlier interventions end.
    pub fn intervene(&mut self, interventions: &[Intervention]) -> Result<(), EngineError> {
        self.changes = self.planned(interventions, self.graph.tokens)?;
        Ok(())
    }

    /// Interventions in this plan, each with an output for the first `positions` positions.
    fn planned(&self, interventions: &[Intervention], positions: usize) -> Result<Vec<Change>, EngineError> {
        let change = |intervention| {
            let change = Change::new(&self.graph, intervention)?;
            change.check(positions)?;
            Ok(change)
        };
        interventions.iter().map(change).collect()
    }

    /// From now on, adds up the time of each kind of operation; returns what was added up before.
    pub fn start_profile(&mut self) -> Profile {
        self.profile.replace(Profile::new()).unwrap_or_default()
    }

    /// The graph that is run.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Predictions per prompt: one at every x token, that is, at tokens 0, 2, 4, …
    pub fn points(&self) -> usize {
        self.graph.tokens.div_ceil(2)
    }

    /// Feeds prompts `[batch, tokens, features]`.
    pub fn set_tokens(&mut self, tokens: &[f32]) -> Result<(), EngineError> {
        let Graph { batch, tokens: read, given, features, input, .. } = self.graph;
        check_len("tokens", tokens.len(), batch * given * features, || {
            format!("{batch} prompts × {given} tokens × {features} features")
        })?;
        let places = self.buffers.value_mut(input).chunks_exact_mut(read * features);
        for (place, prompt) in places.zip(tokens.chunks_exact(given * features)) {
            place.copy_from_slice(&prompt[..read * features]);
        }
        Ok(())
    }

    /// Feeds targets `[batch, points]`.
    pub fn set_targets(&mut self, ys: &[f32]) -> Result<(), EngineError> {
        let Some(targets) = self.graph.targets else {
            return Err(EngineError::Unsupported("a network built for inference takes no targets".into()));
        };
        let (batch, points) = (self.graph.batch, self.points());
        check_len("targets", ys.len(), batch * points, || format!("{batch} prompts × {points} points"))?;
        self.buffers.value_mut(targets).copy_from_slice(ys);
        Ok(())
    }

    /// Computes hidden states, predictions and, in training, the loss.
    ///
    /// # Panics
    /// If `params` has not the length of the network's parameters.
    pub fn forward<'a>(&mut self, params: impl Into<Parameters<'a>>) {
        let params = params.into();
        assert_eq!(params.flat.len(), self.graph.params, "length of the parameter buffer");
        self.run(params, None, Positions::Prompt);
    }

    fn run(&mut self, params: Parameters, prefix: Option<Prefix>, positions: Positions) {
        let Self { graph: Graph { plan, .. }, buffers, packed: [own, _], profile, changes } = self;
        let timed = profile.is_some();
        for stage in &plan.stages {
            let packed = params.packed.unwrap_or_else(|| {
                let start = Instant::now();
                own.pack(&plan.ops[stage.ops.clone()], params.flat, Way::Forward);
                note(profile, "pack", start);
                own
            });
            let context = Context { params: params.flat, packed, prefix };
            let seconds = carry(buffers.lend(), plan, stage, Vec::new(), |share, seconds| {
                share.look_ahead(&stage.filled);
                for (step, i) in stage.ops.clone().enumerate() {
                    let start = timed.then(Instant::now);
                    share.ahead.begin(step);
                    plan.ops[i].forward(share, context);
                    for change in changes.iter().filter(|change| change.after == i) {
                        change.apply(share, positions);
                    }
                    seconds[i] += start.map_or(0.0, |start| start.elapsed().as_secs_f64());
                }
            });
            if let Some(profile) = profile {
                seconds.note(profile, "forward", plan);
            }
        }
    }

    /// Adds the gradients of the loss to `dparams`; call once after each [`Runner::forward`].
    ///
    /// # Panics
    /// If the network was built for inference or a buffer has the wrong length.
    pub fn backward(&mut self, params: &[f32], dparams: &mut [f32]) {
        let loss = self.graph.loss.expect("a network built for inference has no backward pass");
        assert_eq!(
            (params.len(), dparams.len()),
            (self.graph.params, self.graph.params),
            "parameter buffers"
        );
        let Self { graph: Graph { plan, .. }, buffers, packed: [_, packed], profile, .. } = self;
        buffers.grad_mut(plan.grad_of[loss.0].expect("the loss has a gradient"))[0] = 1.0;
        WayBack { plan, buffers, params, packed, profile }.run(dparams);
    }

    /// Writes the gradients of the loss to `dparams` and returns the loss: a forward and a backward pass.
    ///
    /// # Panics
    /// As [`Runner::backward`].
    pub fn gradients(&mut self, params: &[f32], dparams: &mut [f32]) -> f32 {
        dparams.par_chunks_mut(1 << 15).for_each(|piece| piece.fill(0.0));
        self.forward(params);
        self.backward(params, dparams);
        self.loss()
    }

    /// The loss of the last forward pass (NaN in inference).
    pub fn loss(&self) -> f32 {
        self.graph.loss.map_or(f32::NAN, |loss| self.buffers.value(loss)[0])
    }

    /// Predictions at all x tokens, `[batch, points]`.
    pub fn predictions(&self) -> &[f32] {
        self.buffers.value(self.graph.predictions)
    }

    /// Number of hidden states: layers + 1.
    pub fn hidden_count(&self) -> usize {
        self.graph.hidden.len()
    }

    /// Hidden state of a layer, `[batch, tokens, width]`; 0 is the read-in (with positions), l the residual
    /// stream after block l. Where only predictions are asked for, the last layer of a Transformer has x tokens only.
    pub fn hidden(&self, layer: usize) -> &[f32] {
        self.buffers.value(self.graph.hidden[layer])
    }

    /// What the read-out reads, at the tokens of the last layer: after the final LayerNorm for GPT-2.
    pub fn last(&self) -> &[f32] {
        self.buffers.value(self.graph.last)
    }

    /// The rows of [`Runner::hidden`] or [`Runner::last`] at the x tokens, one for each prediction.
    pub fn at_x<'a>(&self, states: &'a [f32]) -> impl Iterator<Item = &'a [f32]> + use<'a> {
        let Graph { batch, tokens, .. } = self.graph;
        let width = self.hidden(0).len() / (batch * tokens);
        let prompt = states.len() / batch;
        let every = (prompt / width).div_ceil(self.points());
        states.chunks_exact(prompt).flat_map(move |prompt| prompt.chunks_exact(width).step_by(every))
    }

    /// What the attention heads of a layer hand to the projection, `[batch, tokens, heads·size]`; layers count from 1.
    /// `None` for an LSTM, and in inference, where all layers share that buffer.
    pub fn attended(&self, layer: usize) -> Option<&[f32]> {
        match self.graph.memories.get(layer.checked_sub(1)?)? {
            Memory::Attention(op) if self.graph.mode == Mode::Train => Some(self.buffers.value(op.out)),
            _ => None,
        }
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> usize {
        self.buffers.bytes()
    }
}

/// Runs T single query tokens per prompt after a prefix that another runner has read.
#[derive(Debug)]
pub struct QueryRunner {
    runner: Runner,
}

impl QueryRunner {
    /// Allocates the buffers of a graph built for queries.
    pub fn new(graph: Graph) -> Self {
        Self { runner: Runner::new(graph) }
    }

    /// As [`Runner::intervene`]; the prefix should be run with the same interventions.
    pub fn intervene(&mut self, interventions: &[Intervention]) -> Result<(), EngineError> {
        self.runner.changes = self.runner.planned(interventions, 0)?;
        Ok(())
    }

    /// As [`Runner::start_profile`].
    pub fn start_profile(&mut self) -> Profile {
        self.runner.start_profile()
    }

    /// Predicts for queries `[batch, T, features]` that each follow the first `pairs` pairs of the prompts
    /// that `prefix` ran last, with the same parameters. Queries do not see each other.
    ///
    /// Since no token sees a later one, one run over whole prompts serves every `pairs`.
    pub fn forward<'a>(
        &mut self,
        params: impl Into<Parameters<'a>>,
        prefix: &Runner,
        pairs: usize,
        queries: &[f32],
    ) -> Result<(), EngineError> {
        let (tokens, total) = (2 * pairs, prefix.graph.tokens);
        if tokens > total || prefix.graph.batch != self.runner.graph.batch {
            return Err(EngineError::Unsupported(format!(
                "queries for {} prompts after {pairs} pairs, but the prefix has {} prompts of {total} tokens",
                self.runner.graph.batch, prefix.graph.batch
            )));
        }
        if tokens >= self.runner.graph.longest {
            return Err(EngineError::Unsupported(format!(
                "a query after {pairs} pairs is token {}, but the network reads {} tokens",
                tokens + 1,
                self.runner.graph.longest
            )));
        }
        let params = params.into();
        check_len("parameters", params.flat.len(), self.runner.graph.params, || {
            "the network's parameters".into()
        })?;
        self.runner.set_tokens(queries)?;
        self.runner.changes.iter().try_for_each(|change| change.check(tokens + 1))?;
        let prefix = Prefix { buffers: &prefix.buffers, tokens, total };
        self.runner.run(params, Some(prefix), Positions::Query(tokens));
        Ok(())
    }

    /// Predictions `[batch, T]`.
    pub fn predictions(&self) -> &[f32] {
        self.runner.predictions()
    }

    /// Hidden state of a layer at the query tokens, `[batch, T, width]`; layers as in [`Runner::hidden`].
    pub fn hidden(&self, layer: usize) -> &[f32] {
        self.runner.hidden(layer)
    }

    /// What the read-out reads at the query tokens, `[batch, T, width]`.
    pub fn last(&self) -> &[f32] {
        self.runner.last()
    }
}
