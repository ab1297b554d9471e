//! Linear maps: cuBLASLt products with bias, residual and activation fused where the library can.

use super::{Gradient, Lowering, Parts};
use crate::cuda::error::CudaError;
use crate::cuda::product::{Fused, Kind, Matrix};
use crate::ops::{Activation, Epilogue, Linear, Op};
use crate::plan::Var;

/// Blocks and threads of kernels over single values.
const VALUE_BLOCKS: usize = 1056;
const VALUE_THREADS: usize = 256;
/// Rows per block of a sum over rows.
const SUM_ROWS: usize = 64;

impl Lowering<'_> {
    fn half_matrix(&self, at: u64, rows: usize, columns: usize) -> Matrix {
        Matrix::new(at, self.half(), rows, columns)
    }

    pub(super) fn linear(&mut self, op: &Linear) -> Result<(), CudaError> {
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
            Epilogue::Activate { kind, before } => {
                let out = self.store(op.out, self.half())?;
                let before = self.store(before, self.half())?;
                let bias = self.weights(op.b);
                let fused = Fused::Gelu { bias, before };
                let fits = kind == Activation::Gelu
                    && self.product(0, self.half_matrix(out, rows, outer), [x, w], None, fused)?;
                fits || {
                    let into = self.half_matrix(before, rows, outer);
                    let done = self.product(0, into, [x, w], None, Fused::Bias(bias))?;
                    self.activation("activate", [out, before], rows * outer, kind)?;
                    done
                }
            }
            Epilogue::Positions { .. } | Epilogue::QueryPosition { .. } => false,
        };
        if done { Ok(()) } else { Err(unsupported(op)) }
    }

    fn activation(
        &mut self,
        name: &'static str,
        pointers: [u64; 2],
        count: usize,
        kind: Activation,
    ) -> Result<(), CudaError> {
        let kind = match kind {
            Activation::Gelu => 0usize,
            Activation::Relu => 1,
        };
        let arguments = [pointers[0].into(), pointers[1].into(), count.into(), kind.into()];
        let blocks = (count / 4).div_ceil(VALUE_THREADS).clamp(1, VALUE_BLOCKS);
        self.launch(name, blocks, VALUE_THREADS, &arguments)
    }

    pub(super) fn linear_backward(&mut self, op: &Linear) -> Result<(), CudaError> {
        let &Linear { rows, inner, outer, .. } = op;
        let dout = self.gradient(op.out);
        if let (Epilogue::Activate { kind, before }, false) = (op.epilogue, dout.through_activation) {
            let before = self.value(before);
            self.activation("activate_backward", [dout.half, before], rows * outer, kind)?;
        }
        if let Epilogue::Add(residual) = op.epilogue {
            assert!(self.gradients[residual.0].is_none(), "a residual is added once");
            self.gradients[residual.0] = Some(dout);
        }
        let d = self.half_matrix(dout.half, rows, outer);
        self.weight_gradient(op, d)?;

        assert!(self.gradients[op.x.0].is_none(), "only the residual stream is read twice");
        let dx = self.half_buffer(rows * inner)?;
        let into = self.half_matrix(dx, rows, inner);
        let w = self.half_matrix(self.weights(op.w), inner, outer);
        let w_t = if op.transposed { self.half_matrix(w.at, outer, inner) } else { w.t() };
        // The activation behind x is passed on the way, if the library can.
        let through_activation = match self.gelu_behind(op.x) {
            Some(before) => {
                let fused = Fused::GeluBackward { before: self.value(before) };
                self.product(0, into, [d, w_t], None, fused)?
            }
            None => false,
        };
        if !through_activation && !self.product(0, into, [d, w_t], None, Fused::Nothing)? {
            return Err(unsupported(op));
        }
        self.gradients[op.x.0] = Some(Gradient { half: dx, float: None, through_activation });
        Ok(())
    }

    /// dW on a side lane, and db: from a kernel that has it in parts, beside dW, or by a kernel of its own.
    fn weight_gradient(&mut self, op: &Linear, d: Matrix) -> Result<(), CudaError> {
        let &Linear { rows, inner, outer, .. } = op;
        let x = self.half_matrix(self.value(op.x), rows, inner);
        let (dw, db) = (self.dparam(op.w), self.dparam(op.b));
        let lane = self.side_lane();
        let (out, factors) = match op.transposed {
            false => (Matrix::new(dw, Kind::Float, inner, outer), [x.t(), d]),
            true => (Matrix::new(dw, Kind::Float, outer, inner), [d.t(), x]),
        };
        let parts = self.bias_parts.get(&op.out.0).copied();
        let summed = parts.is_none()
            && !op.transposed
            && self.product(lane, out, factors, None, Fused::ColumnSums(db))?;
        if summed {
            return Ok(());
        }
        if !self.product(lane, out, factors, None, Fused::Nothing)? {
            return Err(unsupported(op));
        }
        let parts = match parts {
            Some(parts) => parts,
            None => {
                let parts = rows.div_ceil(SUM_ROWS);
                let at = self.float_buffer(parts * outer)?;
                let arguments = [at.into(), d.at.into(), rows.into(), outer.into(), SUM_ROWS.into()];
                self.launch("column_sums", parts, (outer / 4).clamp(32, 256), &arguments)?;
                Parts { at, parts, stride: outer }
            }
        };
        self.sum_parts(db, parts, outer);
        Ok(())
    }

    /// If x is the result of a GELU: what went into it.
    fn gelu_behind(&self, x: Var) -> Option<Var> {
        self.graph.plan.ops().iter().find_map(|op| match op {
            Op::Linear(Linear {
                out, epilogue: Epilogue::Activate { kind: Activation::Gelu, before }, ..
            }) if *out == x => Some(*before),
            _ => None,
        })
    }
}

fn unsupported(op: &Linear) -> CudaError {
    CudaError::Unsupported(format!(
        "cuBLASLt offers no product of {} rows, {} by {}",
        op.rows, op.inner, op.outer
    ))
}
