//! Single query tokens after a prefix that was run before.

use crate::cpu::executor::Profile;
use crate::cpu::packed_weights::ForwardParams;
use crate::cpu::runner::Runner;
use crate::cpu::workspace::Prefix;
use crate::error::{EngineError, check_len};
use crate::model::graph::Graph;
use crate::model::hooks::{Patch, Place, PlannedPatch};
use crate::model::networks::Network;

/// Runs T single query tokens per prompt after a prefix that another runner has read.
#[derive(Debug)]
pub struct QueryRunner {
    runner: Runner,
    patches: Vec<Patch>,
}

impl QueryRunner {
    /// Allocates the buffers of a graph built for queries.
    pub fn new(graph: Graph) -> Self {
        Self { runner: Runner::new(graph), patches: Vec::new() }
    }

    /// As [`Runner::patch`], for queries that stand at one of the tokens of a patch; the prefix should be run with the same patches.
    /// Whether a patch touches anything shows where queries stand.
    pub fn patch(&mut self, patches: &[Patch]) -> Result<(), EngineError> {
        patches.iter().try_for_each(|patch| Place::of(&self.runner.graph, patch.site).map(|_| ()))?;
        self.patches = patches.to_vec();
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
        params: impl Into<ForwardParams<'a>>,
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
        let graph = &self.runner.graph;
        let planned = self
            .patches
            .iter()
            .filter_map(|patch| PlannedPatch::for_queries(graph, patch, tokens).transpose());
        self.runner.patches = planned.collect::<Result<_, _>>()?;
        let prefix = Prefix { buffers: &prefix.buffers, tokens, total };
        self.runner.run(params, Some(prefix), 0);
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

impl Network {
    /// Plans `queries` single tokens per prompt after prefixes that `prefix` runs.
    pub fn query_runner(&self, prefix: &Runner, queries: usize) -> Result<QueryRunner, EngineError> {
        Ok(QueryRunner::new(self.query_graph(prefix.graph(), queries)?))
    }
}
