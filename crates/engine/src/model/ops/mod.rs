//! Operations as descriptions: shapes, parameters, inputs and outputs. How a device executes them is the device's affair:
//! `cpu::ops` has a forward and a backward pass for each, `cuda::lowering` its kernels.
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
//! | [`SuffixAttention`] | the last tokens of prompts after those before | none |

mod attention;
mod layer_norm;
mod linear;
mod lstm;
mod read_out;

pub use attention::{Attention, AttentionKind, Mask, QueryAttention, SuffixAttention, Weighting};
pub use layer_norm::LayerNorm;
pub use linear::{Activation, Epilogue, Linear};
pub use lstm::{LstmLayer, LstmQuery};
pub use read_out::{MeanSquare, Pick, ReadOut};

use crate::model::parameters::Param;
use crate::model::plan::Var;

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
    SuffixAttention(SuffixAttention),
    LstmQuery(LstmQuery),
}

/// A matrix among the parameters that rows are multiplied by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WeightMatrix {
    pub param: Param,
    /// Sizes of the map: from `inner` values to `outer`.
    pub inner: usize,
    pub outer: usize,
    /// Whether it is stored `[outer, inner]`, as PyTorch's `nn.Linear` does.
    pub transposed: bool,
}

impl Op {
    /// Name, input and output of each operation. The input is the value it differentiates with respect to, besides
    /// parameters.
    fn row(&self) -> (&'static str, Var, Var) {
        match self {
            Op::Linear(op) => ("linear", op.x, op.out),
            Op::LayerNorm(op) => ("layer norm", op.x, op.out),
            Op::Attention(op) => ("attention", op.qkv, op.out),
            Op::LstmLayer(op) => ("lstm layer", op.x, op.out),
            Op::Pick(op) => ("pick", op.x, op.out),
            Op::ReadOut(op) => ("read-out", op.x, op.out),
            Op::MeanSquare(op) => ("mean square", op.predictions, op.out),
            Op::QueryAttention(op) => ("query attention", op.qkv, op.out),
            Op::SuffixAttention(op) => ("suffix attention", op.qkv, op.out),
            Op::LstmQuery(op) => ("lstm query", op.x, op.out),
        }
    }

    /// The operation's name, and sizes where they tell operations apart, for profiles.
    pub fn label(&self) -> String {
        match self {
            Op::Linear(op) => format!("linear {}x{}", op.inner, op.outer),
            _ => self.row().0.into(),
        }
    }

    /// The value the operation differentiates with respect to, besides parameters.
    pub fn input(&self) -> Var {
        self.row().1
    }

    /// The value the operation computes.
    pub fn out(&self) -> Var {
        self.row().2
    }

    /// A second input that is added to the result.
    pub fn residual(&self) -> Option<Var> {
        match self {
            Op::Linear(Linear { epilogue: Epilogue::Add(residual), .. }) => Some(*residual),
            _ => None,
        }
    }

    /// The parameters that it reads.
    pub(crate) fn params(&self) -> Vec<Param> {
        match self {
            Op::Linear(op) => op.params(),
            Op::LayerNorm(op) => vec![op.gain, op.bias],
            Op::LstmLayer(op) | Op::LstmQuery(LstmQuery { prefix: op, .. }) => op.params().to_vec(),
            Op::ReadOut(op) => vec![op.w, op.bias],
            Op::Attention(_) | Op::QueryAttention(_) | Op::SuffixAttention(_) => Vec::new(),
            Op::Pick(_) | Op::MeanSquare(_) => Vec::new(),
        }
    }

    /// The weight matrices that rows are multiplied by.
    pub(crate) fn weights(&self) -> Vec<WeightMatrix> {
        match self {
            Op::Linear(op) => vec![op.weight()],
            Op::LstmLayer(op) => op.weights().to_vec(),
            Op::LstmQuery(op) => op.prefix.weights().to_vec(),
            _ => Vec::new(),
        }
    }
}
