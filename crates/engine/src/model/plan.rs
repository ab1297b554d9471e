//! A plan: the operations of one network for one shape, and the size of every buffer.
//!
//! Plans are built once per shape and say nothing about devices: a device decides where buffers lie, what runs together and
//! how gradients flow back (`cpu::schedule`, `cuda::lowering`).

use crate::model::ops::{Epilogue, Linear, Op};

/// A value computed or fed in: an index into the plan's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Var(pub(crate) usize);

/// What a plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Forward and backward.
    Train,
    /// Forward only; nothing is saved for a backward pass.
    Infer,
}

/// How much of each prompt is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every token in every layer.
    Everything,
    /// What predictions at the x tokens depend on. The last layer of a Transformer is read nowhere else, so it is
    /// computed nowhere else.
    Predictions,
}

/// A buffer of values or gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferSpec {
    /// Values, for all prompts together.
    pub len: usize,
    /// Whether it is only needed while a group of prompts is in one layer, or on the CPU in one stage. Every thread then has
    /// one that is large enough for its group of prompts and stays in its caches.
    pub stage_local: bool,
}

/// Collects the operations of a plan.
#[derive(Debug)]
pub struct PlanBuilder {
    plan: Plan,
    mode: Mode,
    temporaries: Vec<(&'static str, Var)>,
}

impl PlanBuilder {
    /// An empty plan for `batch` prompts of `tokens` tokens (or queries).
    pub fn new(mode: Mode, [batch, tokens]: [usize; 2]) -> Self {
        let (ops, buffers, wants_grad, layers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let plan = Plan { ops, buffers, wants_grad, layers, batch, tokens, loss: None };
        Self { plan, mode, temporaries: Vec::new() }
    }

    /// What the plan is for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Begins a layer: temporary buffers of the layer before are not read any more.
    pub fn begin_layer(&mut self) {
        self.plan.layers.push(self.plan.ops.len());
    }

    fn buffer(&mut self, buffer: BufferSpec, wants_grad: bool) -> Var {
        self.plan.buffers.push(buffer);
        self.plan.wants_grad.push(wants_grad);
        Var(self.plan.buffers.len() - 1)
    }

    /// A value fed in from outside. `wants_grad`: keep the gradient of the loss for it.
    pub fn input(&mut self, len: usize, wants_grad: bool) -> Var {
        self.buffer(BufferSpec { len, stage_local: false }, wants_grad)
    }

    /// A buffer for a result that is read after the run, or by later layers.
    pub fn result(&mut self, len: usize) -> Var {
        self.input(len, true)
    }

    /// A buffer for a result that only the next operations of the layer need. Without a backward pass, all buffers of
    /// one name are one and the same.
    pub fn temporary(&mut self, name: &'static str, len: usize) -> Var {
        if self.mode == Mode::Train {
            return self.result(len);
        }
        let spec = BufferSpec { len, stage_local: true };
        let found =
            self.temporaries.iter().find(|(other, var)| *other == name && self.plan.buffers[var.0] == spec);
        if let Some(&(_, var)) = found {
            return var;
        }
        let var = self.buffer(spec, true);
        self.temporaries.push((name, var));
        var
    }

    /// A buffer that an operation fills for its own backward pass, without a gradient.
    pub(crate) fn saved_for_backward(&mut self, len: usize) -> Var {
        self.input(len, false)
    }

    /// Whether the gradient of a value is kept.
    pub(crate) fn wants_grad(&self, var: Var) -> bool {
        self.plan.wants_grad[var.0]
    }

    /// The operation that was added last, if it makes `x` as a linear map of fewer values that need no gradient.
    pub(crate) fn read_in(&self, x: Var) -> Option<Linear> {
        match self.plan.ops.last() {
            Some(&Op::Linear(op)) if op.out == x && op.epilogue == Epilogue::None => {
                (op.inner < op.outer && !self.wants_grad(op.x)).then_some(op)
            }
            _ => None,
        }
    }

    pub(crate) fn push(&mut self, op: Op) {
        self.plan.ops.push(op);
    }

    /// Ends the plan. With a loss there is a backward pass too.
    pub fn finish(self, loss: Option<Var>) -> Plan {
        Plan { loss, ..self.plan }
    }
}

/// The operations of a network for one shape.
#[derive(Debug)]
pub struct Plan {
    pub(crate) ops: Vec<Op>,
    /// By variable.
    pub(crate) buffers: Vec<BufferSpec>,
    /// By variable: whether somebody needs its gradient.
    pub(crate) wants_grad: Vec<bool>,
    /// The first operation of each layer.
    pub(crate) layers: Vec<usize>,
    /// Prompts.
    pub(crate) batch: usize,
    /// Tokens (or queries) per prompt.
    pub(crate) tokens: usize,
    pub(crate) loss: Option<Var>,
}

impl Plan {
    /// The operations in the order they run.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Values in the buffer of a variable, for all prompts.
    pub(crate) fn len_of(&self, var: Var) -> usize {
        self.buffers[var.0].len
    }
}
