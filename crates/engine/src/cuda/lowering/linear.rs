//! Linear maps: cuBLASLt products with bias and residual.

use super::{Lowering, Parts};
use crate::cpu::ops::{Activation, Epilogue, Linear};
use crate::cuda::error::CudaError;
use crate::cuda::product::{Fused, Kind, Matrix};

/// Blocks and threads of kernels over single values.
const VALUE_BLOCKS: usize = 1056;
const VALUE_THREADS: usize = 256;
/// Most parts, and fewest rows in each, of the sums beside the activation's gradient.
const MOST_PARTS: usize = 528;
const FEWEST_ROWS: usize = 16;

impl Lowering<'_> {
    fn half_matrix(&self, at: u64, rows: usize, columns: usize) -> Matrix {
        Matrix::new(at, self.half(), rows, columns)
    }

    pub(super) fn linear(&mut self, op: &Linear) -> Result<(), CudaError> {
        if self.wide(op)? {
            return Ok(());
        }
        let &Linear { rows, inner, outer, .. } = op;
        let x = self.half_matrix(self.value(op.x), rows, inner);
        let w = self.half_matrix(self.weights(op.w), inner, outer);
        let w = if op.transposed { self.half_matrix(w.at, outer, inner).t() } else { w };
        let done = match op.epilogue {
            Epilogue::None => {
                let out = self.store(op.out, self.half())?;
                let fused = Fused::Bias(self.weights(op.b));
                self.product(0, self.half_matrix(out, rows, outer), [x, w], None, fused)?
            }
            Epilogue::Add(residual) => {
                let out = self.store(op.out, Kind::Float)?;
                let out = Matrix::new(out, Kind::Float, rows, outer);
                let fused = Fused::Bias(self.param(op.b));
                self.product(0, out, [x, w], Some(self.value(residual)), fused)?
            }
            Epilogue::Activate { kind, slope } => {
                let out = self.store(op.out, self.half())?;
                let before = self.store(slope, self.half())?;
                let bias = self.weights(op.b);
                // In float32 the fused form is slower than two kernels.
                let fits = kind == Activation::Gelu && self.half() == Kind::Bf16;
                let fused = Fused::Gelu { bias, before };
                if fits && self.product(0, self.half_matrix(out, rows, outer), [x, w], None, fused)? {
                    return Ok(());
                }
                let into = self.half_matrix(before, rows, outer);
                let done = self.product(0, into, [x, w], None, Fused::Bias(bias))?;
                let arguments = [out.into(), before.into(), (rows * outer).into(), number(kind).into()];
                let blocks = (rows * outer / 4).div_ceil(VALUE_THREADS).clamp(1, VALUE_BLOCKS);
                self.launch("activate", blocks, VALUE_THREADS, &arguments)?;
                done
            }
            Epilogue::Positions { .. } | Epilogue::QueryPosition { .. } => false,
        };
        if done { Ok(()) } else { Err(unsupported(op)) }
    }

    pub(super) fn linear_backward(&mut self, op: &Linear) -> Result<(), CudaError> {
        let &Linear { rows, inner, outer, .. } = op;
        let dout = self.gradient(op.out);
        let activation = match op.epilogue {
            Epilogue::Activate { kind, slope } if !self.slopes.contains_key(&op.out.0) => {
                Some((kind, self.value(slope)))
            }
            _ => None,
        };
        if activation.is_some() || !self.bias_parts.contains_key(&op.out.0) {
            self.activation_backward(op, dout, activation)?;
        }
        if let Epilogue::Add(residual) = op.epilogue {
            assert!(self.gradients[residual.0].is_none(), "a residual is added once");
            self.gradients[residual.0] = Some(dout);
        }
        let d = self.half_matrix(dout, rows, outer);
        self.weight_gradient(op, d)?;

        assert!(self.gradients[op.x.0].is_none(), "only the residual stream is read twice");
        if self.wide_backward(op)? {
            return Ok(());
        }
        let dx = self.half_buffer(rows * inner)?;
        let into = self.half_matrix(dx, rows, inner);
        let w = self.half_matrix(self.weights(op.w), inner, outer);
        let w_t = if op.transposed { self.half_matrix(w.at, outer, inner) } else { w.t() };
        if !self.product(0, into, [d, w_t], None, Fused::Nothing)? {
            return Err(unsupported(op));
        }
        self.gradients[op.x.0] = Some(dx);
        Ok(())
    }

    /// Passes the activation, if there is one, and leaves the bias's gradient in parts.
    fn activation_backward(
        &mut self,
        op: &Linear,
        d: u64,
        activation: Option<(Activation, u64)>,
    ) -> Result<(), CudaError> {
        let (kind, before) = activation.map_or((2, 0), |(kind, before)| (number(kind), before));
        let per_part = op.rows.div_ceil(MOST_PARTS).max(FEWEST_ROWS);
        let parts = op.rows.div_ceil(per_part);
        let at = self.float_buffer(parts * op.outer)?;
        let pointers = [d, at, before].map(Into::into);
        let numbers = [op.rows, op.outer, per_part, kind].map(Into::into);
        let arguments = [&pointers[..], &numbers].concat();
        self.launch("activate_backward", parts, VALUE_THREADS, &arguments)?;
        self.bias_parts.insert(op.out.0, Parts { at, parts, stride: op.outer });
        Ok(())
    }

    /// dW on a side lane; db from the parts that another kernel left.
    fn weight_gradient(&mut self, op: &Linear, d: Matrix) -> Result<(), CudaError> {
        let &Linear { rows, inner, outer, .. } = op;
        let x = self.half_matrix(self.value(op.x), rows, inner);
        let dw = self.dparam(op.w);
        let (out, factors) = match op.transposed {
            false => (Matrix::new(dw, Kind::Float, inner, outer), [x.t(), d]),
            true => (Matrix::new(dw, Kind::Float, outer, inner), [d.t(), x]),
        };
        let lane = self.side_lane();
        if !self.product(lane, out, factors, None, Fused::Nothing)? {
            return Err(unsupported(op));
        }
        let parts = self.bias_parts[&op.out.0];
        self.sum_parts(self.dparam(op.b), parts, outer);
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

fn unsupported(op: &Linear) -> CudaError {
    CudaError::Unsupported(format!(
        "cuBLASLt offers no product of {} rows, {} by {}",
        op.rows, op.inner, op.outer
    ))
}
