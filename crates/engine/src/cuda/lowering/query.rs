//! Single query tokens after a prefix that another runner has read: attention over its KV cache, or a step from its LSTM state.

use super::Lowering;
use crate::cuda::Precision;
use crate::cuda::buffer::{DeviceBuffer, Pointer, StorageBuffer};
use crate::cuda::compiler::KernelSource;
use crate::cuda::error::CudaError;
use crate::cuda::graph::{Argument, Launch, MAIN};
use crate::cuda::kernels;
use crate::cuda::matrix::DeviceMatrix;
use crate::model::ops::{LstmLayer, LstmQuery, QueryAttention};
use crate::model::plan::Var;

/// What queries read of the prefix; it lives as long as their commands.
#[derive(Debug, Clone)]
pub(crate) struct PrefixBuffers {
    /// By variable of the prefix's plan.
    pub values: Vec<Option<StorageBuffer>>,
    /// How many of its tokens queries see, one number that may change from run to run.
    pub seen: DeviceBuffer<i32>,
    /// Tokens that the prefix has.
    pub tokens: usize,
}

/// Warps of a block of the attention kernel, and queries of each, as in its source.
const WARPS: usize = 4;
const QUERIES: usize = 4;
/// Threads of a block of the LSTM kernels.
const THREADS: usize = 256;
/// Bytes of shared memory that every block has without opting in.
const SHARED_MEMORY: usize = 48 << 10;

/// What the attention kernel is compiled from.
pub(super) fn attention_source(op: &QueryAttention, precision: Precision) -> Result<KernelSource, CudaError> {
    let prefix = &op.prefix;
    if !prefix.size.is_multiple_of(8) || scores_bytes(prefix.tokens) > SHARED_MEMORY {
        return Err(CudaError::Unsupported(format!(
            "queries of heads of size {} after {} tokens; accepted: multiples of 8, up to 512 tokens",
            prefix.size, prefix.tokens
        )));
    }
    let weighting = prefix.kind.weighting as usize;
    let defines = [("HEADS", prefix.heads), ("HEAD_DIM", prefix.size), ("WEIGHTING", weighting)];
    Ok(KernelSource::new("query_attention", precision, &defines, kernels::QUERY_ATTENTION))
}

/// What the kernels of an LSTM's queries are compiled from.
pub(super) fn lstm_source(op: &LstmQuery, precision: Precision) -> KernelSource {
    KernelSource::new("lstm_query", precision, &[("WIDTH", op.prefix.width)], kernels::LSTM_QUERY)
}

/// Bytes of a block's scores over a prefix and the query itself.
fn scores_bytes(tokens: usize) -> usize {
    WARPS * QUERIES * (tokens + 1) * size_of::<f32>()
}

impl Lowering<'_> {
    fn prefix(&self) -> Result<&PrefixBuffers, CudaError> {
        self.prefix.as_ref().ok_or_else(|| CudaError::Unsupported("queries without a prefix".into()))
    }

    /// Where kernels read how many tokens of the prefix queries see.
    pub(super) fn seen(&self) -> Result<Pointer, CudaError> {
        Ok(self.prefix()?.seen.pointer(1)?)
    }

    /// A value of the prefix.
    fn of_prefix(&self, var: Var) -> Result<StorageBuffer, CudaError> {
        let value = self.prefix()?.values.get(var.0).copied().flatten();
        value.ok_or_else(|| CudaError::Unsupported("a prefix that keeps no cache".into()))
    }

    pub(super) fn query_attention(&mut self, op: &QueryAttention) -> Result<(), CudaError> {
        let (prefix, storage) = (&op.prefix, self.storage());
        let tokens = self.prefix()?.tokens;
        let all = prefix.batch * op.queries * prefix.width();
        let cached = prefix.batch * tokens * 3 * prefix.width();
        let pointers = [
            self.store("query attention z", op.out, storage)?.pointer(all)?,
            self.in_storage(op.qkv)?.pointer(3 * all)?,
            self.of_prefix(prefix.qkv)?.of(storage)?.pointer(cached)?,
            self.seen()?,
        ];
        let numbers = [op.queries, tokens].map(Argument::from);
        let arguments = [&pointers.map(Argument::from)[..], &numbers].concat();
        if self.query_kernels.is_none() {
            self.query_kernels = Some(self.device.compile(&attention_source(op, self.precision)?)?);
        }
        let kernels = self.query_kernels.as_ref().expect("compiled above");
        let blocks = prefix.batch * prefix.heads * op.queries.div_ceil(WARPS * QUERIES);
        let grid = [blocks, WARPS * 32];
        let launch = Launch::with_shared(kernels, "query_attention", grid, scores_bytes(tokens), arguments)?;
        self.commands.push(launch.pdl(true).on(MAIN));
        Ok(())
    }

    /// The recurrent part of the gates is one product per prompt, which all its queries share.
    pub(super) fn lstm_query(&mut self, op: &LstmQuery) -> Result<(), CudaError> {
        let &LstmLayer { batch, inner, width, .. } = &op.prefix;
        let (tokens, rows) = (self.prefix()?.tokens, batch * op.queries);
        if self.query_kernels.is_none() {
            self.query_kernels = Some(self.device.compile(&lstm_source(op, self.precision))?);
        }
        let h = self.storage_buffer("LSTM state of the prefix", batch * width)?;
        let prefix_h = self.of_prefix(op.prefix.out)?.float()?.pointer(batch * tokens * width)?;
        let arguments = [h.pointer(batch * width)?, prefix_h, self.seen()?].map(Argument::from);
        self.launch_query("lstm_prefix", batch, &[&arguments[..], &[tokens.into()]].concat())?;

        let prefix_gates =
            StorageBuffer::Float(self.float_buffer("LSTM gates of the prefix", batch * 4 * width)?);
        let w = DeviceMatrix::new(self.weights(op.prefix.w_hh)?, 4 * width, width).t();
        let out = DeviceMatrix::new(prefix_gates, batch, 4 * width);
        self.matmul_or_fail(MAIN, out, [DeviceMatrix::new(h, batch, width), w])?;
        let gates = StorageBuffer::Float(self.store_float("LSTM gates of queries", op.gates)?);
        let x = DeviceMatrix::new(self.in_storage(op.x)?, rows, inner);
        let w = DeviceMatrix::new(self.weights(op.prefix.w_ih)?, 4 * width, inner).t();
        self.matmul_or_fail(MAIN, DeviceMatrix::new(gates, rows, 4 * width), [x, w])?;

        let pointers = [
            self.store_float("LSTM queries out", op.out)?.pointer(rows * width)?,
            self.storage_copy("LSTM queries out, stored", op.out)?.pointer(rows * width)?,
            gates.pointer(rows * 4 * width)?,
            prefix_gates.pointer(batch * 4 * width)?,
            self.param(op.prefix.b_ih)?.pointer(4 * width)?,
            self.param(op.prefix.b_hh)?.pointer(4 * width)?,
            self.of_prefix(op.prefix.cells)?.float()?.pointer(batch * tokens * width)?,
            self.seen()?,
        ];
        let numbers = [op.queries, tokens].map(Argument::from);
        self.launch_query("lstm_query", rows, &[&pointers.map(Argument::from)[..], &numbers].concat())
    }

    fn launch_query(
        &mut self,
        name: &'static str,
        blocks: usize,
        arguments: &[Argument],
    ) -> Result<(), CudaError> {
        let kernels = self.query_kernels.as_ref().expect("compiled before");
        let launch = Launch::new(kernels, name, [blocks, THREADS], arguments.to_vec())?;
        self.commands.push(launch.pdl(true).on(MAIN));
        Ok(())
    }
}
