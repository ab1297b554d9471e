//! A stack of LSTM layers, diagonal by diagonal: one launch for all layers that have a token there.

use std::ops::Range;

use super::{Lowering, Parts};
use crate::cpu::ops::{LstmLayer, Op};
use crate::cuda::Precision;
use crate::cuda::compiler::{COMMON, FRAGMENTS, KernelSource, Kernels, LSTM};
use crate::cuda::device::Pointer;
use crate::cuda::error::CudaError;
use crate::cuda::product::{Fused, Kind, Matrix};
use crate::cuda::program::{Argument, Command, Launch, Work};
use crate::model::plan::Mode;

/// The layers of a plan with what their kernels need.
pub(super) struct Stack {
    layers: Vec<LstmLayer>,
    kernels: Kernels,
    sizes: Sizes,
    /// One row of pointers per layer.
    table: Pointer,
    /// By layer; empty in inference.
    kept: Vec<Kept>,
}

/// What the forward pass keeps of a layer, and where its gradients go.
#[derive(Clone, Copy)]
struct Kept {
    x: Pointer,
    previous: Pointer,
    dgates: Pointer,
    dbias: Pointer,
}

/// Sizes of the kernels, as their source computes them.
struct Sizes {
    /// Hidden units of a block.
    units: usize,
    /// Prompts of a block.
    rows: usize,
    /// Pieces of the operands in shared memory.
    stages: usize,
    /// Blocks per layer.
    blocks: usize,
    forward: Block,
    backward: Block,
}

struct Block {
    threads: usize,
    /// Bytes of shared memory.
    shared: usize,
}

impl Sizes {
    fn new(op: &LstmLayer, precision: Precision, block_memory: usize) -> Result<Sizes, CudaError> {
        let units = [32, 16, 8].into_iter().find(|units| op.width.is_multiple_of(*units));
        let units = units.ok_or_else(|| {
            CudaError::Unsupported(format!("an LSTM of width {}; accepted: multiples of 8", op.width))
        })?;
        let rows = if op.batch <= 32 { 32 } else { 64 };
        let bytes = precision.bytes();
        let (chunk, across) = (128 / bytes, 16 / bytes);
        let forward = (rows + 4 * units) * (chunk + 8) * bytes;
        let backward = (rows * (2 * chunk + 8) + 2 * chunk * (units + across)) * bytes;
        let stages = [4, 3].into_iter().find(|stages| stages * forward.max(backward) <= block_memory);
        let stages = stages
            .ok_or_else(|| CudaError::Unsupported("an LSTM with so little shared memory per block".into()))?;
        let sums = 4 * (4 * rows * (units + 8) + 4 * 4 * rows);
        Ok(Sizes {
            units,
            rows,
            stages,
            blocks: op.width / units * op.batch.div_ceil(rows),
            forward: Block { threads: units / 8 * rows, shared: stages * forward },
            backward: Block { threads: 4 * rows, shared: (stages * backward).max(sums) },
        })
    }
}

/// What the kernels for a layer are compiled from, on a device whose blocks may have so many bytes of shared memory.
pub(super) fn source(
    op: &LstmLayer,
    precision: Precision,
    block_memory: usize,
) -> Result<KernelSource, CudaError> {
    let sizes = Sizes::new(op, precision, block_memory)?;
    let defines = [
        ("WIDTH", op.width),
        ("UNITS", sizes.units),
        ("ROWS", sizes.rows),
        ("STAGES", sizes.stages),
        ("STAGED", 1),
    ];
    Ok(KernelSource::new("lstm", precision, &defines, &[COMMON, FRAGMENTS, LSTM]))
}

impl Stack {
    /// Layers that have a token on a diagonal: layer l has token `diagonal` − l.
    fn active(&self, diagonal: usize) -> Range<usize> {
        let tokens = self.layers[0].tokens;
        (diagonal + 1).saturating_sub(tokens)..self.layers.len().min(diagonal + 1)
    }

    fn diagonals(&self) -> Range<usize> {
        0..self.layers[0].tokens + self.layers.len() - 1
    }
}

impl Lowering<'_> {
    /// Lowers a run of operations that are all LSTM layers.
    pub(super) fn lstm(&mut self, ops: &[Op]) -> Result<(), CudaError> {
        let layers: Vec<LstmLayer> = ops
            .iter()
            .filter_map(|op| if let Op::LstmLayer(layer) = op { Some(*layer) } else { None })
            .collect();
        let first = layers[0];
        let chained = layers.windows(2).all(|pair| pair[1].x == pair[0].out);
        let alike = layers.iter().all(|l| l.inner == first.width && l.width == first.width);
        if !chained || !alike || self.lstm.is_some() {
            return Err(CudaError::Unsupported("LSTM layers other than one stack of one width".into()));
        }
        let sizes = Sizes::new(&first, self.precision, self.device.block_memory)?;
        let kernels = self.device.compile(&source(&first, self.precision, self.device.block_memory)?)?;
        let (mut rows, mut kept) = (Vec::new(), Vec::new());
        for layer in &layers {
            rows.extend(self.lstm_layer(layer, &sizes, &mut kept)?);
        }
        let bytes: Vec<u8> = rows.iter().flat_map(|pointer| pointer.to_ne_bytes()).collect();
        let table = self.memory.filled(&bytes)?;
        let stack = Stack { layers, kernels, sizes, table, kept };
        for diagonal in stack.diagonals() {
            let active = stack.active(diagonal);
            let numbers = [active.start, diagonal, first.batch, first.tokens].map(Into::into);
            let arguments = [&[stack.table.into()], &numbers[..]].concat();
            self.diagonal(&stack, "lstm_forward", &stack.sizes.forward, active.len(), arguments)?;
        }
        self.lstm = Some(stack);
        Ok(())
    }

    /// Makes a layer's buffers; returns its pointers in the order of `Layer` in the kernels.
    fn lstm_layer(
        &mut self,
        op: &LstmLayer,
        sizes: &Sizes,
        kept: &mut Vec<Kept>,
    ) -> Result<[Pointer; 13], CudaError> {
        let rows = op.batch * op.tokens;
        let x = self.half_of(op.x)?;
        let out = self.store(op.out, Kind::Float)?;
        let out_half = self.half_copy(op.out)?;
        let cells = self.store(op.cells, Kind::Float)?;
        let weights =
            [self.weights(op.w_ih), self.weights(op.w_hh), self.param(op.b_ih), self.param(op.b_hh)];
        let [w_ih, w_hh, b_ih, b_hh] = weights;
        let mut training = [0; 5];
        if self.graph.mode == Mode::Train {
            let gates = self.store(op.gates, Kind::Float)?;
            let previous = self.store(op.previous, self.half())?;
            let dgates = self.half_buffer(4 * rows * op.width)?;
            let dcell = self.float_buffer(op.batch * op.width)?;
            let parts = op.tokens * op.batch.div_ceil(sizes.rows);
            let dbias = self.float_buffer(4 * parts * op.width)?;
            training = [gates, previous, dgates, dcell, dbias];
            kept.push(Kept { x, previous, dgates, dbias });
        }
        let [gates, previous, dgates, dcell, dbias] = training;
        Ok([x, w_ih, w_hh, b_ih, b_hh, out, out_half, cells, gates, previous, dgates, dcell, dbias])
    }

    fn diagonal(
        &mut self,
        stack: &Stack,
        name: &'static str,
        block: &Block,
        layers: usize,
        arguments: Vec<Argument>,
    ) -> Result<(), CudaError> {
        let launch = Launch {
            name,
            function: stack.kernels.get(name, block.shared)?,
            blocks: (layers * stack.sizes.blocks) as u32,
            threads: block.threads as u32,
            shared: block.shared as u32,
            arguments,
            early: true,
        };
        self.commands.push(Command { lane: 0, work: Work::Kernel(launch) });
        Ok(())
    }

    /// Walks the diagonals back; a layer's weights get their gradients as soon as its first token is reached.
    pub(super) fn lstm_backward(&mut self) -> Result<(), CudaError> {
        let stack = self.lstm.take().expect("the forward pass was lowered before");
        let (count, first) = (stack.layers.len(), stack.layers[0]);
        let dout = self.gradient(stack.layers[count - 1].out);
        for diagonal in stack.diagonals().rev() {
            let active = stack.active(diagonal);
            let pointers = [stack.table, dout].map(Argument::from);
            let numbers = [count, active.start, diagonal, first.batch, first.tokens].map(Argument::from);
            let arguments = [&pointers[..], &numbers].concat();
            self.diagonal(&stack, "lstm_backward", &stack.sizes.backward, active.len(), arguments)?;
            if diagonal < count {
                self.lstm_weights(&stack, diagonal)?;
            }
        }
        let (rows, width) = (first.batch * first.tokens, first.width);
        let dx = self.half_buffer(rows * width)?;
        let d = Matrix::new(stack.kept[0].dgates, self.half(), rows, 4 * width);
        let w = Matrix::new(self.weights(first.w_ih), self.half(), 4 * width, width);
        self.product_or_fail(0, Matrix::new(dx, self.half(), rows, width), [d, w])?;
        self.gradients[first.x.0] = Some(dx);
        Ok(())
    }

    /// Gradients of a layer's weights, on side lanes, and of its biases, which share theirs.
    fn lstm_weights(&mut self, stack: &Stack, layer: usize) -> Result<(), CudaError> {
        let (op, kept) = (stack.layers[layer], stack.kept[layer]);
        let (rows, width) = (op.batch * op.tokens, op.width);
        let d = Matrix::new(kept.dgates, self.half(), rows, 4 * width);
        for (w, x) in [(op.w_ih, kept.x), (op.w_hh, kept.previous)] {
            let lane = self.side_lane();
            let out = Matrix::new(self.dparam(w), Kind::Float, 4 * width, width);
            self.product_or_fail(lane, out, [d.t(), Matrix::new(x, self.half(), rows, width)])?;
        }
        let parts = op.tokens * op.batch.div_ceil(stack.sizes.rows);
        let parts = Parts { at: kept.dbias, parts, stride: 4 * width };
        for bias in [op.b_ih, op.b_hh] {
            self.sum_parts(self.dparam(bias), parts, 4 * width);
        }
        Ok(())
    }

    fn product_or_fail(&mut self, lane: usize, out: Matrix, factors: [Matrix; 2]) -> Result<(), CudaError> {
        let (rows, columns) = (out.rows, out.columns);
        if self.product(lane, out, factors, None, Fused::Nothing)? {
            return Ok(());
        }
        Err(CudaError::Unsupported(format!("cuBLASLt offers no product for {rows} by {columns} values")))
    }
}
