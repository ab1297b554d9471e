//! A network at one shape: tokens in, hidden states, predictions, loss and gradients out.

use rayon::prelude::*;

use crate::cpu::backward::BackwardPass;
use crate::cpu::executor::Profile;
use crate::cpu::forward::ForwardPass;
use crate::cpu::packed_weights::{ForwardParams, PackedWeights};
use crate::cpu::schedule::Schedule;
use crate::cpu::workspace::{Buffers, Prefix};
use crate::error::{EngineError, check_len};
use crate::model::graph::Graph;
use crate::model::hooks::PlannedPatch;
use crate::model::networks::Network;
use crate::model::plan::Mode;

/// A network ready to run at one shape. Buffers are allocated once, here.
#[derive(Debug)]
pub struct Runner {
    pub(super) graph: Graph,
    schedule: Schedule,
    pub(super) buffers: Buffers,
    /// Matrices of passes that bring none, forward and backward.
    packed: [PackedWeights; 2],
    profile: Option<Profile>,
    pub(super) patches: Vec<PlannedPatch>,
}

impl Runner {
    /// Allocates the buffers of a graph.
    pub fn new(graph: Graph) -> Self {
        let schedule = Schedule::new(&graph.plan);
        let buffers = Buffers::new(&schedule);
        let (packed, profile, patches) = Default::default();
        Self { graph, schedule, buffers, packed, profile, patches }
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
        self.graph.points()
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
    pub fn forward<'a>(&mut self, params: impl Into<ForwardParams<'a>>) {
        self.forward_after(params.into(), 0);
    }

    /// The forward pass from operation number `first` on.
    pub(super) fn forward_after(&mut self, params: ForwardParams, first: usize) {
        assert_eq!(params.flat.len(), self.graph.params, "length of the parameter buffer");
        self.run(params, None, first);
    }

    pub(super) fn run(&mut self, params: ForwardParams, prefix: Option<Prefix>, first: usize) {
        let Self { graph, schedule, buffers, packed: [packed, _], profile, patches } = self;
        let (plan, patches) = (&graph.plan, &*patches);
        let pass = ForwardPass { plan, schedule, buffers, packed, patches, first, profile };
        pass.run(params, prefix);
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
        let Self { graph: Graph { plan, .. }, schedule, buffers, packed: [_, packed], profile, .. } = self;
        buffers.grad_mut(schedule.grad_of[loss.0].expect("the loss has a gradient"))[0] = 1.0;
        BackwardPass { plan, schedule, buffers, params, packed, profile }.run(dparams);
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
    /// stream after block l. Where only predictions are computed, the last layer of a Transformer has x tokens only.
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

    /// Bytes of all buffers.
    pub fn bytes(&self) -> usize {
        self.buffers.bytes()
    }
}

/// Networks on the CPU.
impl Network {
    /// Plans the network for `batch` prompts of `tokens` tokens and allocates its buffers.
    pub fn runner(&self, batch: usize, tokens: usize, mode: Mode) -> Result<Runner, EngineError> {
        Ok(Runner::new(self.graph(batch, tokens, mode)?))
    }

    /// As [`Network::runner`] for prompts of `points` points, but computes only what predictions depend on
    /// (see [`Network::prediction_graph`]).
    pub fn predictor(&self, batch: usize, points: usize, mode: Mode) -> Result<Runner, EngineError> {
        Ok(Runner::new(self.prediction_graph(batch, points, mode)?))
    }

    /// Packs the matrices of a network's parameters, for many forward passes with the same ones.
    ///
    /// # Panics
    /// If `params` has not the length of the network's parameters.
    pub fn pack(&self, params: &[f32]) -> PackedWeights {
        assert_eq!(params.len(), self.layout().len(), "length of the parameter buffer");
        match self.graph(1, 1, Mode::Infer) {
            Ok(graph) => PackedWeights::new(&graph.plan, params),
            // A network that cannot be planned cannot be run either, which is said there.
            Err(_) => PackedWeights::default(),
        }
    }

    /// Predictions `[count, points]` for tokens `[count, 2·points, features]`, some prompts at a time.
    pub fn predictions(
        &self,
        params: ForwardParams,
        tokens: &[f32],
        points: usize,
    ) -> Result<Vec<f32>, EngineError> {
        const CHUNK: usize = 64;
        let prompt = (2 * points * self.features()).max(1);
        let mut all = Vec::with_capacity(tokens.len() / (2 * self.features()));
        let mut runner: Option<Runner> = None;
        for chunk in tokens.chunks(CHUNK * prompt) {
            let batch = chunk.len() / prompt;
            let same = runner.take().filter(|runner| runner.graph.batch == batch);
            let runner = runner.insert(match same {
                Some(runner) => runner,
                None => self.predictor(batch, points, Mode::Infer)?,
            });
            runner.set_tokens(chunk)?;
            runner.forward(params);
            all.extend(runner.predictions());
        }
        Ok(all)
    }
}
