//! Hidden states read out on the device: of a state of many values one number is wanted, and only that leaves the device.

use super::buffer::DeviceBuffer;
use super::error::CudaError;
use super::graph::{Argument, Command, Launch, MAIN};
use super::memory::DeviceMemory;
use super::runner::CudaRunner;
use crate::error::check_len;
use crate::model::ops::{Op, ReadOut};

/// An affine map from a hidden state to a number, in double precision.
#[derive(Debug, Clone)]
pub struct StateReader<'a> {
    /// Which hidden state; none is what the network's own read-out reads.
    pub layer: Option<usize>,
    /// One weight per value of the state, then a constant.
    pub affine: &'a [f64],
    /// Whether the state is normalised first: (h − mean) / std.
    pub normalised: bool,
}

/// The readers of a runner, with what they read into.
#[derive(Default)]
pub(super) struct StateReaders {
    commands: Vec<Command>,
    values: Option<DeviceBuffer<f64>>,
    /// Affine maps and values, held as long as the commands are.
    memory: Option<DeviceMemory>,
}

impl CudaRunner {
    /// From now on, [`CudaRunner::read`] reads hidden states so; earlier readers end.
    pub fn set_readers(&mut self, readers: &[StateReader]) -> Result<(), CudaError> {
        let count = self.graph().plan.len_of(self.graph().predictions);
        let mut memory = self.lowered.memory.beside();
        let values = memory.zeros("values of readers", readers.len() * count)?;
        let mut commands = Vec::new();
        for (i, reader) in readers.iter().enumerate() {
            let out = values.part(i * count..(i + 1) * count)?;
            commands.push(self.reader_command(&mut memory, reader, out)?);
        }
        self.readers = StateReaders { commands, values: Some(values), memory: Some(memory) };
        Ok(())
    }

    /// Reads the hidden states of the last forward pass at every prediction, `[readers, batch, points]`.
    pub fn read(&self) -> Result<Vec<f64>, CudaError> {
        let StateReaders { commands, values: Some(values), memory: Some(memory) } = &self.readers else {
            return Ok(Vec::new());
        };
        self.streams.enqueue(commands)?;
        memory.values(*values)
    }

    fn reader_command(
        &self,
        memory: &mut DeviceMemory,
        reader: &StateReader,
        out: DeviceBuffer<f64>,
    ) -> Result<Command, CudaError> {
        const WARPS: usize = 8;
        let graph = self.graph();
        let of_op = |op: &Op| if let Op::ReadOut(op) = op { Some(*op) } else { None };
        let op = graph.plan.ops().iter().find_map(of_op);
        let Some(ReadOut { tokens, stride, .. }) = op else {
            return Err(CudaError::Unsupported("a network without a read-out".into()));
        };
        let state = match reader.layer {
            None => graph.last,
            Some(layer) => *graph.hidden.get(layer).ok_or_else(|| {
                CudaError::Unsupported(format!("layer {layer}; accepted: 0 to {}", graph.hidden.len() - 1))
            })?,
        };
        let rows = graph.batch * tokens;
        let width = graph.plan.len_of(state) / rows;
        check_len("a reader", reader.affine.len(), width + 1, || format!("{width} weights and a constant"))?;
        let affine = memory.filled("a reader's affine map", reader.affine)?;
        let state = self.lowered.values[state.0].expect("computed by the plan").float()?;
        let pointers = [out.pointer(out.len())?, state.pointer(rows * width)?, affine.pointer(width + 1)?];
        let numbers = [out.len(), tokens.div_ceil(stride), tokens, stride, usize::from(reader.normalised)];
        let arguments = [&pointers.map(Argument::from)[..], &numbers.map(Argument::from)].concat();
        let grid = [out.len().div_ceil(WARPS), WARPS * 32];
        Ok(Launch::new(&self.lowered.kernels, "read_states", grid, arguments)?.pdl(true).on(MAIN))
    }
}
