//! Single query tokens after a prefix, as [`cpu::QueryRunner`](crate::cpu::QueryRunner).

use std::sync::Arc;

use super::buffer::DeviceBuffer;
use super::device::Device;
use super::error::CudaError;
use super::memory::DeviceMemory;
use super::runner::CudaRunner;
use super::state_readers::StateReader;
use crate::error::EngineError;
use crate::model::networks::Network;

/// Runs T single query tokens per prompt after prompts that a [`CudaRunner`] reads, which it owns: commands of the queries point
/// into its KV cache.
pub struct CudaQueryRunner {
    // Dropped before the prefix whose buffers it reads.
    queries: CudaRunner,
    prefix: CudaRunner,
    /// How many tokens of the prefix queries see, on the device.
    seen: DeviceBuffer<i32>,
    memory: DeviceMemory,
}

impl CudaQueryRunner {
    /// Plans `queries` single tokens per prompt of a runner of the same network.
    pub fn new(
        device: &Arc<Device>,
        network: &Network,
        prefix: CudaRunner,
        queries: usize,
    ) -> Result<CudaQueryRunner, CudaError> {
        let _preparing = device.preparing();
        let graph = network.query_graph(prefix.graph(), queries)?;
        let mut memory = prefix.lowered.memory.beside();
        let seen = memory.zeros("tokens of the prefix", 1)?;
        let queries = CudaRunner::after(device, graph, &prefix, seen)?;
        Ok(CudaQueryRunner { queries, prefix, seen, memory })
    }

    /// The runner of the prompts that queries follow: its parameters are those of the queries too.
    pub fn prefix(&mut self) -> &mut CudaRunner {
        &mut self.prefix
    }

    /// Feeds queries `[batch, T, features]`.
    pub fn set_queries(&mut self, queries: &[f32]) -> Result<(), CudaError> {
        self.queries.set_tokens(queries)
    }

    /// Predicts for the queries that were fed, each after the first `pairs` pairs of the prompts that the prefix ran last.
    /// Queries do not see each other.
    ///
    /// Since no token sees a later one, one run over whole prompts serves every `pairs`.
    pub fn forward(&mut self, pairs: usize) -> Result<(), CudaError> {
        let (seen, total, longest) = (2 * pairs, self.prefix.graph().tokens, self.queries.graph().longest);
        if seen > total {
            return refuse(format!("queries after {pairs} pairs, but the prefix has {total} tokens"));
        }
        if seen >= longest {
            let token = seen + 1;
            return refuse(format!(
                "a query after {pairs} pairs is token {token}, but the network reads {longest} tokens"
            ));
        }
        self.memory.write(self.seen, &[seen as i32])?;
        self.queries.forward()
    }

    /// Predictions `[batch, T]`.
    pub fn predictions(&self) -> Result<Vec<f32>, CudaError> {
        self.queries.predictions()
    }

    /// Hidden state of a layer at the query tokens, `[batch, T, width]`; layers as in [`CudaRunner::hidden`].
    pub fn hidden(&self, layer: usize) -> Result<Vec<f32>, CudaError> {
        self.queries.hidden(layer)
    }

    /// What the read-out reads at the query tokens, `[batch, T, width]`.
    pub fn last(&self) -> Result<Vec<f32>, CudaError> {
        self.queries.last()
    }

    /// As [`CudaRunner::set_readers`], of the query tokens.
    pub fn set_readers(&mut self, readers: &[StateReader]) -> Result<(), CudaError> {
        self.queries.set_readers(readers)
    }

    /// As [`CudaRunner::read`], `[readers, batch, T]`.
    pub fn read(&self) -> Result<Vec<f64>, CudaError> {
        self.queries.read()
    }
}

fn refuse<T>(why: String) -> Result<T, CudaError> {
    Err(CudaError::Shape(EngineError::Unsupported(why)))
}
