//! A stack of LSTM layers as a wavefront, diagonal by diagonal: one launch for all layers that have a token there. Where all blocks fit on
//! the device at once, with their weights in shared memory, one launch for everything does the same (`lstm_persistent`).

use std::ops::Range;

use super::lstm_persistent::{Direction, Persistent};
use super::{Lowering, Partials};
use crate::cuda::Precision;
use crate::cuda::buffer::{DeviceBuffer, Pointer, StorageBuffer};
use crate::cuda::compiler::{KernelSource, Kernels};
use crate::cuda::device::DeviceInfo;
use crate::cuda::error::CudaError;
use crate::cuda::graph::{ABSENT, Argument, Launch, MAIN};
use crate::cuda::kernels;
use crate::cuda::matrix::DeviceMatrix;
use crate::model::ops::{LstmLayer, Op};
use crate::model::plan::Mode;

/// The layers of a plan with what their kernels need.
pub(super) struct Stack {
    pub(super) layers: Vec<LstmLayer>,
    pub(super) kernels: Kernels,
    pub(super) tiling: Tiling,
    /// Where one launch can do everything.
    pub(super) persistent: Option<Persistent>,
    /// One row of [`POINTERS`] per layer.
    table: DeviceBuffer<Pointer>,
    /// By layer; empty in inference.
    saved: Vec<SavedLayer>,
}

/// Pointers of a layer, as in the kernels.
const POINTERS: usize = 13;

/// What the forward pass saves of a layer, and where its gradients go.
#[derive(Clone, Copy)]
struct SavedLayer {
    x: StorageBuffer,
    previous: StorageBuffer,
    dgates: StorageBuffer,
    dbias: DeviceBuffer<f32>,
}

/// The tile of a block and the cp.async pipeline, as the kernels' source computes them.
pub(super) struct Tiling {
    /// Hidden units of a block.
    pub(super) units: usize,
    /// Prompts of a block.
    pub(super) rows: usize,
    /// Stages of the operands in shared memory.
    pub(super) stages: usize,
    /// Blocks per layer.
    pub(super) blocks: usize,
    pub(super) forward: Block,
    pub(super) backward: Block,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) threads: usize,
    /// Bytes of shared memory.
    pub(super) shared: usize,
}

impl Tiling {
    fn new(op: &LstmLayer, precision: Precision, available: usize) -> Result<Tiling, CudaError> {
        let units = [32, 16, 8].into_iter().find(|units| op.width.is_multiple_of(*units));
        let units = units.ok_or_else(|| {
            CudaError::Unsupported(format!("an LSTM of width {}; accepted: multiples of 8", op.width))
        })?;
        let rows = if op.batch <= 32 { 32 } else { 64 };
        let bytes = precision.bytes();
        let (chunk, across) = (128 / bytes, 16 / bytes);
        let forward = (rows + 4 * units) * (chunk + 8) * bytes;
        let backward = (rows * (2 * chunk + 8) + 2 * chunk * (units + across)) * bytes;
        let stages = [4, 3].into_iter().find(|stages| stages * forward.max(backward) <= available);
        let stages = stages.ok_or_else(|| {
            CudaError::Unsupported(format!("an LSTM in {available} bytes of shared memory per block"))
        })?;
        let sums = 4 * (4 * rows * (units + 8) + 4 * 4 * rows);
        Ok(Tiling {
            units,
            rows,
            stages,
            blocks: op.width / units * op.batch.div_ceil(rows),
            forward: Block { threads: units / 8 * rows, shared: stages * forward },
            backward: Block { threads: 4 * rows, shared: (stages * backward).max(sums) },
        })
    }

    /// Tiles of prompts.
    pub(super) fn tiles(&self, op: &LstmLayer) -> usize {
        op.batch.div_ceil(self.rows)
    }
}

/// What the kernels for a layer are compiled from, on a device whose blocks have `available` bytes of shared memory.
pub(super) fn source(
    op: &LstmLayer,
    precision: Precision,
    device: &DeviceInfo,
) -> Result<KernelSource, CudaError> {
    let tiling = Tiling::new(op, precision, device.shared_memory)?;
    let defines = [
        ("WIDTH", op.width),
        ("UNITS", tiling.units),
        ("ROWS", tiling.rows),
        ("STAGES", tiling.stages),
        ("STAGED", 1),
    ];
    let persistent = match tiling.keeping_weights(op, precision, device) {
        Some(_) => kernels::LSTM_PERSISTENT,
        None => &[],
    };
    Ok(KernelSource::new("lstm", precision, &defines, &[kernels::LSTM, persistent].concat()))
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

    /// One launch for the layers that have a token on a diagonal.
    fn diagonal(
        &self,
        name: &'static str,
        block: Block,
        layers: usize,
        arguments: Vec<Argument>,
    ) -> Result<Launch, CudaError> {
        let grid = [layers * self.tiling.blocks, block.threads];
        Ok(Launch::with_shared(&self.kernels, name, grid, block.shared, arguments)?.pdl(true))
    }

    fn table(&self) -> Result<Argument, CudaError> {
        Ok(self.table.pointer(POINTERS * self.layers.len())?.into())
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
        let info = &self.device.info;
        let tiling = Tiling::new(&first, self.precision, info.shared_memory)?;
        let kernels = self.device.compile(&source(&first, self.precision, info)?)?;
        let persistent = self.persistent_lstm(&layers, &tiling)?;
        let (mut rows, mut saved) = (Vec::new(), Vec::new());
        for layer in &layers {
            rows.extend(self.lstm_layer(layer, &tiling, &mut saved)?);
        }
        let table = self.memory.filled("table of LSTM layers", &rows)?;
        let stack = Stack { layers, kernels, tiling, persistent, table, saved };
        let table = stack.table()?;
        let of_diagonal = |diagonal| {
            let active = stack.active(diagonal);
            let numbers = [active.start, diagonal, first.batch, first.tokens].map(Into::into);
            let arguments = [&[table], &numbers[..]].concat();
            stack.diagonal("lstm_forward", stack.tiling.forward, active.len(), arguments)
        };
        let diagonals: Vec<Launch> = stack.diagonals().map(of_diagonal).collect::<Result<_, _>>()?;
        match self.in_one_launch(&stack, Direction::Forward, &[table], &diagonals)? {
            Some(launch) => self.commands.push(launch.on(MAIN)),
            None => self.commands.extend(diagonals.into_iter().map(|launch| launch.on(MAIN))),
        }
        self.lstm = Some(stack);
        Ok(())
    }

    /// Makes a layer's buffers; returns its pointers in the order of `Layer` in the kernels.
    fn lstm_layer(
        &mut self,
        op: &LstmLayer,
        tiling: &Tiling,
        saved: &mut Vec<SavedLayer>,
    ) -> Result<[Pointer; POINTERS], CudaError> {
        let width = op.width;
        let all = op.batch * op.tokens * width;
        let x = self.in_storage(op.x)?;
        let forward = [
            x.pointer(all)?,
            self.weights(op.w_ih)?.pointer(4 * width * width)?,
            self.weights(op.w_hh)?.pointer(4 * width * width)?,
            self.param(op.b_ih)?.pointer(4 * width)?,
            self.param(op.b_hh)?.pointer(4 * width)?,
            self.store_float("LSTM out", op.out)?.pointer(all)?,
            self.storage_copy("LSTM out, stored", op.out)?.pointer(all)?,
            self.store_float("LSTM cells", op.cells)?.pointer(all)?,
        ];
        let mut training = [ABSENT; 5];
        if self.graph.mode == Mode::Train {
            let gates = self.store_float("LSTM gates", op.gates)?;
            let previous = self.store("LSTM previous out", op.previous, self.storage())?;
            let dgates = self.storage_buffer("LSTM gradient of gates", 4 * all)?;
            let dcell = self.float_buffer("LSTM gradient of cells", op.batch * width)?;
            let sums = 4 * width * op.tokens * tiling.tiles(op);
            let dbias = self.float_buffer("LSTM bias partials", sums)?;
            training = [
                gates.pointer(4 * all)?,
                previous.pointer(all)?,
                dgates.pointer(4 * all)?,
                dcell.pointer(op.batch * width)?,
                dbias.pointer(sums)?,
            ];
            saved.push(SavedLayer { x, previous, dgates, dbias });
        }
        let [x, w_ih, w_hh, b_ih, b_hh, out, out_storage, cells] = forward;
        let [gates, previous, dgates, dcell, dbias] = training;
        Ok([x, w_ih, w_hh, b_ih, b_hh, out, out_storage, cells, gates, previous, dgates, dcell, dbias])
    }

    /// A layer's weights get their gradients as soon as its first token is reached: diagonals are walked in reverse.
    pub(super) fn lstm_backward(&mut self) -> Result<(), CudaError> {
        let stack = self.lstm.take().expect("the forward pass was lowered before");
        let (count, first) = (stack.layers.len(), stack.layers[0]);
        let dout =
            self.gradient(stack.layers[count - 1].out).pointer(first.batch * first.tokens * first.width)?;
        let pointers = [stack.table()?, dout.into()];
        let of_diagonal = |diagonal| {
            let active = stack.active(diagonal);
            let numbers = [count, active.start, diagonal, first.batch, first.tokens].map(Argument::from);
            let arguments = [&pointers[..], &numbers].concat();
            stack.diagonal("lstm_backward", stack.tiling.backward, active.len(), arguments)
        };
        let diagonals: Vec<Launch> = stack.diagonals().rev().map(of_diagonal).collect::<Result<_, _>>()?;
        match self.in_one_launch(&stack, Direction::Backward, &pointers, &diagonals)? {
            Some(launch) => {
                self.commands.push(launch.on(MAIN));
                for layer in (0..count).rev() {
                    self.lstm_weights(&stack, layer, stack.tiling.tiles(&first))?;
                }
            }
            None => {
                for (diagonal, launch) in stack.diagonals().rev().zip(diagonals) {
                    self.commands.push(launch.on(MAIN));
                    if diagonal < count {
                        self.lstm_weights(&stack, diagonal, first.tokens * stack.tiling.tiles(&first))?;
                    }
                }
            }
        }
        self.lstm_input(&stack)
    }

    /// The gradient of what the first layer reads.
    fn lstm_input(&mut self, stack: &Stack) -> Result<(), CudaError> {
        let first = stack.layers[0];
        let (rows, width) = (first.batch * first.tokens, first.width);
        let dx = self.new_gradient("LSTM dx", first.x)?;
        let d = DeviceMatrix::new(stack.saved[0].dgates, rows, 4 * width);
        let w = DeviceMatrix::new(self.weights(first.w_ih)?, 4 * width, width);
        self.matmul_or_fail(MAIN, DeviceMatrix::new(dx, rows, width), [d, w])
    }

    /// Gradients of a layer's weights, on side streams, and of its biases, which share theirs, from as many sums as are given.
    fn lstm_weights(&mut self, stack: &Stack, layer: usize, sums: usize) -> Result<(), CudaError> {
        let (op, saved) = (stack.layers[layer], stack.saved[layer]);
        let (rows, width) = (op.batch * op.tokens, op.width);
        let d = DeviceMatrix::new(saved.dgates, rows, 4 * width);
        for (w, x) in [(op.w_ih, saved.x), (op.w_hh, saved.previous)] {
            let stream = self.side_stream();
            let out = DeviceMatrix::new(StorageBuffer::Float(self.dparam(w)?), 4 * width, width);
            self.matmul_or_fail(stream, out, [d.t(), DeviceMatrix::new(x, rows, width)])?;
        }
        let partials = Partials::new(saved.dbias, 0, [sums, 4 * width])?;
        for bias in [op.b_ih, op.b_hh] {
            self.reduce(self.dparam(bias)?, partials, 4 * width)?;
        }
        Ok(())
    }
}
