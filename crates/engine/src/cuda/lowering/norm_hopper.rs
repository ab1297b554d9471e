//! Matmuls into the residual stream with LayerNorm behind them, and the gradient back through a LayerNorm and the matmul that reads it,
//! each as one wgmma kernel (`kernels/norm_hopper.cu`), where device and shape allow. Everywhere else cuBLASLt multiplies, and
//! LayerNorm is a kernel of its own.

use super::Lowering;
use crate::cuda::Precision;
use crate::cuda::buffer::{DType, StorageBuffer};
use crate::cuda::compiler::KernelSource;
use crate::cuda::device::DeviceInfo;
use crate::cuda::error::CudaError;
use crate::cuda::graph::{Argument, Launch, MAIN};
use crate::cuda::kernels;
use crate::cuda::tensor_map::TensorMap;
use crate::model::graph::Graph;
use crate::model::ops::{Epilogue, LayerNorm, Linear, Op};
use crate::model::plan::{Mode, Var};

/// Columns of the result, as in the kernels: all of a row, so that its mean is at hand.
const WIDTH: usize = 256;
/// Rows of a block, the fewest that all fit on the device at once.
const TILES_M: [usize; 2] = [64, 128];
/// Rows of a warp.
const WARP_ROWS: usize = 8;
/// Depth of a stage in shared memory, and rows of a box in which the weights are copied there.
const STAGE_K: usize = 64;
const BOX: usize = 64;

/// K of the matmul and rows of a block, which the kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    k: usize,
    tile_m: usize,
}

impl Shape {
    /// The shape of a matmul `[rows, k] · [k, width]`, if there are kernels for it.
    fn of(rows: usize, k: usize, width: usize, precision: Precision, device: &DeviceInfo) -> Option<Shape> {
        let offered = precision == Precision::Bf16 && device.is_hopper();
        // With more blocks than multiprocessors their beginnings and ends are not hidden: at batch 256 nothing is gained.
        let tile_m = TILES_M.into_iter().find(|&tile| rows.div_ceil(tile) <= device.multiprocessors)?;
        let fits = width == WIDTH && k > 0 && k.is_multiple_of(STAGE_K);
        (offered && fits).then_some(Shape { k, tile_m })
    }

    fn source(self) -> KernelSource {
        let defines = [("GEMM_K", self.k), ("TILE_M", self.tile_m), ("STAGES", self.stages())];
        KernelSource::new("norm_hopper", Precision::Bf16, &defines, kernels::NORM_HOPPER)
    }

    /// As many as shared memory holds.
    fn stages(self) -> usize {
        if self.tile_m == TILES_M[0] { 5 } else { 4 }
    }

    /// Bytes of shared memory: stages of both operands, in bf16.
    fn shared(self) -> usize {
        self.stages() * 2 * STAGE_K * (self.tile_m + WIDTH)
    }

    /// Blocks that share the rows.
    fn blocks(self, rows: usize) -> usize {
        rows.div_ceil(self.tile_m)
    }

    /// The left operand `[rows, k]` as the kernels copy it.
    fn rows_map(self, x: StorageBuffer, rows: usize) -> Result<Argument, CudaError> {
        TensorMap::new(x, [rows, self.k], self.tile_m).map(Argument::from)
    }
}

/// The LayerNorm behind a linear map that continues the residual stream. In inference there is none: patches may come
/// between the two.
fn norm_after<'a>(graph: &'a Graph, op: &Linear) -> Option<&'a LayerNorm> {
    let continues = matches!(op.epilogue, Epilogue::Add(_)) && !op.transposed;
    (continues && graph.mode == Mode::Train).then(|| find_norm(graph, |norm| norm.x == op.out))?
}

/// The LayerNorm whose output a linear map reads.
fn norm_before(graph: &Graph, x: Var) -> Option<&LayerNorm> {
    (graph.mode == Mode::Train).then(|| find_norm(graph, |norm| norm.out == x))?
}

fn find_norm(graph: &Graph, is_it: impl Fn(&LayerNorm) -> bool) -> Option<&LayerNorm> {
    graph.plan.ops().iter().find_map(|op| match op {
        Op::LayerNorm(norm) if is_it(norm) => Some(norm),
        _ => None,
    })
}

/// What the kernels of a graph are compiled from.
pub(super) fn sources(graph: &Graph, precision: Precision, device: &DeviceInfo) -> Vec<KernelSource> {
    let shapes = graph.plan.ops().iter().flat_map(|op| {
        let Op::Linear(op) = op else { return [None, None] };
        let forward = norm_after(graph, op).map(|norm| (op.inner, norm.width));
        let backward = norm_before(graph, op.x).filter(|_| !op.transposed).map(|norm| (op.outer, norm.width));
        [forward, backward]
            .map(|shape| shape.and_then(|(k, width)| Shape::of(op.rows, k, width, precision, device)))
    });
    shapes.flatten().map(Shape::source).collect()
}

impl Lowering<'_> {
    fn launch_norm(
        &mut self,
        name: &'static str,
        shape: Shape,
        rows: usize,
        arguments: &[Argument],
    ) -> Result<(), CudaError> {
        if !self.norm_kernels.contains_key(&shape) {
            self.norm_kernels.insert(shape, self.device.compile(&shape.source())?);
        }
        let grid = [shape.blocks(rows), shape.tile_m / WARP_ROWS * 32];
        let arguments = [arguments, &[rows.into()]].concat();
        let launch = Launch::with_shared(&self.norm_kernels[&shape], name, grid, shape.shared(), arguments)?;
        self.commands.push(launch.pdl(true).on(MAIN));
        Ok(())
    }

    /// In training, a linear map that continues the residual stream together with the LayerNorm behind it; says whether
    /// there is a kernel for that.
    pub(super) fn linear_add_norm(&mut self, op: &Linear) -> Result<bool, CudaError> {
        let (Epilogue::Add(residual), Some(norm)) = (op.epilogue, norm_after(self.graph, op)) else {
            return Ok(false);
        };
        let w = self.weights(op.w)?;
        let shape = Shape::of(op.rows, op.inner, op.outer, self.precision, &self.device.info);
        let Some(shape) = shape.filter(|_| w.is_aligned(16)) else { return Ok(false) };
        let all = op.rows * WIDTH;
        let sum = self.store("residual stream", op.out, DType::Float)?;
        let out = self.store("layer_norm out", norm.out, self.storage())?;
        let stats = self.store_float("layer_norm stats", norm.stats)?;
        let arguments = [
            sum.pointer(all)?.into(),
            out.pointer(all)?.into(),
            stats.pointer(2 * op.rows)?.into(),
            shape.rows_map(self.in_storage(op.x)?, op.rows)?,
            TensorMap::new(w, [op.inner, WIDTH], BOX)?.into(),
            self.param(op.b)?.pointer(WIDTH)?.into(),
            self.float_value(residual)?.pointer(all)?.into(),
            self.param(norm.gain)?.pointer(WIDTH)?.into(),
            self.param(norm.bias)?.pointer(WIDTH)?.into(),
        ];
        self.fused_norms.insert(norm.out.0);
        self.launch_norm("linear_add_norm", shape, op.rows, &arguments)?;
        Ok(true)
    }

    /// The gradient back through a linear map that reads a LayerNorm, and through that; says whether there is a kernel for it.
    pub(super) fn linear_norm_backward(&mut self, op: &Linear) -> Result<bool, CudaError> {
        let Some(norm) = norm_before(self.graph, op.x).filter(|_| !op.transposed) else { return Ok(false) };
        let w = self.weights(op.w)?;
        let shape = Shape::of(op.rows, op.outer, op.inner, self.precision, &self.device.info);
        let residual = self.stream_gradients.get(&norm.x.0).copied();
        let (Some(shape), Some(residual)) = (shape.filter(|_| w.is_aligned(16)), residual) else {
            return Ok(false);
        };
        let all = op.rows * WIDTH;
        let count = shape.blocks(op.rows);
        let dout = shape.rows_map(self.gradient(op.out), op.rows)?;
        let dx = self.new_gradient("layer_norm dx", norm.x)?;
        let stream = self.stream_gradient(norm.x, all)?;
        let sums = self.float_buffer("layer_norm partials", count * 3 * WIDTH)?;
        let arguments = [
            stream.pointer(all)?.into(),
            dx.pointer(all)?.into(),
            sums.pointer(count * 3 * WIDTH)?.into(),
            residual.pointer(all)?.into(),
            dout,
            TensorMap::new(w, [WIDTH, op.outer], BOX)?.into(),
            self.float_value(norm.x)?.pointer(all)?.into(),
            self.float_value(norm.stats)?.pointer(2 * op.rows)?.into(),
            self.param(norm.gain)?.pointer(WIDTH)?.into(),
        ];
        self.fused_norm_gradients.insert(norm.out.0);
        self.launch_norm("linear_norm_backward", shape, op.rows, &arguments)?;
        self.norm_sums(norm, sums, count)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::networks::{Gpt2Config, Network};

    /// Linear maps of a network whose LayerNorm comes right after, and those that read one.
    fn fused(mode: Mode) -> [usize; 2] {
        let network = Network::Gpt2(Gpt2Config { layers: 3, ..Default::default() });
        let graph = network.graph(2, 10, mode).unwrap();
        let linear = || {
            graph.plan.ops().iter().filter_map(|op| match op {
                Op::Linear(op) => Some(op),
                _ => None,
            })
        };
        let after = linear().filter(|op| norm_after(&graph, op).is_some()).count();
        [after, linear().filter(|op| norm_before(&graph, op.x).is_some()).count()]
    }

    #[test]
    fn every_projection_into_the_stream_has_the_next_norm() {
        // Two projections of each block end in a LayerNorm, the last one in that of the read-out; two begin with one.
        assert_eq!(fused(Mode::Train), [6, 6]);
        // Patches may come between the two.
        assert_eq!(fused(Mode::Infer), [0, 0]);
    }
}
