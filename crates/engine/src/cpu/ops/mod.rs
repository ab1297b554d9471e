//! The operations on the CPU: one file each, forward and hand-written backward side by side.
//!
//! An operation works on the view that one group of prompts has of all buffers, on one thread; the executor queues groups
//! for threads. Weight gradients sum over all prompts and are computed afterwards, on all threads.

mod attention;
mod layer_norm;
mod linear;
mod lstm;
mod pick;
mod query;
mod read_in;
mod read_out;
mod scores;
mod suffix;
#[cfg(test)]
mod tests;

use crate::cpu::backward::Grads;
use crate::cpu::weight_gradients::WeightGradient;
use crate::cpu::workspace::{Buffers, Context, GroupView, KeptBuffers};
use crate::model::ops::Op;
use crate::model::plan::Var;

/// How the CPU executes an operation, and what the schedule must know of it.
pub(crate) trait CpuOp {
    /// Computes the output from the inputs.
    fn forward(&self, view: &mut GroupView, context: Context);

    /// Computes the gradient of the input.
    fn backward(&self, view: &mut GroupView, context: Context, grads: &mut Grads);

    /// The gradients of weight matrices, to be computed once all groups have those of the inputs. `dout` is the gradient
    /// buffer of the output.
    fn weight_gradients<'a>(&self, _kept: &KeptBuffers<'a>, _dout: usize) -> Vec<WeightGradient<'a>> {
        Vec::new()
    }

    /// Adds the gradients of all other parameters.
    fn other_gradients(&self, _buffers: &Buffers, _params: &[f32], _dparams: &mut [f32], _dout: &[f32]) {}

    /// Whether the operation that makes its input gets a gradient from it.
    fn passes_gradient(&self) -> bool {
        true
    }

    /// Values that it fills other than by a product, and how many operations later at the least: a cache line must be
    /// fetched before anything can be written there, and products have time to prefetch it.
    fn fills(&self) -> [Option<(usize, Var)>; 2] {
        [None; 2]
    }

    /// Values of the forward pass that the backward pass reads or overwrites; they have long left the caches by then.
    fn needed_by_backward(&self) -> [Option<Var>; 3] {
        [None; 3]
    }

    /// Whether weight gradients are computed from the gradient of the output, which must stay until then.
    fn keeps_dout(&self) -> bool {
        false
    }

    /// Whether the result is one for all prompts.
    fn full_batch(&self) -> bool {
        false
    }

    /// Whether tokens of a prompt wait for each other.
    fn recurrent(&self) -> bool {
        false
    }
}

impl Op {
    /// The operation as the CPU executes it.
    pub(crate) fn cpu(&self) -> &dyn CpuOp {
        match self {
            Op::Linear(op) => op,
            Op::LayerNorm(op) => op,
            Op::Attention(op) => op,
            Op::LstmLayer(op) => op,
            Op::Pick(op) => op,
            Op::ReadOut(op) => op,
            Op::MeanSquare(op) => op,
            Op::QueryAttention(op) => op,
            Op::SuffixAttention(op) => op,
            Op::LstmQuery(op) => op,
        }
    }
}
