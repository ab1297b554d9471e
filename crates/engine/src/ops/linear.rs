//! y = x W + b, with whatever follows it fused: one pass over memory instead of two.

use rayon::prelude::*;

use super::{Grads, Op};
use crate::matmul::{Into, Mat, matmul, transpose};
use crate::parallel::{block_rows, partial_sums, rows_per_partial_sum};
use crate::params::Param;
use crate::plan::{Buffers, Context, Mode, PlanBuilder, Var};
use crate::simd::{exp, vectorised};

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
        /// The product before the activation, `[rows, outer]`, for the way back; untouched in inference.
        before: Var,
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
        // The residual's gradient shares the output's buffer, which the input's gradient must not overwrite.
        assert_ne!(epilogue, Epilogue::Add(x), "a residual must be another value than the input");
        let trains = plan.mode() == Mode::Train;
        plan.push(Op::Linear(Self { x, w, b, transposed, epilogue, trains, out, rows, inner, outer }));
    }

    fn weights<'a>(&self, params: &'a [f32]) -> Mat<'a> {
        match self.transposed {
            false => Mat::dense(self.w.of(params), self.inner, self.outer),
            true => Mat::dense(self.w.of(params), self.outer, self.inner).t(),
        }
    }

    pub(super) fn forward(&self, buffers: &mut Buffers, context: Context) {
        let &Self { rows, inner, outer, .. } = self;
        let (w, b) = (self.weights(context.params), self.b.of(context.params));
        let mut out = buffers.take(self.out);
        // On the way to a gradient the product is kept apart from what the activation makes of it.
        let mut before = match self.epilogue {
            Epilogue::Activate { before, .. } if self.trains => buffers.take(before),
            _ => Vec::new(),
        };
        let block = block_rows(rows, outer);
        let product = |y: &mut [f32], x: &[f32]| {
            matmul(y, outer, Into::Overwrite, Mat::dense(x, y.len() / outer, inner), w);
        };
        let x = buffers.value(self.x).par_chunks(block * inner);
        let outs = out.par_chunks_mut(block * outer);
        match self.epilogue {
            Epilogue::Activate { kind, before: place } if self.trains => {
                let befores = before.par_chunks_mut(block * outer);
                (outs, befores, x).into_par_iter().for_each(|(y, before, x)| {
                    product(before, x);
                    activate(kind, y, before, b);
                });
                buffers.put(place, before);
            }
            _ => (outs, x).into_par_iter().enumerate().for_each(|(task, (y, x))| {
                product(y, x);
                self.finish(task * block, y, b, buffers, context);
            }),
        }
        buffers.put(self.out, out);
    }

    /// Adds bias and epilogue to rows of the product, which have just been written and are still near.
    fn finish(&self, first_row: usize, y: &mut [f32], b: &[f32], buffers: &Buffers, context: Context) {
        let outer = self.outer;
        match self.epilogue {
            Epilogue::Activate { kind, .. } => activate_in_place(kind, y, b),
            Epilogue::None => y.chunks_exact_mut(outer).for_each(|y| add_to(y, b)),
            Epilogue::Add(residual) => {
                let residual = &buffers.value(residual)[first_row * outer..];
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

    /// One partial weight and bias gradient per group of rows, and the transposed weights.
    pub(super) fn scratch(&self) -> usize {
        self.inner * self.outer + partial_sums(self.rows) * (self.inner + 1) * self.outer
    }

    pub(super) fn backward(
        &self,
        buffers: &mut Buffers,
        context: Context,
        dparams: &mut [f32],
        grads: &mut Grads,
    ) {
        let &Self { rows, inner, outer, .. } = self;
        let mut scratch = std::mem::take(&mut buffers.scratch);
        let (w_t, partials) = scratch.split_at_mut(inner * outer);
        if !grads.dx.is_empty() {
            // A transposed copy is cheaper than letting every task pack the transposed view.
            let w_t = match self.transposed {
                true => self.w.of(context.params),
                false => {
                    transpose(w_t, self.w.of(context.params), inner, outer);
                    w_t
                }
            };
            let task_rows = block_rows(rows, outer);
            let into = if grads.add_dx { Into::Add } else { Into::Overwrite };
            let dxs = grads.dx.par_chunks_mut(task_rows * inner);
            let pieces = (dxs, grads.dout.par_chunks_mut(task_rows * outer));
            pieces.into_par_iter().enumerate().for_each(|(task, (dx, dout))| {
                if let Epilogue::Activate { kind, before } = self.epilogue {
                    let before = &buffers.value(before)[task * task_rows * outer..];
                    activate_backward(kind, dout, before);
                }
                let n = dx.len() / inner;
                matmul(dx, inner, into, Mat::dense(dout, n, outer), Mat::dense(w_t, outer, inner));
            });
        }
        let dout = &grads.dout[..];
        weight_gradient(
            dparams,
            [self.w, self.b],
            self.transposed,
            (buffers.value(self.x), inner),
            (dout, outer),
            partials,
        );
        if let Epilogue::Positions { table, tokens } = self.epilogue {
            let dtable = table.of_mut(dparams);
            for (row, d) in dout.chunks_exact(outer).enumerate() {
                let position = row % tokens;
                dtable[position * outer..][..outer].iter_mut().zip(d).for_each(|(t, &d)| *t += d);
            }
        }
        buffers.scratch = scratch;
    }
}

/// dW += xᵀ dout and db += Σ rows of dout: the long sum over rows is cut into fixed groups with a partial
/// sum each, which are then added in order.
pub(super) fn weight_gradient(
    dparams: &mut [f32],
    [w, b]: [Param; 2],
    transposed: bool,
    (x, inner): (&[f32], usize),
    (dout, outer): (&[f32], usize),
    scratch: &mut [f32],
) {
    let group = rows_per_partial_sum(x.len() / inner);
    let parts = partial_sums(x.len() / inner);
    let size = (inner + 1) * outer;
    let partials = &mut scratch[..parts * size];
    (partials.par_chunks_mut(size), x.par_chunks(group * inner), dout.par_chunks(group * outer))
        .into_par_iter()
        .for_each(|(partial, x, dout)| {
            let n = x.len() / inner;
            let (dw, db) = partial.split_at_mut(inner * outer);
            let (x, d) = (Mat::dense(x, n, inner), Mat::dense(dout, n, outer));
            match transposed {
                false => matmul(dw, outer, Into::Overwrite, x.t(), d),
                true => matmul(dw, inner, Into::Overwrite, d.t(), x),
            }
            sum_rows(db, dout);
        });
    let (weights, bias) = (w.len, b.len);
    add_partials(w.of_mut(dparams), partials, size, 0, weights);
    add_partials(b.of_mut(dparams), partials, size, weights, bias);
}

/// out += Σ over parts of `partials[part * size + from ..][..len]`, in order.
fn add_partials(out: &mut [f32], partials: &[f32], size: usize, from: usize, len: usize) {
    const PIECE: usize = 1 << 14;
    debug_assert_eq!(out.len(), len);
    out.par_chunks_mut(PIECE).enumerate().for_each(|(piece, out)| {
        for part in partials.chunks_exact(size) {
            add_to(out, &part[from + piece * PIECE..][..out.len()]);
        }
    });
}

/// √(2/π), and twice it: tanh-GELU is x·sigmoid(2u) with u = √(2/π)(x + 0.044715 x³).
const GELU_SCALE: f32 = 2.0 * 0.797_884_6;
const GELU_CUBIC: f32 = 0.044_715;

/// x += bias in each row, then y = activation(x).
fn activate(kind: Activation, y: &mut [f32], x: &mut [f32], bias: &[f32]) {
    match kind {
        Activation::Gelu => gelu(y, x, bias),
        Activation::Relu => relu(y, x, bias),
    }
}

/// y = activation(y + bias) in each row.
fn activate_in_place(kind: Activation, y: &mut [f32], bias: &[f32]) {
    match kind {
        Activation::Gelu => gelu_in_place(y, bias),
        Activation::Relu => relu_in_place(y, bias),
    }
}

/// Turns the gradient of the activation's result into that of its argument, in place.
fn activate_backward(kind: Activation, d: &mut [f32], x: &[f32]) {
    match kind {
        Activation::Gelu => gelu_backward(d, x),
        Activation::Relu => relu_backward(d, x),
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

    /// sums`[o]` = Σ_r x`[r, o]`
    fn sum_rows(sums: &mut [f32], x: &[f32]) -> () {
        sums.fill(0.0);
        for row in x.chunks_exact(sums.len()) {
            for (sum, &x) in sums.iter_mut().zip(row) {
                *sum += x;
            }
        }
    }

    fn gelu(y: &mut [f32], x: &mut [f32], bias: &[f32]) -> () {
        for (y, x) in y.chunks_exact_mut(bias.len()).zip(x.chunks_exact_mut(bias.len())) {
            for ((y, x), &bias) in y.iter_mut().zip(x).zip(bias) {
                *x += bias;
                *y = *x / (1.0 + exp(-GELU_SCALE * (*x + GELU_CUBIC * *x * *x * *x)));
            }
        }
    }

    fn gelu_in_place(y: &mut [f32], bias: &[f32]) -> () {
        for y in y.chunks_exact_mut(bias.len()) {
            for (y, &bias) in y.iter_mut().zip(bias) {
                let x = *y + bias;
                *y = x / (1.0 + exp(-GELU_SCALE * (x + GELU_CUBIC * x * x * x)));
            }
        }
    }

    fn gelu_backward(d: &mut [f32], x: &[f32]) -> () {
        for (d, &x) in d.iter_mut().zip(x) {
            let s = 1.0 / (1.0 + exp(-GELU_SCALE * (x + GELU_CUBIC * x * x * x)));
            let slope = GELU_SCALE * (1.0 + 3.0 * GELU_CUBIC * x * x);
            *d *= s + x * s * (1.0 - s) * slope;
        }
    }

    fn relu(y: &mut [f32], x: &mut [f32], bias: &[f32]) -> () {
        for (y, x) in y.chunks_exact_mut(bias.len()).zip(x.chunks_exact_mut(bias.len())) {
            for ((y, x), &bias) in y.iter_mut().zip(x).zip(bias) {
                *x += bias;
                *y = if *x < 0.0 { 0.0 } else { *x };
            }
        }
    }

    fn relu_in_place(y: &mut [f32], bias: &[f32]) -> () {
        for y in y.chunks_exact_mut(bias.len()) {
            for (y, &bias) in y.iter_mut().zip(bias) {
                let x = *y + bias;
                *y = if x < 0.0 { 0.0 } else { x };
            }
        }
    }

    fn relu_backward(d: &mut [f32], x: &[f32]) -> () {
        for (d, &x) in d.iter_mut().zip(x) {
            *d = if x > 0.0 { *d } else { 0.0 };
        }
    }
}
