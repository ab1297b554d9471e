//! The end of a network: some tokens of each prompt, predictions at them, and the loss.

use super::Op;
use crate::model::parameters::Param;
use crate::model::plan::{PlanBuilder, Var};

/// out`[b, p]` = x`[b, p·every]`: some tokens of each prompt, for layers that nobody reads at the others.
#[derive(Debug, Clone, Copy)]
pub struct Pick {
    /// Input `[batch, tokens, width]`.
    pub x: Var,
    /// Output [batch, ⌈tokens/every⌉, width].
    pub out: Var,
    /// Tokens per prompt.
    pub tokens: usize,
    /// Width of a token.
    pub width: usize,
    /// Distance of the tokens that are picked; the first of a prompt always is.
    pub every: usize,
}

impl Pick {
    /// Adds the operation to a plan and returns its output.
    pub fn add(plan: &mut PlanBuilder, x: Var, [batch, tokens, width]: [usize; 3], every: usize) -> Var {
        let out = plan.temporary("picked", batch * tokens.div_ceil(every) * width);
        plan.push(Op::Pick(Self { x, out, tokens, width, every }));
        out
    }
}

/// out`[b, p]` = Σ_e x`[b, p·stride, e]` w`[e]` + bias: one number at every `stride`-th token.
#[derive(Debug, Clone, Copy)]
pub struct ReadOut {
    /// Input `[batch, tokens, width]`.
    pub x: Var,
    /// Weights `[1, width]`.
    pub w: Param,
    /// Bias `[1]`.
    pub bias: Param,
    /// Output [batch, ⌈tokens/stride⌉].
    pub out: Var,
    /// Tokens per prompt.
    pub tokens: usize,
    /// Width of a token.
    pub width: usize,
    /// 2 for prompts, whose x tokens have even places; 1 for queries.
    pub stride: usize,
}

impl ReadOut {
    /// Adds the operation to a plan and returns its output.
    pub fn add(
        plan: &mut PlanBuilder,
        x: Var,
        [w, bias]: [Param; 2],
        [batch, tokens, width]: [usize; 3],
        stride: usize,
    ) -> Var {
        let out = plan.result(batch * tokens.div_ceil(stride));
        plan.push(Op::ReadOut(Self { x, w, bias, out, tokens, width, stride }));
        out
    }
}

/// out = mean over all predictions of (prediction − target)²
#[derive(Debug, Clone, Copy)]
pub struct MeanSquare {
    /// Predictions `[batch, points]`.
    pub predictions: Var,
    /// Targets `[batch, points]`.
    pub targets: Var,
    /// The loss, one number.
    pub out: Var,
}

impl MeanSquare {
    /// Adds the operation to a plan and returns its output.
    pub fn add(plan: &mut PlanBuilder, predictions: Var, targets: Var) -> Var {
        let out = plan.result(1);
        plan.push(Op::MeanSquare(Self { predictions, targets, out }));
        out
    }
}
