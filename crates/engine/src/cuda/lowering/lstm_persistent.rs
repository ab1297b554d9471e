//! A stack of LSTM layers in one launch for all layers and tokens, where that takes less time than a launch for each diagonal.

use super::Lowering;
use super::lstm::{Block, Stack, Tiling};
use crate::cuda::Precision;
use crate::cuda::buffer::DeviceBuffer;
use crate::cuda::device::{DeviceInfo, LstmLaunches};
use crate::cuda::error::CudaError;
use crate::cuda::graph::{Argument, Launch};
use crate::model::ops::LstmLayer;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

impl Direction {
    fn kernel(self) -> &'static str {
        match self {
            Direction::Forward => "lstm_forward_persistent",
            Direction::Backward => "lstm_backward_persistent",
        }
    }
}

/// What one launch for everything needs.
pub(super) struct Persistent {
    /// Forward and backward.
    blocks: [Block; 2],
    /// How far each layer has come with each tile of prompts, and how many blocks have ended; zeros between launches.
    progress: DeviceBuffer<u32>,
    counters: usize,
}

impl Tiling {
    /// The blocks, forward and backward, that keep the weights of their units in shared memory; none where those do not fit.
    pub(super) fn keeping_weights(
        &self,
        op: &LstmLayer,
        precision: Precision,
        device: &DeviceInfo,
    ) -> Option<[Block; 2]> {
        let bytes = precision.bytes();
        let (units, rows, width) = (self.units, self.rows, op.width);
        // Both matrices in rows of whole K, beside a token of x and of h; backward beside four stages of dgates for every warp.
        let forward = (2 * 4 * units + 2 * rows) * (width + 8);
        let backward = 2 * units * (4 * width + 8) + self.backward.threads / 32 * 4 * 32 * (32 + 8);
        let blocks = [
            Block { shared: bytes * forward, ..self.forward },
            Block { shared: bytes * backward, ..self.backward },
        ];
        let written_for = precision == Precision::Bf16 && units == 32 && width.is_multiple_of(64);
        (written_for && blocks.iter().all(|block| block.shared <= device.shared_memory)).then_some(blocks)
    }
}

impl Lowering<'_> {
    /// What one launch needs, where all of its blocks are resident at once.
    pub(super) fn persistent_lstm(
        &mut self,
        layers: &[LstmLayer],
        tiling: &Tiling,
    ) -> Result<Option<Persistent>, CudaError> {
        let info = &self.device.info;
        let Some(blocks) = tiling.keeping_weights(&layers[0], self.precision, info) else { return Ok(None) };
        if layers.len() * tiling.blocks > info.multiprocessors {
            return Ok(None);
        }
        let counters = layers.len() * tiling.tiles(&layers[0]) + 1;
        let progress = self.memory.zeros("LSTM progress", counters)?;
        Ok(Some(Persistent { blocks, progress, counters }))
    }

    /// One launch that does what those of the diagonals do, if it is to be taken in their place.
    pub(super) fn in_one_launch(
        &self,
        stack: &Stack,
        direction: Direction,
        pointers: &[Argument],
        diagonals: &[Launch],
    ) -> Result<Option<Launch>, CudaError> {
        let asked = self.device.lstm_launches();
        let Some(persistent) = &stack.persistent else {
            let missing = || CudaError::Unsupported("one launch for all of an LSTM".into());
            return if asked == Some(LstmLaunches::Persistent) { Err(missing()) } else { Ok(None) };
        };
        let (layers, LstmLayer { batch, tokens, width, .. }) = (stack.layers.len(), stack.layers[0]);
        let block = persistent.blocks[usize::from(direction == Direction::Backward)];
        let numbers = [layers, batch, tokens].map(Argument::from);
        let progress = persistent.progress.pointer(persistent.counters)?.into();
        let arguments = [pointers, &[progress], &numbers].concat();
        let grid = [layers * stack.tiling.blocks, block.threads];
        let launch = Launch::with_shared(&stack.kernels, direction.kernel(), grid, block.shared, arguments)?;
        let launch = launch.cooperative();
        let is_faster = match asked {
            Some(launches) => launches == LstmLaunches::Persistent,
            None => {
                let key = format!("{} {layers}x{width} {batch}x{tokens}", direction.kernel());
                self.device.are_faster(&key, std::slice::from_ref(&launch), diagonals)?
            }
        };
        Ok(is_faster.then_some(launch))
    }
}
