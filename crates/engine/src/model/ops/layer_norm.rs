//! LayerNorm over the last axis.

use super::Op;
use crate::model::parameters::Param;
use crate::model::plan::{Mode, PlanBuilder, Var};

/// out`[r, e]` = (x`[r, e]` − mean_r) · rstd_r · gain`[e]` + bias`[e]`
#[derive(Debug, Clone, Copy)]
pub struct LayerNorm {
    /// Input `[rows, width]`.
    pub x: Var,
    /// Gain `[width]`.
    pub gain: Param,
    /// Bias `[width]`.
    pub bias: Param,
    /// Output `[rows, width]`.
    pub out: Var,
    /// Mean and reciprocal standard deviation of each row, `[rows, 2]`.
    pub stats: Var,
    /// Gradients of gain and bias that each prompt contributes, `[batch, 2, width]`; absent in inference.
    pub contributions: Option<Var>,
    /// Width of a row.
    pub width: usize,
    /// Tokens per prompt.
    pub tokens: usize,
    /// Rows: batch times tokens.
    pub rows: usize,
}

impl LayerNorm {
    /// Added to the variance, as in GPT-2.
    pub const EPSILON: f32 = 1e-5;

    /// Adds the operation to a plan, writing to `out`.
    pub fn add(
        plan: &mut PlanBuilder,
        x: Var,
        [gain, bias]: [Param; 2],
        [batch, tokens, width]: [usize; 3],
        out: Var,
    ) {
        assert!(plan.wants_grad(x), "a LayerNorm passes its gradient on");
        let rows = batch * tokens;
        let stats = plan.saved_for_backward(rows * 2);
        let contributions = (plan.mode() == Mode::Train).then(|| plan.saved_for_backward(batch * 2 * width));
        plan.push(Op::LayerNorm(Self { x, gain, bias, out, stats, contributions, width, tokens, rows }));
    }
}
