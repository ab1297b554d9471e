//! From the operations of a plan to commands for the device.
//!
//! Every value and every gradient has a buffer of its own: memory is plenty, and without sharing the side lanes may
//! lag behind. Gradients of biases, gains and the read-out are sums over rows that kernels leave in parts beside
//! their main work; one launch at the end adds up the parts of the whole network.

mod attention;
mod linear;
mod lstm;
mod rows;
mod wide;

use std::collections::HashMap;
use std::sync::Arc;

use super::Precision;
use super::compiler::{COMMON, GELU, KernelSource, Kernels, ROWS};
use super::device::{Device, Memory, Pointer};
use super::error::CudaError;
use super::product::{Fused, Kind, Matrix, Product, Terms};
use super::program::{Argument, Command, LANES, Launch, Work};
use crate::cpu::executor::Graph;
use crate::cpu::ops::Op;
use crate::model::parameters::Param;
use crate::model::plan::{Mode, Var};
use lstm::Stack;

/// Device buffers of one network's parameters, shared by programs of several shapes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameters {
    /// float32, the truth.
    pub params: Pointer,
    /// As the products read them; the same buffer except in bf16.
    pub rounded: Pointer,
    /// float32 gradients.
    pub grads: Pointer,
    /// The loss, one float32.
    pub loss: Pointer,
}

/// A value in device memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub at: Pointer,
    pub kind: Kind,
    pub len: usize,
}

/// Sums over rows, in parts: part p starts at `at + 4 p stride`.
#[derive(Debug, Clone, Copy)]
struct Parts {
    at: Pointer,
    parts: usize,
    stride: usize,
}

/// One row of the table that the kernel `add_parts` reads.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Sum {
    out: Pointer,
    from: Pointer,
    parts: i32,
    stride: i32,
    count: i32,
    first_block: i32,
}

/// A network's commands at one shape.
pub(crate) struct Lowered {
    pub forward: Vec<Command>,
    /// Empty in inference. Leaves gradients and the loss complete on lane 0.
    pub backward: Vec<Command>,
    /// By variable.
    pub values: Vec<Option<Place>>,
    pub memory: Memory,
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
    let defines = [("WIDTH", width(graph)?), ("FEATURES", graph.features)];
    Ok(KernelSource::new("rows", precision, &defines, &[COMMON, GELU, ROWS]))
}

/// What the kernels of a graph are compiled from.
pub(crate) fn sources(
    device: &Device,
    precision: Precision,
    graph: &Graph,
) -> Result<Vec<KernelSource>, CudaError> {
    let of_op = |op: &Op| match op {
        Op::Attention(op) => Some(attention::source(op, precision, graph.mode, device.block_memory)),
        Op::LstmLayer(op) => Some(lstm::source(op, precision, device.block_memory)),
        Op::Linear(op) => wide::source(op, precision, device).map(Ok),
        _ => None,
    };
    std::iter::once(rows_source(precision, graph)).chain(graph.plan.ops().iter().filter_map(of_op)).collect()
}

/// Lowers a graph.
pub(crate) fn lower(
    device: &Arc<Device>,
    precision: Precision,
    graph: &Graph,
    parameters: Parameters,
    memory: Memory,
) -> Result<Lowered, CudaError> {
    let width = width(graph)?;
    let kernels = device.compile(&rows_source(precision, graph)?)?;
    let count = graph.plan.places.len();
    let mut lowering = Lowering {
        device,
        precision,
        graph,
        parameters,
        memory,
        kernels,
        attention: None,
        wides: HashMap::new(),
        slopes: HashMap::new(),
        lstm: None,
        width,
        values: vec![None; count],
        halves: HashMap::new(),
        gradients: vec![None; count],
        bias_parts: HashMap::new(),
        sums: Vec::new(),
        commands: Vec::new(),
        side: 0,
    };
    for (var, kind) in [(Some(graph.input), Kind::Float), (graph.targets, Kind::Float)] {
        if let Some(var) = var {
            lowering.store(var, kind)?;
        }
    }
    let groups = graph.plan.ops().chunk_by(|a, b| matches!([a, b], [Op::LstmLayer(_), Op::LstmLayer(_)]));
    for group in groups.clone() {
        lowering.forward(group)?;
    }
    let forward = std::mem::take(&mut lowering.commands);
    if graph.mode == Mode::Train {
        for group in groups.rev() {
            lowering.backward(group)?;
        }
        lowering.commands.push(Command { lane: 0, work: Work::Join });
        lowering.add_parts()?;
    }
    let Lowering { commands: backward, values, memory, .. } = lowering;
    Ok(Lowered { forward, backward, values, memory })
}

struct Lowering<'a> {
    device: &'a Arc<Device>,
    precision: Precision,
    graph: &'a Graph,
    parameters: Parameters,
    memory: Memory,
    kernels: Kernels,
    attention: Option<Kernels>,
    /// By shape of the weights.
    wides: HashMap<wide::Shape, Kernels>,
    /// By variable that an activation leads to: its derivative, which the backward pass reads in place of what went in.
    slopes: HashMap<usize, Pointer>,
    lstm: Option<Stack>,
    width: usize,
    values: Vec<Option<Place>>,
    /// By variable: the copy that products read of a value that is float32 for everyone else.
    halves: HashMap<usize, Pointer>,
    /// By variable; as the products read it.
    gradients: Vec<Option<Pointer>>,
    /// By variable: the sum over rows of the variable's gradient, where a kernel computes it on the way.
    bias_parts: HashMap<usize, Parts>,
    sums: Vec<Sum>,
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

    /// How activations are stored.
    fn half(&self) -> Kind {
        Kind::half(self.precision)
    }

    /// Makes the buffer of a value; temporaries that share a variable share the buffer.
    fn store(&mut self, var: Var, kind: Kind) -> Result<Pointer, CudaError> {
        if let Some(place) = self.values[var.0] {
            return Ok(place.at);
        }
        let len = self.graph.plan.len_of(var);
        let bytes = len * if kind == Kind::Float { 4 } else { self.precision.bytes() };
        let at = self.memory.zeros(bytes)?;
        self.values[var.0] = Some(Place { at, kind, len });
        Ok(at)
    }

    /// The buffer of a value that was computed before.
    fn value(&self, var: Var) -> Pointer {
        self.values[var.0].expect("operations are in order").at
    }

    /// A second buffer for a float32 value that products read, or the value itself where they read float32.
    fn half_copy(&mut self, var: Var) -> Result<Pointer, CudaError> {
        if self.half() == Kind::Float {
            return Ok(self.value(var));
        }
        let at = self.half_buffer(self.graph.plan.len_of(var))?;
        self.halves.insert(var.0, at);
        Ok(at)
    }

    /// A value as products read it.
    fn half_of(&self, var: Var) -> Result<Pointer, CudaError> {
        let place = self.values[var.0].expect("operations are in order");
        match self.halves.get(&var.0) {
            Some(at) => Ok(*at),
            None if place.kind == self.half() => Ok(place.at),
            None => Err(CudaError::Unsupported("a network that reads its residual stream directly".into())),
        }
    }

    /// A buffer of as many activations.
    fn half_buffer(&mut self, len: usize) -> Result<Pointer, CudaError> {
        self.memory.zeros(len * self.precision.bytes())
    }

    fn float_buffer(&mut self, len: usize) -> Result<Pointer, CudaError> {
        self.memory.zeros(4 * len)
    }

    /// A parameter in float32.
    fn param(&self, param: Param) -> Pointer {
        self.parameters.params + 4 * param.offset as u64
    }

    /// A parameter as the products read it.
    fn weights(&self, param: Param) -> Pointer {
        self.parameters.rounded + (self.precision.bytes() * param.offset) as u64
    }

    /// The gradient of a parameter.
    fn dparam(&self, param: Param) -> Pointer {
        self.parameters.grads + 4 * param.offset as u64
    }

    fn gradient(&self, var: Var) -> Pointer {
        self.gradients[var.0].expect("every value leads to the loss")
    }

    fn launch(
        &mut self,
        name: &'static str,
        blocks: usize,
        threads: usize,
        arguments: &[Argument],
    ) -> Result<(), CudaError> {
        self.launch_on(0, name, [blocks, threads], arguments)
    }

    fn launch_on(
        &mut self,
        lane: usize,
        name: &'static str,
        [blocks, threads]: [usize; 2],
        arguments: &[Argument],
    ) -> Result<(), CudaError> {
        let function = self.kernels.get(name, 0)?;
        // After a join there is more than one kernel to wait for.
        let joined = matches!(self.commands.last(), Some(Command { work: Work::Join, .. }));
        let launch = Launch {
            name,
            function,
            blocks: blocks as u32,
            threads: threads as u32,
            shared: 0,
            arguments: arguments.to_vec(),
            early: !joined,
        };
        self.commands.push(Command { lane, work: Work::Kernel(launch) });
        Ok(())
    }

    /// Adds out = x · y to the commands if the library offers it so fused; says whether.
    fn product(
        &mut self,
        lane: usize,
        out: Matrix,
        factors: [Matrix; 2],
        added: Option<Pointer>,
        fused: Fused,
    ) -> Result<bool, CudaError> {
        let product = Product::new(self.device, self.precision, out, factors, Terms::plus(added), fused)?;
        let Some(product) = product else { return Ok(false) };
        self.commands.push(Command { lane, work: Work::Product(product) });
        Ok(true)
    }

    /// Side lanes take turns.
    fn side_lane(&mut self) -> usize {
        self.side = self.side % (LANES - 1) + 1;
        self.side
    }

    /// out`[i]` = Σ over parts, for `count` values.
    fn sum_parts(&mut self, out: Pointer, parts: Parts, count: usize) {
        let first_block = self.sums.last().map_or(0, |last| last.first_block + (last.count + 31) / 32);
        let Parts { at, parts, stride } = parts;
        let [parts, stride, count] = [parts, stride, count].map(|n| n as i32);
        self.sums.push(Sum { out, from: at, parts, stride, count, first_block });
    }

    /// One launch for all sums over parts.
    fn add_parts(&mut self) -> Result<(), CudaError> {
        let Some(last) = self.sums.last() else { return Ok(()) };
        let blocks = last.first_block + (last.count + 31) / 32;
        let count = self.sums.len();
        let rows: Vec<u8> = self.sums.iter().flat_map(Sum::bytes).collect();
        let table = self.memory.filled(&rows)?;
        self.launch("add_parts", blocks as usize, 256, &[table.into(), count.into()])
    }

    /// Rows that one block sums over, such that two blocks per multiprocessor suffice.
    fn rows_per_block(&self, rows: usize) -> usize {
        let blocks = 2 * self.device.info.multiprocessors;
        rows.div_ceil(blocks).next_multiple_of(8).max(32)
    }
}

impl Sum {
    /// The row as the kernel reads it.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        bytes.extend(self.out.to_ne_bytes());
        bytes.extend(self.from.to_ne_bytes());
        for number in [self.parts, self.stride, self.count, self.first_block] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes
    }
}
