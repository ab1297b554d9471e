//! The products on both sides of an MLP's activation, with the activation inside.

use super::linear::number;
use super::{Gradient, Lowering, Parts};
use crate::cuda::Precision;
use crate::cuda::compiler::{COMMON, FRAGMENTS, MLP};
use crate::cuda::error::CudaError;
use crate::cuda::program::{Argument, Command, Launch, Work};
use crate::ops::{Activation, Epilogue, Linear, Op};

/// Rows and columns of results that a block owns, and its threads.
const BLOCK: usize = 128;
const THREADS: usize = 256;
/// Bytes of shared memory: four stages of two operands, 128 rows of 40 values each.
const SHARED: usize = 4 * 2 * 128 * 40 * 2;

impl Lowering<'_> {
    /// Whether an up-projection has the sizes that the kernels are written for.
    pub(super) fn fits_mlp(&self, up: &Linear) -> bool {
        self.precision == Precision::Bf16
            && !up.transposed
            && up.inner.is_multiple_of(32)
            && up.outer.is_multiple_of(BLOCK)
            && SHARED + (16 << 10) <= self.device.block_memory
    }

    fn mlp_launch(
        &mut self,
        name: &'static str,
        up: &Linear,
        kind: Activation,
        arguments: Vec<Argument>,
    ) -> Result<(), CudaError> {
        if self.mlp.is_none() {
            let sizes = [("INNER", up.inner), ("OUTER", up.outer), ("ACTIVATION", number(kind)), ("STAGED", 1)];
            self.mlp = Some(self.device.compile("mlp", self.precision, &sizes, &[COMMON, FRAGMENTS, MLP])?);
        }
        let function = self.mlp.as_ref().expect("made above").get(name, SHARED)?;
        let blocks = (up.rows.div_ceil(BLOCK) * (up.outer / BLOCK)) as u32;
        let launch = Launch { name, function, blocks, threads: THREADS as u32, shared: SHARED as u32, arguments };
        self.commands.push(Command { lane: 0, work: Work::Kernel(launch) });
        Ok(())
    }

    pub(super) fn mlp_up(
        &mut self,
        op: &Linear,
        kind: Activation,
        [out, before]: [u64; 2],
    ) -> Result<(), CudaError> {
        let pointers = [out, before, self.value(op.x), self.weights(op.w), self.param(op.b)];
        let arguments = [&pointers.map(Argument::from)[..], &[op.rows.into()]].concat();
        self.mlp_launch("mlp_up", op, kind, arguments)
    }

    /// The up-projection whose activation `down` reads, if both have the right sizes.
    pub(super) fn mlp_behind(&self, down: &Linear) -> Option<Linear> {
        let behind = self.graph.plan.ops().iter().find_map(|op| match op {
            Op::Linear(up) if up.out == down.x && matches!(up.epilogue, Epilogue::Activate { .. }) => Some(*up),
            _ => None,
        })?;
        (self.fits_mlp(&behind) && down.outer == behind.inner && !down.transposed).then_some(behind)
    }

    /// From the gradient of `down`'s output to that of what went into the activation of `up`.
    pub(super) fn mlp_up_backward(&mut self, down: &Linear, up: Linear) -> Result<(), CudaError> {
        let Epilogue::Activate { kind, before } = up.epilogue else { unreachable!("found by its activation") };
        let dbefore = self.half_buffer(up.rows * up.outer)?;
        let parts = up.rows.div_ceil(BLOCK);
        let at = self.float_buffer(parts * up.outer)?;
        let d = self.gradient(down.out).half;
        let pointers = [dbefore, at, d, self.weights(down.w), self.value(before)];
        let arguments = [&pointers.map(Argument::from)[..], &[up.rows.into()]].concat();
        self.mlp_launch("mlp_up_backward", &up, kind, arguments)?;
        self.bias_parts.insert(up.out.0, Parts { at, parts, stride: up.outer });
        self.gradients[up.out.0] = Some(Gradient { half: dbefore, float: None, through_activation: true });
        Ok(())
    }
}
