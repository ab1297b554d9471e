//! Products on Hopper's matrix units with what follows them in one kernel (`kernels/wide.cu`), where device and shape
//! allow. Everywhere else cuBLASLt multiplies, and what follows is a kernel of its own.

use super::{Lowering, Parts};
use crate::cpu::ops::{Activation, Epilogue, Linear, Op};
use crate::cuda::Precision;
use crate::cuda::compiler::{COMMON, GELU, KernelSource, WIDE};
use crate::cuda::device::{Device, Pointer};
use crate::cuda::error::CudaError;
use crate::cuda::program::{Argument, Command, Launch, Work};
use crate::model::plan::Mode;

/// As in the kernels: rows of a tile, columns of a panel, tiles in shared memory.
const TILE: usize = 64;
const PANEL: usize = 256;
const TILES: usize = 3;
/// Threads of a block, and warps that leave sums of the same columns.
const THREADS: usize = 512;
const WARPS: usize = 8;
/// Values in a sum that the kernels were checked with.
const INNERS: [usize; 2] = [64, 256];

/// What the kernels are compiled for: values in each sum, and results per row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    inner: usize,
    columns: usize,
}

impl Shape {
    /// Bytes of shared memory: a panel of the weights and the tiles.
    fn shared(self) -> usize {
        2 * self.inner * (PANEL + TILES * TILE)
    }

    /// The shape of a map with its activation, if there are kernels for it.
    fn of(op: &Linear, precision: Precision, device: &Device) -> Option<Shape> {
        let gelu = matches!(op.epilogue, Epilogue::Activate { kind: Activation::Gelu, .. });
        let panels = op.outer / PANEL;
        let fits = INNERS.contains(&op.inner)
            && op.outer.is_multiple_of(PANEL)
            && panels <= device.info.multiprocessors;
        let offered = precision == Precision::Bf16 && device.is_hopper();
        (gelu && !op.transposed && fits && offered).then_some(Shape { inner: op.inner, columns: op.outer })
    }

    fn source(self) -> KernelSource {
        let defines = [("INNER", self.inner), ("COLUMNS", self.columns)];
        KernelSource::new("wide", Precision::Bf16, &defines, &[COMMON, GELU, WIDE])
    }

    /// Blocks for so many rows: at most one per multiprocessor, as many for each panel.
    fn blocks(self, rows: usize, device: &Device) -> usize {
        let panels = self.columns / PANEL;
        panels * (device.info.multiprocessors / panels).min(rows.div_ceil(TILE))
    }
}

/// What the kernels for a linear map are compiled from, if it has such kernels.
pub(super) fn source(op: &Linear, precision: Precision, device: &Device) -> Option<KernelSource> {
    Shape::of(op, precision, device).map(Shape::source)
}

/// 16 bytes are moved at once.
fn aligned(pointers: &[Pointer]) -> bool {
    pointers.iter().all(|pointer| pointer.is_multiple_of(16))
}

impl Lowering<'_> {
    fn launch_wide(
        &mut self,
        name: &'static str,
        shape: Shape,
        rows: usize,
        pointers: &[Pointer],
    ) -> Result<(), CudaError> {
        if !self.wides.contains_key(&shape) {
            self.wides.insert(shape, self.device.compile(&shape.source())?);
        }
        let launch = Launch {
            name,
            function: self.wides[&shape].get(name, shape.shared())?,
            blocks: shape.blocks(rows, self.device) as u32,
            threads: THREADS as u32,
            shared: shape.shared() as u32,
            arguments: pointers.iter().copied().map(Argument::from).chain([rows.into()]).collect(),
            early: true,
        };
        self.commands.push(Command { lane: 0, work: Work::Kernel(launch) });
        Ok(())
    }

    /// In training, a linear map with its activation, whose derivative is left for the backward pass; says whether there is a
    /// kernel for that.
    pub(super) fn wide(&mut self, op: &Linear) -> Result<bool, CudaError> {
        let [x, w, bias] = [self.value(op.x), self.weights(op.w), self.weights(op.b)];
        let Some(shape) = Shape::of(op, self.precision, self.device) else { return Ok(false) };
        if !aligned(&[w, bias]) || !self.returns(op) {
            return Ok(false);
        }
        let out = self.store(op.out, self.half())?;
        let slope = self.memory.zeros(op.rows * op.outer)?;
        self.slopes.insert(op.out.0, slope);
        self.launch_wide("wide_gelu", shape, op.rows, &[out, slope, x, w, bias])?;
        Ok(true)
    }

    /// Whether there is a way back, on which the map that reads an activation leads to the width it came from: then its gradient
    /// passes the activation in the same kernel.
    fn returns(&self, op: &Linear) -> bool {
        let back = |reader: &Linear| {
            reader.x == op.out
                && reader.outer == op.inner
                && !reader.transposed
                && aligned(&[self.weights(reader.w)])
        };
        self.graph.mode == Mode::Train
            && self.graph.plan.ops().iter().any(|other| matches!(other, Op::Linear(reader) if back(reader)))
    }

    /// The gradient of what went into the activation that `op` reads, and the sums over its rows; says whether the derivative
    /// was left for that.
    pub(super) fn wide_backward(&mut self, op: &Linear) -> Result<bool, CudaError> {
        let Some(&slope) = self.slopes.get(&op.x.0) else { return Ok(false) };
        let shape = Shape { inner: op.outer, columns: op.inner };
        let parts = shape.blocks(op.rows, self.device) / (shape.columns / PANEL) * WARPS;
        let d = self.half_buffer(op.rows * op.inner)?;
        let at = self.float_buffer(parts * op.inner)?;
        let pointers = [d, at, self.gradient(op.out), self.weights(op.w), slope];
        self.launch_wide("wide_gelu_backward", shape, op.rows, &pointers)?;
        self.bias_parts.insert(op.x.0, Parts { at, parts, stride: op.inner });
        self.gradients[op.x.0] = Some(d);
        Ok(true)
    }
}
