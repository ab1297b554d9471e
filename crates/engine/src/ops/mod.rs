//! The operations: one file each, forward and hand-written backward side by side.
//!
//! | operation | forward | backward |
//! |---|---|---|
//! | [`Linear`] | y = x W + b, then add a residual, add positions or apply an activation | dx, dW, db |
//! | [`LayerNorm`] | y = (x − mean)/std · gain + bias | dx, dgain, dbias |
//! | [`Attention`] | heads of softmax, ReLU or linear attention, causal or full | dq, dk, dv |
//! | [`LstmLayer`] | one layer over all tokens | dx, dW, db |
//! | [`ReadOut`] | predictions at the x tokens | dx, dw, db |
//! | [`MeanSquare`] | mean squared error | dpredictions |
//! | [`QueryAttention`], [`LstmQuery`] | single tokens after a shared prefix | none |

mod attention;
mod layer_norm;
mod linear;
mod lstm;
mod query;
mod read_out;
mod scores;
#[cfg(test)]
mod tests;

pub use attention::{Attention, AttentionKind, Mask};
pub use layer_norm::LayerNorm;
pub use linear::{Activation, Epilogue, Linear};
pub use lstm::LstmLayer;
pub use query::{LstmQuery, QueryAttention};
pub use read_out::{MeanSquare, ReadOut};
pub use scores::Weighting;

use crate::plan::{BackwardStep, Buffers, Context, Route, Var};

/// One operation of a plan.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum Op {
    Linear(Linear),
    LayerNorm(LayerNorm),
    Attention(Attention),
    LstmLayer(LstmLayer),
    ReadOut(ReadOut),
    MeanSquare(MeanSquare),
    QueryAttention(QueryAttention),
    LstmQuery(LstmQuery),
}

/// Gradient buffers of one backward step, moved out of the pool while the operation works.
pub(crate) struct Grads {
    /// Gradient of the output; an operation may overwrite it unless the residual shares it.
    pub dout: Vec<f32>,
    /// Gradient of the input; empty when nobody asks for it.
    pub dx: Vec<f32>,
    /// Whether dx already holds other contributions.
    pub add_dx: bool,
}

impl Op {
    /// The operation's name and sizes, for profiles.
    pub fn label(&self) -> String {
        match self {
            Op::Linear(op) => format!("linear {}x{}", op.inner, op.outer),
            Op::LayerNorm(_) => "layer norm".into(),
            Op::Attention(_) => "attention".into(),
            Op::LstmLayer(_) => "lstm layer".into(),
            Op::ReadOut(_) => "read-out".into(),
            Op::MeanSquare(_) => "mean square".into(),
            Op::QueryAttention(_) => "query attention".into(),
            Op::LstmQuery(_) => "lstm query".into(),
        }
    }

    /// The value the operation computes.
    pub fn out(&self) -> Var {
        match self {
            Op::Linear(op) => op.out,
            Op::LayerNorm(op) => op.out,
            Op::Attention(op) => op.out,
            Op::LstmLayer(op) => op.out,
            Op::ReadOut(op) => op.out,
            Op::MeanSquare(op) => op.out,
            Op::QueryAttention(op) => op.out,
            Op::LstmQuery(op) => op.out,
        }
    }

    /// The value the operation differentiates with respect to, besides parameters.
    pub fn input(&self) -> Var {
        match self {
            Op::Linear(op) => op.x,
            Op::LayerNorm(op) => op.x,
            Op::Attention(op) => op.qkv,
            Op::LstmLayer(op) => op.x,
            Op::ReadOut(op) => op.x,
            Op::MeanSquare(op) => op.predictions,
            Op::QueryAttention(op) => op.qkv,
            Op::LstmQuery(op) => op.x,
        }
    }

    /// A second input that is added to the result.
    pub fn residual(&self) -> Option<Var> {
        match self {
            Op::Linear(Linear { epilogue: Epilogue::Add(residual), .. }) => Some(*residual),
            _ => None,
        }
    }

    /// Values of scratch space the operation wants.
    pub(crate) fn scratch(&self, backward: bool) -> usize {
        match self {
            Op::Linear(op) => op.scratch(),
            Op::LayerNorm(op) if backward => op.scratch(),
            Op::LstmLayer(op) => op.scratch(),
            Op::LstmQuery(op) => op.scratch(),
            Op::QueryAttention(op) => op.scratch(),
            _ => 0,
        }
    }

    /// Computes the output from the inputs.
    pub(crate) fn forward(&self, buffers: &mut Buffers, context: Context) {
        match self {
            Op::Linear(op) => op.forward(buffers, context),
            Op::LayerNorm(op) => op.forward(buffers, context),
            Op::Attention(op) => op.forward(buffers),
            Op::LstmLayer(op) => op.forward(buffers, context),
            Op::ReadOut(op) => op.forward(buffers, context),
            Op::MeanSquare(op) => op.forward(buffers),
            Op::QueryAttention(op) => op.forward(buffers, context),
            Op::LstmQuery(op) => op.forward(buffers, context),
        }
    }

    /// Computes gradients of inputs and adds gradients of parameters to `dparams`.
    pub(crate) fn backward(
        &self,
        buffers: &mut Buffers,
        context: Context,
        dparams: &mut [f32],
        step: BackwardStep,
    ) {
        let take = |grads: &mut Vec<Vec<f32>>, slot: usize| std::mem::take(&mut grads[slot]);
        let mut grads = Grads { dout: take(&mut buffers.grads, step.dout), dx: Vec::new(), add_dx: false };
        if let Route::Add(slot) = step.dresidual {
            buffers.grads[slot].iter_mut().zip(&grads.dout).for_each(|(d, &g)| *d += g);
        }
        match step.dx {
            Route::Write(slot) => grads.dx = take(&mut buffers.grads, slot),
            Route::Add(slot) => {
                grads.dx = take(&mut buffers.grads, slot);
                grads.add_dx = true;
            }
            Route::Nowhere | Route::Shared => {}
        }
        match self {
            Op::Linear(op) => op.backward(buffers, context, dparams, &mut grads),
            Op::LayerNorm(op) => op.backward(buffers, context, dparams, &mut grads),
            Op::Attention(op) => op.backward(buffers, &mut grads),
            Op::LstmLayer(op) => op.backward(buffers, context, dparams, &mut grads),
            Op::ReadOut(op) => op.backward(buffers, context, dparams, &mut grads),
            Op::MeanSquare(op) => op.backward(buffers, &mut grads),
            // Queries are never trained on: plans with them have no loss.
            Op::QueryAttention(_) | Op::LstmQuery(_) => {}
        }
        if let Route::Write(slot) | Route::Add(slot) = step.dx {
            buffers.grads[slot] = grads.dx;
        }
        buffers.grads[step.dout] = grads.dout;
    }
}
