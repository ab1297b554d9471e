//! One LSTM layer over all tokens, with PyTorch's gate order (input, forget, candidate, output); and one step of it for
//! single queries after a shared prefix.

use super::{Linear, Op, WeightMatrix};
use crate::model::parameters::Param;
use crate::model::plan::{PlanBuilder, Var};

/// h_t = o·tanh(c_t), c_t = f·c_{t−1} + i·g with gates from x_t and h_{t−1}.
#[derive(Debug, Clone, Copy)]
pub struct LstmLayer {
    /// Input `[batch, tokens, inner]`.
    pub x: Var,
    /// Input weights `[4·width, inner]`.
    pub w_ih: Param,
    /// Recurrent weights `[4·width, width]`.
    pub w_hh: Param,
    /// Input bias `[4·width]`.
    pub b_ih: Param,
    /// Recurrent bias `[4·width]`.
    pub b_hh: Param,
    /// Output h `[batch, tokens, width]`.
    pub out: Var,
    /// Gates after their activation `[batch, tokens, 4·width]`; the backward pass turns them into their gradients.
    pub gates: Var,
    /// Cells c `[batch, tokens, width]`.
    pub cells: Var,
    /// h one token earlier `[batch, tokens, width]`.
    pub previous: Var,
    /// Prompts.
    pub batch: usize,
    /// Tokens per prompt.
    pub tokens: usize,
    /// Width of a token of x.
    pub inner: usize,
    /// Width of h.
    pub width: usize,
    /// The linear map that makes x of values without a gradient, if one does. All its gradients, and those of w_ih,
    /// follow from the gates' gradients and these values.
    pub read_in: Option<Linear>,
}

impl LstmLayer {
    /// Adds the operation to a plan and returns its output. Parameters: w_ih, w_hh, b_ih, b_hh.
    pub fn add(
        plan: &mut PlanBuilder,
        x: Var,
        [w_ih, w_hh, b_ih, b_hh]: [Param; 4],
        [batch, tokens, inner, width]: [usize; 4],
    ) -> Self {
        let rows = batch * tokens;
        let out = plan.result(rows * width);
        let gates = plan.temporary("gates", rows * 4 * width);
        let cells = plan.saved_for_backward(rows * width);
        let previous = plan.temporary("previous", rows * width);
        let read_in = plan.read_in(x);
        let op = Self {
            x,
            w_ih,
            w_hh,
            b_ih,
            b_hh,
            out,
            gates,
            cells,
            previous,
            batch,
            tokens,
            inner,
            width,
            read_in,
        };
        plan.push(Op::LstmLayer(op));
        op
    }

    pub(super) fn params(&self) -> [Param; 4] {
        [self.w_ih, self.w_hh, self.b_ih, self.b_hh]
    }

    pub(super) fn weights(&self) -> [WeightMatrix; 2] {
        let matrix = |(param, inner)| WeightMatrix { param, inner, outer: 4 * self.width, transposed: true };
        [(self.w_ih, self.inner), (self.w_hh, self.width)].map(matrix)
    }
}

/// One LSTM step of each query from the state after the prefix.
#[derive(Debug, Clone, Copy)]
pub struct LstmQuery {
    /// Input `[batch, queries, inner]`.
    pub x: Var,
    /// The same layer in the plan of the prefix, whose state the queries start from.
    pub prefix: LstmLayer,
    /// Output h `[batch, queries, width]`.
    pub out: Var,
    /// Gates `[batch, queries, 4·width]`.
    pub gates: Var,
    /// Cells `[batch, queries, width]`.
    pub cells: Var,
    /// Queries per prompt.
    pub queries: usize,
}

impl LstmQuery {
    /// Adds the operation to a plan and returns its output.
    pub fn add(plan: &mut PlanBuilder, x: Var, prefix: LstmLayer, queries: usize) -> Var {
        let rows = prefix.batch * queries;
        let out = plan.result(rows * prefix.width);
        let gates = plan.temporary("gates", rows * 4 * prefix.width);
        let cells = plan.temporary("cells", rows * prefix.width);
        plan.push(Op::LstmQuery(Self { x, prefix, out, gates, cells, queries }));
        out
    }
}
