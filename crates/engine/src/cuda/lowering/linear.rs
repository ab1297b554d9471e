//! Linear maps: cuBLASLt matmuls with bias and residual.

use super::{Lowering, Partials, unsupported};
use crate::cuda::buffer::{DType, StorageBuffer};
use crate::cuda::error::CudaError;
use crate::cuda::graph::{ABSENT, MAIN};
use crate::cuda::matmul::Fused;
use crate::cuda::matrix::DeviceMatrix;
use crate::model::ops::{Activation, Epilogue, Linear};

/// Most blocks, and threads of each, of elementwise kernels.
const MAX_BLOCKS: usize = 1056;
const THREADS: usize = 256;
/// Most partial sums of a bias gradient beside the activation's gradient, and fewest rows in each.
const MAX_PARTIALS: usize = 528;
const MIN_ROWS: usize = 16;

impl Lowering<'_> {
    pub(super) fn linear(&mut self, op: &Linear) -> Result<(), CudaError> {
        if self.mlp_up_gelu(op)? || self.linear_add_norm(op)? {
            return Ok(());
        }
        let &Linear { rows, inner, outer, .. } = op;
        let x = DeviceMatrix::new(self.in_storage(op.x)?, rows, inner);
        let weights = self.weights(op.w)?;
        let w = match op.transposed {
            false => DeviceMatrix::new(weights, inner, outer),
            true => DeviceMatrix::new(weights, outer, inner).t(),
        };
        let done = match op.epilogue {
            Epilogue::None => {
                let out = self.store("linear out", op.out, self.storage())?;
                let fused = Fused::Bias(self.weights(op.b)?);
                self.matmul(MAIN, DeviceMatrix::new(out, rows, outer), [x, w], None, fused)?
            }
            Epilogue::Add(residual) => {
                let out = self.store("residual stream", op.out, DType::Float)?;
                let out = DeviceMatrix::new(out, rows, outer);
                let fused = Fused::Bias(StorageBuffer::Float(self.param(op.b)?));
                self.matmul(MAIN, out, [x, w], Some(self.value(residual)), fused)?
            }
            Epilogue::Activate { kind, derivative } => {
                let out = self.store("activation", op.out, self.storage())?;
                // The variable of the saved derivative holds the pre-activation here.
                let pre = self.store("pre-activation", derivative, self.storage())?;
                let bias = self.weights(op.b)?;
                // In float32 the fused form is slower than two kernels.
                let fits = kind == Activation::Gelu && self.storage() == DType::Bf16;
                let fused = Fused::Gelu { bias, pre };
                if fits && self.matmul(MAIN, DeviceMatrix::new(out, rows, outer), [x, w], None, fused)? {
                    return Ok(());
                }
                let into = DeviceMatrix::new(pre, rows, outer);
                let done = self.matmul(MAIN, into, [x, w], None, Fused::Bias(bias))?;
                let all = rows * outer;
                let [out, pre] = [out.pointer(all)?, pre.pointer(all)?];
                let arguments = [out.into(), pre.into(), all.into(), number(kind).into()];
                let blocks = (rows * outer / 4).div_ceil(THREADS).clamp(1, MAX_BLOCKS);
                self.launch("activate", blocks, THREADS, &arguments)?;
                done
            }
            Epilogue::Positions { .. } | Epilogue::QueryPosition { .. } => false,
        };
        if done { Ok(()) } else { Err(unsupported([rows, inner, outer])) }
    }

    pub(super) fn linear_backward(&mut self, op: &Linear) -> Result<(), CudaError> {
        let &Linear { rows, inner, outer, .. } = op;
        let dout = self.gradient(op.out);
        let activation = match op.epilogue {
            Epilogue::Activate { kind, derivative } if !self.saved_derivatives.contains_key(&op.out.0) => {
                Some((kind, self.value(derivative)))
            }
            _ => None,
        };
        if activation.is_some() || !self.bias_partials.contains_key(&op.out.0) {
            self.activation_backward(op, dout, activation)?;
        }
        if let Epilogue::Add(residual) = op.epilogue {
            assert!(self.gradients[residual.0].is_none(), "a residual is added once");
            self.gradients[residual.0] = Some(dout);
            if let Some(&stream) = self.stream_gradients.get(&op.out.0) {
                self.stream_gradients.insert(residual.0, stream);
            }
        }
        let d = DeviceMatrix::new(dout, rows, outer);
        self.weight_gradient(op)?;
        self.reduce(self.dparam(op.b)?, self.bias_partials[&op.out.0], outer)?;

        assert!(self.gradients[op.x.0].is_none(), "only the residual stream is read twice");
        if self.mlp_hidden_backward(op)? || self.linear_norm_backward(op)? {
            return Ok(());
        }
        let dx = self.new_gradient("linear dx", op.x)?;
        let weights = self.weights(op.w)?;
        let w_t = match op.transposed {
            false => DeviceMatrix::new(weights, inner, outer).t(),
            true => DeviceMatrix::new(weights, outer, inner),
        };
        self.matmul_or_fail(MAIN, DeviceMatrix::new(dx, rows, inner), [d, w_t])
    }

    /// Multiplies with the activation's derivative, if there is one, and leaves partials of the bias gradient.
    fn activation_backward(
        &mut self,
        op: &Linear,
        d: StorageBuffer,
        activation: Option<(Activation, StorageBuffer)>,
    ) -> Result<(), CudaError> {
        let all = op.rows * op.outer;
        let (kind, pre) = match activation {
            Some((kind, pre)) => (number(kind), pre.of(self.storage())?.pointer(all)?),
            None => (2, ABSENT),
        };
        let rows_per_block = op.rows.div_ceil(MAX_PARTIALS).max(MIN_ROWS);
        let count = op.rows.div_ceil(rows_per_block);
        let sums = self.float_buffer("bias partials", count * op.outer)?;
        let pointers = [d.pointer(all)?, sums.pointer(count * op.outer)?, pre].map(Into::into);
        let numbers = [op.rows, op.outer, rows_per_block, kind].map(Into::into);
        let arguments = [&pointers[..], &numbers].concat();
        self.launch("activate_backward", count, THREADS, &arguments)?;
        self.bias_partials.insert(op.out.0, Partials::new(sums, 0, [count, op.outer])?);
        Ok(())
    }
}

/// An activation's number in the kernels.
fn number(kind: Activation) -> usize {
    match kind {
        Activation::Gelu => 0,
        Activation::Relu => 1,
    }
}
