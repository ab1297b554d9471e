//! The operations: one file each, forward and hand-written backward side by side.
//!
//! An operation works on the share of one group of prompts, on one thread; groups are dealt to threads by the runner.
//! Gradients of weights sum over all prompts and are computed afterwards, on all threads.
//!
//! | operation | forward | backward |
//! |---|---|---|
//! | [`Linear`] | y = x W + b, then add a residual, add positions or apply an activation | dx, dW, db |
//! | [`LayerNorm`] | y = (x − mean)/std · gain + bias | dx, dgain, dbias |
//! | [`Attention`] | heads of softmax, ReLU or linear attention, causal or full | dq, dk, dv |
//! | [`LstmLayer`] | one layer over all tokens | dx, dW, db |
//! | [`Pick`] | every second token | dx |
//! | [`ReadOut`] | predictions at the x tokens | dx, dw, db |
//! | [`MeanSquare`] | mean squared error | dpredictions |
//! | [`QueryAttention`], [`LstmQuery`] | single tokens after a shared prefix | none |

mod attention;
mod layer_norm;
mod linear;
mod lstm;
mod pick;
mod query;
mod read_out;
mod scores;
#[cfg(test)]
mod tests;
mod weights;

pub use attention::{Attention, AttentionKind, Mask};
pub use layer_norm::LayerNorm;
pub use linear::{Activation, Epilogue, Linear};
pub use lstm::LstmLayer;
pub use pick::Pick;
pub use query::{LstmQuery, QueryAttention};
pub use read_out::{MeanSquare, ReadOut};
pub use scores::Weighting;
pub(crate) use weights::{WeightGradient, WeightTask, add_one_by_one, in_turns, weight_tasks};

use crate::cpu::weights::Matrix;
use crate::cpu::workspace::{Buffers, Context, Kept, Share};
use crate::model::plan::{BackwardStep, Route, Var};

/// One operation of a plan.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum Op {
    Linear(Linear),
    LayerNorm(LayerNorm),
    Attention(Attention),
    LstmLayer(LstmLayer),
    Pick(Pick),
    ReadOut(ReadOut),
    MeanSquare(MeanSquare),
    QueryAttention(QueryAttention),
    LstmQuery(LstmQuery),
}

/// Gradients of one backward step, moved out of the share while the operation works.
pub(crate) struct Grads<'a> {
    /// Gradient of the output; an operation may overwrite it.
    pub dout: &'a mut [f32],
    /// Gradient of the input; empty when nobody asks for it.
    pub dx: &'a mut [f32],
    /// Whether dx already holds other contributions.
    pub add_dx: bool,
    /// Another contribution to dx, as long as it; empty where there is none.
    pub with: &'a mut [f32],
}

impl Op {
    /// The operation's name and sizes, for profiles.
    pub fn label(&self) -> String {
        match self {
            Op::Linear(op) => format!("linear {}x{}", op.inner, op.outer),
            Op::LayerNorm(_) => "layer norm".into(),
            Op::Attention(_) => "attention".into(),
            Op::LstmLayer(_) => "lstm layer".into(),
            Op::Pick(_) => "pick".into(),
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
            Op::Pick(op) => op.out,
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
            Op::Pick(op) => op.x,
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

    /// The matrices that rows are multiplied by.
    pub(crate) fn matrices(&self) -> Vec<Matrix> {
        match self {
            Op::Linear(op) => vec![op.matrix()],
            Op::LstmLayer(op) => op.matrices().to_vec(),
            Op::LstmQuery(op) => op.prefix.matrices().to_vec(),
            _ => Vec::new(),
        }
    }

    /// Values that it fills other than by a product, and how many operations later at the least: a place must be fetched
    /// before anything can be written there, and products have time to ask for it.
    pub(crate) fn fills(&self) -> [Option<(usize, Var)>; 2] {
        match self {
            // After its own product.
            Op::Linear(Linear { epilogue: Epilogue::Activate { slope, .. }, trains: true, .. }) => {
                [Some((1, *slope)), None]
            }
            Op::LayerNorm(op) => [Some((0, op.out)), None],
            Op::Attention(op) => [op.weights.map(|weights| (0, weights)), Some((0, op.out))],
            _ => [None; 2],
        }
    }

    /// Values of the way there that the way back reads, or where it leaves something; what it reads has long left the
    /// caches by then.
    pub(crate) fn looks_back_at(&self) -> [Option<Var>; 3] {
        match self {
            Op::Linear(Linear { epilogue: Epilogue::Activate { slope, .. }, .. }) => {
                [Some(*slope), None, None]
            }
            Op::LayerNorm(op) => [Some(op.x), Some(op.stats), op.contributions],
            Op::Attention(op) => [Some(op.qkv), op.weights, None],
            Op::LstmLayer(op) => [Some(op.gates), Some(op.cells), None],
            Op::MeanSquare(op) => [Some(op.predictions), Some(op.targets), None],
            _ => [None; 3],
        }
    }

    /// Whether gradients of weights are computed from the gradient of the output.
    pub(crate) fn keeps_dout(&self) -> bool {
        matches!(self, Op::Linear(_) | Op::ReadOut(_))
    }

    /// Whether the result is one for all prompts.
    pub(crate) fn takes_whole_batch(&self) -> bool {
        matches!(self, Op::MeanSquare(_))
    }

    /// Computes the output from the inputs.
    pub(crate) fn forward(&self, share: &mut Share, context: Context) {
        match self {
            Op::Linear(op) => op.forward(share, context),
            Op::LayerNorm(op) => op.forward(share, context),
            Op::Attention(op) => op.forward(share),
            Op::LstmLayer(op) => op.forward(share, context),
            Op::Pick(op) => op.forward(share),
            Op::ReadOut(op) => op.forward(share, context),
            Op::MeanSquare(op) => op.forward(share),
            Op::QueryAttention(op) => op.forward(share, context),
            Op::LstmQuery(op) => op.forward(share, context),
        }
    }

    /// Computes gradients of inputs.
    pub(crate) fn backward(&self, share: &mut Share, context: Context, step: BackwardStep) {
        let mut grads = Grads { dout: share.take_grad(step.dout), dx: &mut [], add_dx: false, with: &mut [] };
        if let Route::Write(slot) | Route::Add(slot) = step.dresidual {
            let residual = share.take_grad(slot);
            match step.dresidual {
                Route::Add(_) => residual.iter_mut().zip(&*grads.dout).for_each(|(d, &g)| *d += g),
                _ => residual.copy_from_slice(grads.dout),
            }
            share.put_grad(slot, residual);
        }
        match step.dx {
            Route::Nowhere => {}
            Route::Write(slot) => grads.dx = share.take_grad(slot),
            Route::Add(slot) => (grads.dx, grads.add_dx) = (share.take_grad(slot), true),
            Route::Sum { slot, with } => {
                (grads.dx, grads.with) = (share.take_grad(slot), share.take_grad(with));
            }
        }
        match self {
            Op::Linear(op) => op.backward(share, context, &mut grads),
            Op::LayerNorm(op) => op.backward(share, context, &mut grads),
            Op::Attention(op) => op.backward(share, &mut grads),
            Op::LstmLayer(op) => op.backward(share, context, &mut grads),
            Op::Pick(op) => op.backward(&mut grads),
            Op::ReadOut(op) => op.backward(context, &mut grads),
            Op::MeanSquare(op) => op.backward(share, &mut grads),
            // Queries are never trained on: plans with them have no loss.
            Op::QueryAttention(_) | Op::LstmQuery(_) => {}
        }
        match step.dx {
            Route::Nowhere => {}
            Route::Write(slot) | Route::Add(slot) => share.put_grad(slot, grads.dx),
            Route::Sum { slot, with } => {
                share.put_grad(slot, grads.dx);
                share.put_grad(with, grads.with);
            }
        }
        share.put_grad(step.dout, grads.dout);
    }

    /// The gradients of weight matrices that are to be computed once all groups have those of the inputs.
    pub(crate) fn weight_gradients<'a>(
        &self,
        kept: &Kept<'a>,
        step: BackwardStep,
    ) -> Vec<WeightGradient<'a>> {
        match self {
            Op::Linear(op) => vec![op.weight_gradient(kept, step.dout)],
            Op::LstmLayer(op) => op.weight_gradients(kept).into(),
            _ => Vec::new(),
        }
    }

    /// Adds the gradients of all other parameters.
    pub(crate) fn other_gradients(&self, buffers: &Buffers, dparams: &mut [f32], step: BackwardStep) {
        let dout = buffers.grad(step.dout);
        match self {
            Op::Linear(op) => op.other_gradients(dparams, dout),
            Op::LayerNorm(op) => op.other_gradients(buffers, dparams),
            Op::ReadOut(op) => op.other_gradients(buffers, dparams, dout),
            _ => {}
        }
    }
}
