//! y = x W + b, with whatever follows it fused: one pass over memory instead of two.

use super::CpuOp;
use crate::cpu::backward::Grads;
use crate::cpu::gemm::general::{Accumulate, Mat};
use crate::cpu::gemm::{MC, product_prefetching, rows_per_pass};
use crate::cpu::simd::{sigmoid, vectorised};
use crate::cpu::weight_gradients::WeightGradient;
use crate::cpu::workspace::{Buffers, Context, GroupView, KeptBuffers};
use crate::model::ops::{Activation, Epilogue, Linear};
use crate::model::plan::Var;

impl CpuOp for Linear {
    fn forward(&self, view: &mut GroupView, context: Context) {
        let &Self { inner, outer, .. } = self;
        let (w, b) = (context.packed.of(self.w), self.b.of(context.params));
        let out = view.take(self.out);
        let block = block_rows(out.len() / outer, outer);
        let mut prefetcher = std::mem::take(&mut view.prefetcher);
        let mut product = |y: &mut [f32], x: &[f32]| {
            let x = Mat::dense(x, x.len() / inner, inner);
            product_prefetching(y, outer, Accumulate::Overwrite, x, w, &mut prefetcher);
        };
        match self.epilogue {
            // Value and derivative have most of their arithmetic in common.
            Epilogue::Activate { kind, derivative: var } if self.trains => {
                let derivative = view.take(var);
                let x = view.value(self.x).chunks(block * inner);
                let blocks = out.chunks_mut(block * outer).zip(derivative.chunks_mut(block * outer));
                for ((y, derivative), x) in blocks.zip(x) {
                    product(y, x);
                    activate_with_derivative(kind, y, derivative, b);
                }
                view.put(var, derivative);
            }
            _ => {
                let x = view.value(self.x).chunks(block * inner);
                for (i, (y, x)) in out.chunks_mut(block * outer).zip(x).enumerate() {
                    product(y, x);
                    self.finish(i * block, y, b, view, context);
                }
            }
        }
        view.prefetcher = prefetcher;
        view.put(self.out, out);
    }

    fn backward(&self, view: &mut GroupView, context: Context, grads: &mut Grads) {
        let &Self { inner, outer, .. } = self;
        if grads.dx.is_empty() {
            return;
        }
        let (w, block) = (context.packed.of(self.w), block_rows(grads.dout.len() / outer, outer));
        let accumulate = if grads.add_dx { Accumulate::Add } else { Accumulate::Overwrite };
        let blocks = grads.dx.chunks_mut(block * inner).zip(grads.dout.chunks_mut(block * outer));
        for (i, (dx, dout)) in blocks.enumerate() {
            if let Epilogue::Activate { derivative, .. } = self.epilogue {
                multiply_by(dout, &view.value(derivative)[i * block * outer..]);
            }
            let dout = Mat::dense(dout, dx.len() / inner, outer);
            product_prefetching(dx, inner, accumulate, dout, w, &mut view.prefetcher);
        }
    }

    fn weight_gradients<'a>(&self, kept: &KeptBuffers<'a>, dout: usize) -> Vec<WeightGradient<'a>> {
        let &Self { rows, inner, outer, .. } = self;
        let x = Mat::dense(kept.value(self.x), rows, inner);
        let dout = Mat::dense(kept.grad(dout), rows, outer);
        vec![WeightGradient { w: self.w, b: self.b, transposed: self.transposed, x, dout }]
    }

    /// Adds the gradient of the table of positions.
    fn other_gradients(&self, _: &Buffers, _: &[f32], dparams: &mut [f32], dout: &[f32]) {
        if let Epilogue::Positions { table, tokens } = self.epilogue {
            let dtable = table.of_mut(dparams);
            for prompt in dout.chunks_exact(tokens * self.outer) {
                add_to(&mut dtable[..prompt.len()], prompt);
            }
        }
    }

    fn fills(&self) -> [Option<(usize, Var)>; 2] {
        match self.epilogue {
            // After its own product.
            Epilogue::Activate { derivative, .. } if self.trains => [Some((1, derivative)), None],
            _ => [None; 2],
        }
    }

    fn needed_by_backward(&self) -> [Option<Var>; 3] {
        match self.epilogue {
            Epilogue::Activate { derivative, .. } => [Some(derivative), None, None],
            _ => [None; 3],
        }
    }

    fn keeps_dout(&self) -> bool {
        true
    }
}

impl Linear {
    /// Adds bias and epilogue to rows of the product, which have just been written and are still in L2.
    fn finish(&self, first_row: usize, y: &mut [f32], b: &[f32], view: &GroupView, context: Context) {
        let outer = self.outer;
        match self.epilogue {
            Epilogue::Activate { kind, .. } => activate(kind, y, b),
            Epilogue::None => y.chunks_exact_mut(outer).for_each(|y| add_to(y, b)),
            Epilogue::Add(residual) => {
                let residual = &view.value(residual)[first_row * outer..];
                y.chunks_exact_mut(outer)
                    .zip(residual.chunks_exact(outer))
                    .for_each(|(y, r)| add_both(y, b, r));
            }
            Epilogue::Positions { table, tokens } => {
                let table = table.of(context.params);
                for (row, y) in y.chunks_exact_mut(outer).enumerate() {
                    let position = (first_row + row) % tokens;
                    add_both(y, b, &table[position * outer..][..outer]);
                }
            }
            Epilogue::QueryPosition { table } => {
                let position = context.prefix.map_or(0, |prefix| prefix.tokens);
                let row = &table.of(context.params)[position * outer..][..outer];
                y.chunks_exact_mut(outer).for_each(|y| add_both(y, b, row));
            }
        }
    }
}

/// Of `rows` of a product, those whose epilogue is computed together: few enough for `width` values of each to stay in L2,
/// and as many as the product takes in whole passes.
fn block_rows(rows: usize, width: usize) -> usize {
    const VALUES: usize = MC << 10;
    rows_per_pass(rows, (VALUES / width.max(1) / MC).max(1) * MC)
}

/// √(2/π), and twice it: tanh-GELU is x·sigmoid(2u) with u = √(2/π)(x + 0.044715 x³).
const GELU_SCALE: f32 = 2.0 * 0.797_884_6;
const GELU_CUBIC: f32 = 0.044_715;

/// sigmoid(2u)
#[inline(always)]
fn gate(x: f32) -> f32 {
    sigmoid(GELU_SCALE * (GELU_CUBIC * x * x).mul_add(x, x))
}

/// y = activation(y + bias) in each row.
fn activate(kind: Activation, y: &mut [f32], bias: &[f32]) {
    match kind {
        Activation::Gelu => gelu(y, bias),
        Activation::Relu => relu(y, bias),
    }
}

/// As [`activate`], and the activation's derivative at the same places.
fn activate_with_derivative(kind: Activation, y: &mut [f32], derivative: &mut [f32], bias: &[f32]) {
    match kind {
        Activation::Gelu => gelu_with_derivative(y, derivative, bias),
        Activation::Relu => relu_with_derivative(y, derivative, bias),
    }
}

vectorised! {
    /// out += x
    fn add_to(out: &mut [f32], x: &[f32]) -> () {
        for (out, &x) in out.iter_mut().zip(x) {
            *out += x;
        }
    }

    /// out += x + y
    fn add_both(out: &mut [f32], x: &[f32], y: &[f32]) -> () {
        for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
            *out += x + y;
        }
    }

    /// out *= x
    fn multiply_by(out: &mut [f32], x: &[f32]) -> () {
        for (out, &x) in out.iter_mut().zip(x) {
            *out *= x;
        }
    }

    fn gelu(y: &mut [f32], bias: &[f32]) -> () {
        for y in y.chunks_exact_mut(bias.len()) {
            for (y, &bias) in y.iter_mut().zip(bias) {
                let x = *y + bias;
                *y = x * gate(x);
            }
        }
    }

    fn gelu_with_derivative(y: &mut [f32], derivative: &mut [f32], bias: &[f32]) -> () {
        for (y, derivative) in y.chunks_exact_mut(bias.len()).zip(derivative.chunks_exact_mut(bias.len())) {
            for ((y, derivative), &bias) in y.iter_mut().zip(derivative).zip(bias) {
                let x = *y + bias;
                let s = gate(x);
                *y = x * s;
                *derivative = s + x * s * (1.0 - s) * (GELU_SCALE * (1.0 + 3.0 * GELU_CUBIC * x * x));
            }
        }
    }

    fn relu(y: &mut [f32], bias: &[f32]) -> () {
        for y in y.chunks_exact_mut(bias.len()) {
            for (y, &bias) in y.iter_mut().zip(bias) {
                let x = *y + bias;
                *y = if x < 0.0 { 0.0 } else { x };
            }
        }
    }

    fn relu_with_derivative(y: &mut [f32], derivative: &mut [f32], bias: &[f32]) -> () {
        for (y, derivative) in y.chunks_exact_mut(bias.len()).zip(derivative.chunks_exact_mut(bias.len())) {
            for ((y, derivative), &bias) in y.iter_mut().zip(derivative).zip(bias) {
                let x = *y + bias;
                *y = if x < 0.0 { 0.0 } else { x };
                *derivative = if x > 0.0 { 1.0 } else { 0.0 };
            }
        }
    }
}
