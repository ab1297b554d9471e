//! y = x W + b, with whatever follows it fused: one pass over memory instead of two.

use super::weights::WeightGradient;
use super::{Grads, Op};
use crate::cpu::gemm::general::{Into, Mat};
use crate::cpu::gemm::product_asking;
use crate::cpu::parallel::block_rows;
use crate::cpu::simd::{sigmoid, vectorised};
use crate::cpu::weights::Matrix;
use crate::cpu::workspace::{Context, Kept, Share};
use crate::model::parameters::Param;
use crate::model::plan::{Mode, PlanBuilder, Var};

/// An elementwise function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activation {
    /// GELU in its tanh form, as in GPT-2.
    #[default]
    Gelu,
    /// max(x, 0).
    Relu,
}

/// What follows the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epilogue {
    /// Nothing.
    None,
    /// Add another value of the same shape.
    Add(Var),
    /// Add row `r % tokens` of a table `[positions, outer]`.
    Positions {
        /// The table of positions.
        table: Param,
        /// Tokens per prompt.
        tokens: usize,
    },
    /// Add the one row of a table `[positions, outer]` that follows the shared prefix.
    QueryPosition {
        /// The table of positions.
        table: Param,
    },
    /// Apply an activation.
    Activate {
        /// Which function.
        kind: Activation,
        /// Its slope, `[rows, outer]`, for the way back (the GPU keeps what it can compute the slope from); untouched
        /// in inference.
        slope: Var,
    },
}

/// out`[r, o]` = epilogue(Σ_i x`[r, i]` w`[i, o]` + b`[o]`)
#[derive(Debug, Clone, Copy)]
pub struct Linear {
    /// Input `[rows, inner]`.
    pub x: Var,
    /// Weights: `[inner, outer]`, or `[outer, inner]` when `transposed`.
    pub w: Param,
    /// Bias `[outer]`.
    pub b: Param,
    /// Whether the weights are stored `[outer, inner]`, as PyTorch's `nn.Linear` does.
    pub transposed: bool,
    /// What follows.
    pub epilogue: Epilogue,
    /// Whether there is a way back.
    pub trains: bool,
    /// Output `[rows, outer]`.
    pub out: Var,
    /// Rows: batch times tokens.
    pub rows: usize,
    /// Input width.
    pub inner: usize,
    /// Output width.
    pub outer: usize,
}

impl Linear {
    /// Adds the operation to a plan, writing to `out`. `[rows, inner, outer]` are the sizes.
    pub fn add(
        plan: &mut PlanBuilder,
        x: Var,
        [w, b]: [Param; 2],
        transposed: bool,
        [rows, inner, outer]: [usize; 3],
        epilogue: Epilogue,
        out: Var,
    ) {
        assert_eq!((w.len, b.len), (inner * outer, outer), "parameters of a linear map");
        assert!(
            plan.wants_grad(x) || !matches!(epilogue, Epilogue::Activate { .. }),
            "the activation's gradient is computed on the way to the input's"
        );
        let trains = plan.mode() == Mode::Train;
        plan.push(Op::Linear(Self { x, w, b, transposed, epilogue, trains, out, rows, inner, outer }));
    }

    pub(super) fn matrix(&self) -> Matrix {
        let &Self { w, inner, outer, transposed, .. } = self;
        Matrix { param: w, inner, outer, transposed }
    }

    pub(super) fn forward(&self, share: &mut Share, context: Context) {
        let &Self { inner, outer, .. } = self;
        let (w, b) = (context.packed.of(self.w), self.b.of(context.params));
        let out = share.take(self.out);
        let block = block_rows(out.len() / outer, outer);
        let mut ahead = std::mem::take(&mut share.ahead);
        let mut product = |y: &mut [f32], x: &[f32]| {
            let x = Mat::dense(x, x.len() / inner, inner);
            product_asking(y, outer, Into::Overwrite, x, w, &mut ahead);
        };
        match self.epilogue {
            // Value and slope have most of their arithmetic in common.
            Epilogue::Activate { kind, slope: place } if self.trains => {
                let slope = share.take(place);
                let x = share.value(self.x).chunks(block * inner);
                let blocks = out.chunks_mut(block * outer).zip(slope.chunks_mut(block * outer));
                for ((y, slope), x) in blocks.zip(x) {
                    product(y, x);
                    activate_with_slope(kind, y, slope, b);
                }
                share.put(place, slope);
            }
            _ => {
                let x = share.value(self.x).chunks(block * inner);
                for (i, (y, x)) in out.chunks_mut(block * outer).zip(x).enumerate() {
                    product(y, x);
                    self.finish(i * block, y, b, share, context);
                }
            }
        }
        share.ahead = ahead;
        share.put(self.out, out);
    }

    /// Adds bias and epilogue to rows of the product, which have just been written and are still near.
    fn finish(&self, first_row: usize, y: &mut [f32], b: &[f32], share: &Share, context: Context) {
        let outer = self.outer;
        match self.epilogue {
            Epilogue::Activate { kind, .. } => activate(kind, y, b),
            Epilogue::None => y.chunks_exact_mut(outer).for_each(|y| add_to(y, b)),
            Epilogue::Add(residual) => {
                let residual = &share.value(residual)[first_row * outer..];
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

    pub(super) fn backward(&self, share: &mut Share, context: Context, grads: &mut Grads) {
        let &Self { inner, outer, .. } = self;
        if grads.dx.is_empty() {
            return;
        }
        let (w, block) = (context.packed.of(self.w), block_rows(grads.dout.len() / outer, outer));
        let into = if grads.add_dx { Into::Add } else { Into::Overwrite };
        let blocks = grads.dx.chunks_mut(block * inner).zip(grads.dout.chunks_mut(block * outer));
        for (i, (dx, dout)) in blocks.enumerate() {
            if let Epilogue::Activate { slope, .. } = self.epilogue {
                multiply_by(dout, &share.value(slope)[i * block * outer..]);
            }
            let dout = Mat::dense(dout, dx.len() / inner, outer);
            product_asking(dx, inner, into, dout, w, &mut share.ahead);
        }
    }

    pub(super) fn weight_gradient<'a>(&self, kept: &Kept<'a>, dout: usize) -> WeightGradient<'a> {
        let &Self { rows, inner, outer, .. } = self;
        let x = Mat::dense(kept.value(self.x), rows, inner);
        let dout = Mat::dense(kept.grad(dout), rows, outer);
        WeightGradient { w: self.w, b: self.b, transposed: self.transposed, x, dout }
    }

    /// Adds the gradient of the table of positions.
    pub(super) fn other_gradients(&self, dparams: &mut [f32], dout: &[f32]) {
        if let Epilogue::Positions { table, tokens } = self.epilogue {
            let dtable = table.of_mut(dparams);
            for prompt in dout.chunks_exact(tokens * self.outer) {
                add_to(&mut dtable[..prompt.len()], prompt);
            }
        }
    }
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

/// As [`activate`], and the activation's slope at the same places.
fn activate_with_slope(kind: Activation, y: &mut [f32], slope: &mut [f32], bias: &[f32]) {
    match kind {
        Activation::Gelu => gelu_with_slope(y, slope, bias),
        Activation::Relu => relu_with_slope(y, slope, bias),
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

    fn gelu_with_slope(y: &mut [f32], slope: &mut [f32], bias: &[f32]) -> () {
        for (y, slope) in y.chunks_exact_mut(bias.len()).zip(slope.chunks_exact_mut(bias.len())) {
            for ((y, slope), &bias) in y.iter_mut().zip(slope).zip(bias) {
                let x = *y + bias;
                let s = gate(x);
                *y = x * s;
                *slope = s + x * s * (1.0 - s) * (GELU_SCALE * (1.0 + 3.0 * GELU_CUBIC * x * x));
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

    fn relu_with_slope(y: &mut [f32], slope: &mut [f32], bias: &[f32]) -> () {
        for (y, slope) in y.chunks_exact_mut(bias.len()).zip(slope.chunks_exact_mut(bias.len())) {
            for ((y, slope), &bias) in y.iter_mut().zip(slope).zip(bias) {
                let x = *y + bias;
                *y = if x < 0.0 { 0.0 } else { x };
                *slope = if x > 0.0 { 1.0 } else { 0.0 };
            }
        }
    }
}
