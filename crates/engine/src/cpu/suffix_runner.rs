//! The last tokens of prompts, computed again from a block on after a prefix that was run before.

use crate::cpu::packed_weights::ForwardParams;
use crate::cpu::runner::Runner;
use crate::cpu::workspace::Prefix;
use crate::error::{EngineError, check_len};
use crate::model::graph::Graph;
use crate::model::hooks::{Patch, Place, Site, SiteKind};
use crate::model::networks::Network;

/// Runs the last tokens of prompts that another runner has read, from a block on. What changes at a token changes nothing before it, so
/// that the tokens before the first change are taken from the other run: its keys and values.
#[derive(Debug)]
pub struct SuffixRunner {
    runner: Runner,
    /// Tokens before the suffix.
    before: usize,
}

impl SuffixRunner {
    /// As [`Runner::patch`]; tokens count from the first of the suffix.
    pub fn patch(&mut self, patches: &[Patch]) -> Result<(), EngineError> {
        self.runner.patch(patches)
    }

    /// As [`Runner::write`]; tokens count from the first of the suffix.
    pub fn write(&mut self, patch: &Patch) -> Result<(), EngineError> {
        self.runner.write(patch)
    }

    /// The forward pass from a block on, whose stream was written; `prefix` ran whole prompts with the same parameters.
    pub fn forward_from<'a>(
        &mut self,
        params: impl Into<ForwardParams<'a>>,
        prefix: &Runner,
        block: usize,
    ) -> Result<(), EngineError> {
        let (graph, total) = (&self.runner.graph, prefix.graph.tokens);
        Place::of(graph, Site { block, kind: SiteKind::ResidPre })?;
        if prefix.graph.batch != graph.batch || total != self.before + graph.tokens {
            return Err(EngineError::Unsupported(format!(
                "the last {} tokens of {} prompts of {} tokens, but the prefix has {} prompts of {total} tokens",
                graph.tokens,
                graph.batch,
                self.before + graph.tokens,
                prefix.graph.batch
            )));
        }
        let params = params.into();
        check_len("parameters", params.flat.len(), graph.params, || "the network's parameters".into())?;
        let first = graph.plan.layers[block - 1];
        let prefix = Prefix { buffers: &prefix.buffers, tokens: self.before, total };
        self.runner.run(params, Some(prefix), first);
        Ok(())
    }

    /// Predictions at every token of the suffix, `[batch, tokens]`: those at x tokens are the network's.
    pub fn predictions(&self) -> &[f32] {
        self.runner.predictions()
    }

    /// The graph that is run.
    pub fn graph(&self) -> &Graph {
        &self.runner.graph
    }
}

impl Network {
    /// Plans the last `tokens` tokens of the prompts that `prefix` runs.
    pub fn suffix_runner(&self, prefix: &Runner, tokens: usize) -> Result<SuffixRunner, EngineError> {
        let runner = Runner::new(self.suffix_graph(prefix.graph(), tokens)?);
        Ok(SuffixRunner { runner, before: prefix.graph().tokens - tokens })
    }
}
