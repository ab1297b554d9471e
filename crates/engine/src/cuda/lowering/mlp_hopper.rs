//! The MLP on Hopper: up-projection with GELU, and the backward pass through the hidden layer, each as one wgmma kernel with
//! its epilogue (`kernels/mlp_hopper.cu`), where device and shape allow. Everywhere else cuBLASLt multiplies, and the
//! activation is a kernel of its own.

use super::{Lowering, Partials};
use crate::cuda::Precision;
use crate::cuda::buffer::{Pointer, StorageBuffer};
use crate::cuda::compiler::KernelSource;
use crate::cuda::device::DeviceInfo;
use crate::cuda::error::CudaError;
use crate::cuda::graph::{Argument, Launch, MAIN};
use crate::cuda::kernels;
use crate::model::ops::{Activation, Epilogue, Linear, Op};
use crate::model::plan::Mode;

/// The tile of a block, as in the kernels, and tiles of A in shared memory.
const TILE_M: usize = 64;
const TILE_N: usize = 256;
const A_TILES: usize = 3;
/// Threads of a block, and warps that leave partial sums of the same columns.
const THREADS: usize = 512;
const WARPS: usize = 8;
/// Values of K that the kernels were checked with.
const KS: [usize; 2] = [64, 256];

/// K and N of the matmul, which the kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    k: usize,
    n: usize,
}

impl Shape {
    /// Bytes of shared memory: a tile of B and those of A, in bf16.
    fn shared(self) -> usize {
        2 * self.k * (TILE_N + A_TILES * TILE_M)
    }

    /// The shape of a linear map with GELU, if there are kernels for it.
    fn of(op: &Linear, precision: Precision, device: &DeviceInfo) -> Option<Shape> {
        let gelu = matches!(op.epilogue, Epilogue::Activate { kind: Activation::Gelu, .. });
        let fits = KS.contains(&op.inner)
            && op.outer.is_multiple_of(TILE_N)
            && op.outer / TILE_N <= device.multiprocessors;
        let offered = precision == Precision::Bf16 && device.is_hopper();
        (gelu && !op.transposed && fits && offered).then_some(Shape { k: op.inner, n: op.outer })
    }

    fn source(self) -> KernelSource {
        let defines = [("GEMM_K", self.k), ("GEMM_N", self.n)];
        KernelSource::new("mlp_hopper", Precision::Bf16, &defines, kernels::MLP_HOPPER)
    }

    /// Blocks that share the rows of one tile of N: all of them together at most one per multiprocessor.
    fn blocks_per_tile(self, rows: usize, device: &DeviceInfo) -> usize {
        (device.multiprocessors / (self.n / TILE_N)).min(rows.div_ceil(TILE_M))
    }
}

/// What the kernels for a linear map are compiled from, if it has such kernels.
pub(super) fn source(op: &Linear, precision: Precision, device: &DeviceInfo) -> Option<KernelSource> {
    Shape::of(op, precision, device).map(Shape::source)
}

/// The kernels move vectors of 16 bytes.
fn is_aligned(weights: StorageBuffer) -> bool {
    weights.is_aligned(16)
}

impl Lowering<'_> {
    fn launch_mlp(
        &mut self,
        name: &'static str,
        shape: Shape,
        rows: usize,
        pointers: &[Pointer],
    ) -> Result<(), CudaError> {
        if !self.mlp_kernels.contains_key(&shape) {
            self.mlp_kernels.insert(shape, self.device.compile(&shape.source())?);
        }
        let blocks = shape.n / TILE_N * shape.blocks_per_tile(rows, &self.device.info);
        let arguments = pointers.iter().copied().map(Argument::from).chain([rows.into()]).collect();
        let kernels = &self.mlp_kernels[&shape];
        let launch = Launch::with_shared(kernels, name, [blocks, THREADS], shape.shared(), arguments)?;
        self.commands.push(launch.pdl(true).on(MAIN));
        Ok(())
    }

    /// In training, a linear map with GELU, whose derivative is saved for the backward pass; says whether there is a kernel
    /// for that.
    pub(super) fn mlp_up_gelu(&mut self, op: &Linear) -> Result<bool, CudaError> {
        let [w, bias] = [self.weights(op.w)?, self.weights(op.b)?];
        let Some(shape) = Shape::of(op, self.precision, &self.device.info) else { return Ok(false) };
        if !is_aligned(w) || !is_aligned(bias) || !self.backward_is_fused(op) {
            return Ok(false);
        }
        let all = op.rows * op.outer;
        let out = self.store("activation", op.out, self.storage())?;
        // One byte each.
        let derivative = self.memory.zeros("saved derivative", all)?;
        self.saved_derivatives.insert(op.out.0, derivative);
        let pointers = [
            out.pointer(all)?,
            derivative.pointer(all)?,
            self.in_storage(op.x)?.pointer(op.rows * op.inner)?,
            w.pointer(op.inner * op.outer)?,
            bias.pointer(op.outer)?,
        ];
        self.launch_mlp("mlp_up_gelu", shape, op.rows, &pointers)?;
        Ok(true)
    }

    /// Whether there is a backward pass, in which the gradient of the down-projection's input is multiplied with the
    /// activation's derivative in the same kernel: where the down-projection leads back to the width that `op` reads.
    fn backward_is_fused(&self, op: &Linear) -> bool {
        let is_down_projection = |reader: &Linear| {
            reader.x == op.out
                && reader.outer == op.inner
                && !reader.transposed
                && self.weights(reader.w).is_ok_and(is_aligned)
        };
        let mut ops = self.graph.plan.ops().iter();
        self.graph.mode == Mode::Train
            && ops.any(|other| matches!(other, Op::Linear(reader) if is_down_projection(reader)))
    }

    /// The gradient of the pre-activations that `op`, the down-projection, reads through GELU, and partial sums over its rows;
    /// says whether the derivative was saved for that.
    pub(super) fn mlp_hidden_backward(&mut self, op: &Linear) -> Result<bool, CudaError> {
        let Some(&derivative) = self.saved_derivatives.get(&op.x.0) else { return Ok(false) };
        let shape = Shape { k: op.outer, n: op.inner };
        let count = shape.blocks_per_tile(op.rows, &self.device.info) * WARPS;
        let all = op.rows * op.inner;
        let d = self.new_gradient("mlp hidden gradient", op.x)?;
        let sums = self.float_buffer("bias partials", count * op.inner)?;
        let pointers = [
            d.pointer(all)?,
            sums.pointer(count * op.inner)?,
            self.gradient(op.out).pointer(op.rows * op.outer)?,
            self.weights(op.w)?.pointer(op.inner * op.outer)?,
            derivative.pointer(all)?,
        ];
        self.launch_mlp("mlp_hidden_backward", shape, op.rows, &pointers)?;
        self.bias_partials.insert(op.x.0, Partials::new(sums, 0, [count, op.inner])?);
        Ok(true)
    }
}
