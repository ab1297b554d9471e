//! Linear maps: cuBLASLt matmuls with bias and residual.

use super::{Lowering, Partials, unsupported};
use crate::cuda::error::CudaError;
use crate::cuda::graph::MAIN;
use crate::cuda::matmul::{DType, DeviceMatrix, Fused};
use crate::cuda::memory::Pointer;
use crate::model::ops::{Activation, Epilogue, Linear};

/// Most blocks, and threads of each, of elementwise kernels.
const MAX_BLOCKS: usize = 1056;
const THREADS: usize = 256;
/// Most partial sums of a bias gradient beside the activation's gradient, and fewest rows in each.
const MAX_PARTIALS: usize = 528;
const MIN_ROWS: usize = 16;

impl Lowering<'_> {
    fn storage_matrix(&self, at: Pointer, rows: usize, columns: usize) -> DeviceMatrix {
        DeviceMatrix::new(at, self.storage(), rows, columns)
    }

    pub(super) fn linear(&mut self, op: &Linear) -> Result<(), CudaError> {
        if self.mlp_up_gelu(op)? {
            return Ok(());
        }
        let &Linear { rows, inner, outer, .. } = op;
        let x = self.storage_matrix(self.value(op.x), rows, inner);
        let w = self.storage_matrix(self.weights(op.w), inner, outer);
        let w = if op.transposed { self.storage_matrix(w.at, outer, inner).t() } else { w };
        let done = match op.epilogue {
            Epilogue::None => {
                let out = self.store(op.out, self.storage())?;
                let fused = Fused::Bias(self.weights(op.b));
                self.matmul(MAIN, self.storage_matrix(out, rows, outer), [x, w], None, fused)?
            }
            Epilogue::Add(residual) => {
                let out = self.store(op.out, DType::Float)?;
                let out = DeviceMatrix::new(out, DType::Float, rows, outer);
                let fused = Fused::Bias(self.param(op.b));
                self.matmul(MAIN, out, [x, w], Some(self.value(residual)), fused)?
            }
            Epilogue::Activate { kind, derivative } => {
                let out = self.store(op.out, self.storage())?;
                // The variable of the saved derivative holds the pre-activation here.
                let pre = self.store(derivative, self.storage())?;
                let bias = self.weights(op.b);
                // In float32 the fused form is slower than two kernels.
                let fits = kind == Activation::Gelu && self.storage() == DType::Bf16;
                let fused = Fused::Gelu { bias, pre };
                if fits && self.matmul(MAIN, self.storage_matrix(out, rows, outer), [x, w], None, fused)? {
                    return Ok(());
                }
                let into = self.storage_matrix(pre, rows, outer);
                let done = self.matmul(MAIN, into, [x, w], None, Fused::Bias(bias))?;
                let arguments = [out.into(), pre.into(), (rows * outer).into(), number(kind).into()];
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
        }
        let d = self.storage_matrix(dout, rows, outer);
        self.weight_gradient(op, d)?;

        assert!(self.gradients[op.x.0].is_none(), "only the residual stream is read twice");
        if self.mlp_hidden_backward(op)? {
            return Ok(());
        }
        let dx = self.storage_buffer(rows * inner)?;
        let into = self.storage_matrix(dx, rows, inner);
        let w = self.storage_matrix(self.weights(op.w), inner, outer);
        let w_t = if op.transposed { self.storage_matrix(w.at, outer, inner) } else { w.t() };
        self.matmul_or_fail(MAIN, into, [d, w_t])?;
        self.gradients[op.x.0] = Some(dx);
        Ok(())
    }

    /// Multiplies with the activation's derivative, if there is one, and leaves partials of the bias gradient.
    fn activation_backward(
        &mut self,
        op: &Linear,
        d: Pointer,
        activation: Option<(Activation, Pointer)>,
    ) -> Result<(), CudaError> {
        let (kind, pre) = activation.map_or((2, 0), |(kind, pre)| (number(kind), pre));
        let rows_per_block = op.rows.div_ceil(MAX_PARTIALS).max(MIN_ROWS);
        let count = op.rows.div_ceil(rows_per_block);
        let at = self.float_buffer(count * op.outer)?;
        let pointers = [d, at, pre].map(Into::into);
        let numbers = [op.rows, op.outer, rows_per_block, kind].map(Into::into);
        let arguments = [&pointers[..], &numbers].concat();
        self.launch("activate_backward", count, THREADS, &arguments)?;
        self.bias_partials.insert(op.out.0, Partials { at, count, stride: op.outer });
        Ok(())
    }

    /// dW on a side stream; db from the partials that another kernel left.
    fn weight_gradient(&mut self, op: &Linear, d: DeviceMatrix) -> Result<(), CudaError> {
        let &Linear { rows, inner, outer, .. } = op;
        let x = self.storage_matrix(self.value(op.x), rows, inner);
        let dw = self.dparam(op.w);
        let (out, factors) = match op.transposed {
            false => (DeviceMatrix::new(dw, DType::Float, inner, outer), [x.t(), d]),
            true => (DeviceMatrix::new(dw, DType::Float, outer, inner), [d.t(), x]),
        };
        let stream = self.side_stream();
        self.matmul_or_fail(stream, out, factors)?;
        let partials = self.bias_partials[&op.out.0];
        self.reduce(self.dparam(op.b), partials, outer);
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
