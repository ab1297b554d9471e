//! From the operations of a plan to commands for the device.
//!
//! Every value and every gradient has a buffer of its own: memory is plenty, and without sharing the side streams may
//! lag behind. Gradients of biases, gains and the read-out are sums over rows that kernels leave as partials beside
//! their main work; one launch at the end reduces the partials of the whole network.

mod attention;
mod commands;
mod layer_norm;
mod linear;
mod lstm;
mod lstm_persistent;
mod mlp_hopper;
mod norm_hopper;
mod parts;
mod query;
mod read_in;
mod read_out;
mod reduce;
mod stacks;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Precision;
use super::buffer::{BufferError, DType, DeviceBuffer, StorageBuffer};
use super::compiler::{KernelSource, Kernels};
use super::device::{Device, DeviceInfo};
use super::error::CudaError;
use super::graph::Command;
use super::kernels;
use super::memory::DeviceMemory;
use crate::model::graph::Graph;
use crate::model::ops::Op;
use crate::model::parameters::Param;
use crate::model::plan::{Mode, Var};
use commands::unsupported;
use lstm::Stack;
pub(crate) use parts::ForwardPart;
pub(crate) use query::PrefixBuffers;
use reduce::{Partials, Reduction};
use stacks::Stacks;

/// Device buffers of one network's parameters, shared by commands of several shapes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceParameters {
    /// The master weights.
    pub params: DeviceBuffer<f32>,
    /// In the storage type, as the matmuls read them; the same buffer except in bf16.
    pub rounded: StorageBuffer,
    /// Gradients.
    pub grads: DeviceBuffer<f32>,
    /// The loss, one number.
    pub loss: DeviceBuffer<f32>,
}

/// Threads of kernels with a warp per row, and rows per block.
const WARP_ROW_THREADS: usize = 256;
const WARP_ROWS: usize = 8;

/// A network's commands at one shape.
pub(crate) struct Lowered {
    pub forward: Vec<Command>,
    /// By operation of the plan: the first of its commands in `forward`; and at last their number.
    pub starts: Vec<usize>,
    /// All of `forward`, cut for the optimiser.
    pub parts: Vec<ForwardPart>,
    /// Empty in inference. Leaves gradients and the loss complete on the main stream.
    pub backward: Vec<Command>,
    /// By variable.
    pub values: Vec<Option<StorageBuffer>>,
    pub memory: DeviceMemory,
    /// Those with a row of the residual stream per warp or block.
    pub kernels: Kernels,
}

/// Width of the residual stream.
fn width(graph: &Graph) -> Result<usize, CudaError> {
    let width = match graph.plan.ops().first() {
        Some(Op::Linear(read_in)) if read_in.x == graph.input => read_in.outer,
        _ => return Err(CudaError::Unsupported("it does not begin with a linear read-in".into())),
    };
    if !width.is_multiple_of(8) || width > 1024 {
        return Err(CudaError::Unsupported(format!("width = {width}; accepted: multiples of 8 up to 1024")));
    }
    Ok(width)
}

fn rows_source(precision: Precision, graph: &Graph) -> Result<KernelSource, CudaError> {
    let float_stream = usize::from(layer_norm::keeps_stream_in_float(graph, precision));
    let defines = [("WIDTH", width(graph)?), ("FEATURES", graph.features), ("FLOAT_STREAM", float_stream)];
    Ok(KernelSource::new("rows", precision, &defines, kernels::ROWS))
}

/// What the kernels of a graph are compiled from.
pub(crate) fn sources(
    device: &DeviceInfo,
    precision: Precision,
    graph: &Graph,
) -> Result<Vec<KernelSource>, CudaError> {
    let of_op = |op: &Op| match op {
        Op::Attention(op) => Some(attention::source(op, precision, graph.mode, device.shared_memory)),
        Op::LstmLayer(op) => Some(lstm::source(op, precision, device)),
        Op::QueryAttention(op) => Some(query::attention_source(op, precision)),
        Op::LstmQuery(op) => Some(Ok(query::lstm_source(op, precision))),
        Op::Linear(op) => mlp_hopper::source(op, precision, device).map(Ok),
        _ => None,
    };
    let norms = norm_hopper::sources(graph, precision, device).into_iter().map(Ok);
    let ops = graph.plan.ops().iter().filter_map(of_op).chain(norms);
    std::iter::once(rows_source(precision, graph)).chain(ops).collect()
}

/// Lowers a graph; one of queries with the prefix that they follow.
pub(crate) fn lower(
    device: &Arc<Device>,
    precision: Precision,
    graph: &Graph,
    parameters: DeviceParameters,
    prefix: Option<PrefixBuffers>,
    memory: DeviceMemory,
) -> Result<Lowered, CudaError> {
    let width = width(graph)?;
    let kernels = device.compile(&rows_source(precision, graph)?)?;
    let count = graph.plan.buffers.len();
    let mut lowering = Lowering {
        device,
        precision,
        graph,
        parameters,
        prefix,
        memory,
        kernels,
        attention: None,
        query_kernels: None,
        mlp_kernels: HashMap::new(),
        norm_kernels: HashMap::new(),
        fused_norms: HashSet::new(),
        fused_norm_gradients: HashSet::new(),
        saved_derivatives: HashMap::new(),
        lstm: None,
        width,
        values: vec![None; count],
        storage_copies: HashMap::new(),
        stacks: Stacks::of(graph),
        gradients: vec![None; count],
        float_stream: layer_norm::keeps_stream_in_float(graph, precision),
        stream_gradients: HashMap::new(),
        bias_partials: HashMap::new(),
        reductions: Vec::new(),
        commands: Vec::new(),
        side: 0,
    };
    for var in [Some(graph.input), graph.targets].into_iter().flatten() {
        lowering.store("input", var, DType::Float)?;
    }
    let groups = graph.plan.ops().chunk_by(|a, b| matches!([a, b], [Op::LstmLayer(_), Op::LstmLayer(_)]));
    let mut starts = Vec::new();
    for group in groups.clone() {
        starts.extend(group.iter().map(|_| lowering.commands.len()));
        lowering.forward(group)?;
    }
    starts.push(lowering.commands.len());
    let forward = std::mem::take(&mut lowering.commands);
    if graph.mode == Mode::Train {
        for group in groups.rev() {
            lowering.backward(group)?;
        }
        // Beside the last gradients of weights, which it does not need.
        lowering.reduce_partials()?;
        lowering.commands.push(Command::JOIN);
    }
    let Lowering { commands: backward, values, memory, kernels, .. } = lowering;
    let parts = parts::parts(graph, &starts);
    Ok(Lowered { forward, starts, parts, backward, values, memory, kernels })
}

struct Lowering<'a> {
    device: &'a Arc<Device>,
    precision: Precision,
    graph: &'a Graph,
    parameters: DeviceParameters,
    /// What queries follow.
    prefix: Option<PrefixBuffers>,
    memory: DeviceMemory,
    kernels: Kernels,
    attention: Option<Kernels>,
    /// Those of query attention or of an LSTM's queries.
    query_kernels: Option<Kernels>,
    /// By shape of the weights.
    mlp_kernels: HashMap<mlp_hopper::Shape, Kernels>,
    norm_kernels: HashMap<norm_hopper::Shape, Kernels>,
    /// LayerNorms, by their output, that a matmul before them computes; and those whose gradient the matmul after them does.
    fused_norms: HashSet<usize>,
    fused_norm_gradients: HashSet<usize>,
    /// By variable that an activation leads to: its derivative, which the backward pass reads in place of the pre-activation.
    saved_derivatives: HashMap<usize, DeviceBuffer<u8>>,
    lstm: Option<Stack>,
    width: usize,
    values: Vec<Option<StorageBuffer>>,
    /// By variable: the copy in the storage type that matmuls read of a value that is float32 for everyone else.
    storage_copies: HashMap<usize, StorageBuffer>,
    /// Layers whose weight gradients are computed at once.
    stacks: Stacks,
    /// By variable; in the storage type.
    gradients: Vec<Option<StorageBuffer>>,
    /// Whether the gradient of the residual stream, to which every LayerNorm adds its own, is float32 between kernels; and that
    /// gradient, by variable.
    float_stream: bool,
    stream_gradients: HashMap<usize, DeviceBuffer<f32>>,
    /// By variable: partial sums over rows of the variable's gradient, where a kernel computes them on the way.
    bias_partials: HashMap<usize, Partials>,
    reductions: Vec<Reduction>,
    commands: Vec<Command>,
    side: usize,
}

impl Lowering<'_> {
    /// One operation, or a stack of layers that is lowered as a whole.
    fn forward(&mut self, group: &[Op]) -> Result<(), CudaError> {
        match &group[0] {
            Op::LstmLayer(_) => self.lstm(group),
            Op::Linear(op) if op.x == self.graph.input => self.read_in(op),
            Op::Linear(op) => self.linear(op),
            Op::LayerNorm(op) => self.layer_norm(op),
            Op::Attention(op) => self.attention(op),
            Op::QueryAttention(op) => self.query_attention(op),
            Op::LstmQuery(op) => self.lstm_query(op),
            Op::ReadOut(op) => self.read_out(op),
            // The loss is computed with its gradient.
            Op::MeanSquare(_) => Ok(()),
            other => Err(CudaError::Unsupported(format!("operation '{}'", other.label()))),
        }
    }

    fn backward(&mut self, group: &[Op]) -> Result<(), CudaError> {
        match &group[0] {
            Op::LstmLayer(_) => self.lstm_backward(),
            Op::Linear(op) if op.x == self.graph.input => self.read_in_backward(op),
            Op::Linear(op) => self.linear_backward(op),
            Op::LayerNorm(op) => self.layer_norm_backward(op),
            Op::Attention(op) => self.attention_backward(op),
            Op::ReadOut(op) => self.loss_backward(op),
            Op::MeanSquare(_) => Ok(()),
            other => Err(CudaError::Unsupported(format!("operation '{}'", other.label()))),
        }
    }

    /// The storage type of activations.
    fn storage(&self) -> DType {
        DType::storage(self.precision)
    }

    /// Makes the buffer of a value; temporaries that share a variable share the buffer.
    fn store(&mut self, label: &'static str, var: Var, dtype: DType) -> Result<StorageBuffer, CudaError> {
        if let Some(buffer) = self.values[var.0] {
            return Ok(buffer.of(dtype)?);
        }
        let buffer = match self.stacked_input(label, var, dtype)? {
            Some(buffer) => buffer,
            None => self.memory.storage(label, dtype, self.graph.plan.len_of(var))?,
        };
        self.values[var.0] = Some(buffer);
        Ok(buffer)
    }

    /// The same of a value that is float32 in every precision.
    fn store_float(&mut self, label: &'static str, var: Var) -> Result<DeviceBuffer<f32>, CudaError> {
        Ok(self.store(label, var, DType::Float)?.float()?)
    }

    /// The buffer of a value that was computed before.
    fn value(&self, var: Var) -> StorageBuffer {
        self.values[var.0].expect("operations are in order")
    }

    /// The same of a value that is float32 in every precision.
    fn float_value(&self, var: Var) -> Result<DeviceBuffer<f32>, BufferError> {
        self.value(var).float()
    }

    /// A second buffer, in the storage type, for a float32 value that matmuls read; the value itself where that is float32.
    fn storage_copy(&mut self, label: &'static str, var: Var) -> Result<StorageBuffer, CudaError> {
        if self.storage() == DType::Float {
            return Ok(self.value(var));
        }
        let buffer = self.storage_buffer(label, self.graph.plan.len_of(var))?;
        self.storage_copies.insert(var.0, buffer);
        Ok(buffer)
    }

    /// A value in the storage type, as matmuls read it.
    fn in_storage(&self, var: Var) -> Result<StorageBuffer, CudaError> {
        let buffer = self.value(var);
        match self.storage_copies.get(&var.0) {
            Some(copy) => Ok(*copy),
            None if buffer.dtype() == self.storage() => Ok(buffer),
            None => Err(CudaError::Unsupported("a network that reads its residual stream directly".into())),
        }
    }

    /// A buffer of `len` values in the storage type.
    fn storage_buffer(&mut self, label: &'static str, len: usize) -> Result<StorageBuffer, CudaError> {
        self.memory.storage(label, self.storage(), len)
    }

    fn float_buffer(&mut self, label: &'static str, len: usize) -> Result<DeviceBuffer<f32>, CudaError> {
        self.memory.zeros(label, len)
    }

    /// A parameter in float32.
    fn param(&self, param: Param) -> Result<DeviceBuffer<f32>, BufferError> {
        self.parameters.params.part(param.range())
    }

    /// A parameter in the storage type, as the matmuls read it.
    fn weights(&self, param: Param) -> Result<StorageBuffer, BufferError> {
        self.parameters.rounded.part(param.range())
    }

    /// The gradient of a parameter.
    fn dparam(&self, param: Param) -> Result<DeviceBuffer<f32>, BufferError> {
        self.parameters.grads.part(param.range())
    }

    fn gradient(&self, var: Var) -> StorageBuffer {
        self.gradients[var.0].expect("every value leads to the loss")
    }
}
