//! y = x W + b, with whatever follows it fused: one pass over memory instead of two.

use super::{Op, WeightMatrix};
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
        /// Its derivative `[rows, outer]`, saved for backward (the GPU saves what it can compute the derivative from);
        /// untouched in inference.
        derivative: Var,
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
    /// Whether there is a backward pass.
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

    pub(super) fn params(&self) -> Vec<Param> {
        let table = match self.epilogue {
            Epilogue::Positions { table, .. } | Epilogue::QueryPosition { table } => Some(table),
            Epilogue::None | Epilogue::Add(_) | Epilogue::Activate { .. } => None,
        };
        [self.w, self.b].into_iter().chain(table).collect()
    }

    pub(super) fn weight(&self) -> WeightMatrix {
        let &Self { w, inner, outer, transposed, .. } = self;
        WeightMatrix { param: w, inner, outer, transposed }
    }
}
