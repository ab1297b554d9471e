//! A plan: the operations of one network for one shape, and where every buffer lives.
//!
//! Plans are built once. Values keep a buffer each; gradients share buffers, because a gradient is only
//! needed between the operation that writes it and the one that reads it.

use crate::memory::zeros;
use crate::ops::Op;
use crate::parameters::PackedParams;

/// A value computed or fed in: an index into the plan's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Var(pub(crate) usize);

/// What a plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Forward and backward.
    Train,
    /// Forward only; nothing is kept for a backward pass.
    Infer,
}

/// Where the gradient of an operation's input goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// Nobody asks for it.
    Nowhere,
    /// First contribution: overwrite this gradient buffer.
    Write(usize),
    /// Later contribution: add to this gradient buffer.
    Add(usize),
    /// It is the output's gradient unchanged and stays in the output's buffer.
    Shared,
}

/// One step of the backward pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BackwardStep {
    pub op: usize,
    /// Gradient buffer of the output.
    pub dout: usize,
    /// Where the gradient of the main input goes.
    pub dx: Route,
    /// Where the gradient of the residual input goes.
    pub dresidual: Route,
}

/// Collects operations, then assigns gradient buffers.
#[derive(Debug)]
pub struct PlanBuilder {
    ops: Vec<Op>,
    lens: Vec<usize>,
    wants_grad: Vec<bool>,
    mode: Mode,
    temporaries: Vec<(&'static str, Var)>,
}

impl PlanBuilder {
    /// An empty plan.
    pub fn new(mode: Mode) -> Self {
        Self { ops: Vec::new(), lens: Vec::new(), wants_grad: Vec::new(), mode, temporaries: Vec::new() }
    }

    /// What the plan is for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// A value fed in from outside. `wants_grad`: keep the gradient of the loss for it.
    pub fn input(&mut self, len: usize, wants_grad: bool) -> Var {
        self.lens.push(len);
        self.wants_grad.push(wants_grad);
        Var(self.lens.len() - 1)
    }

    /// A buffer for a result that is looked at after the run.
    pub fn kept(&mut self, len: usize) -> Var {
        self.input(len, true)
    }

    /// A buffer for a result that only the next operations need. Without a backward pass, all buffers of
    /// one name are one and the same.
    pub fn temporary(&mut self, name: &'static str, len: usize) -> Var {
        if self.mode == Mode::Train {
            return self.kept(len);
        }
        let found = self.temporaries.iter().find(|(other, var)| *other == name && self.lens[var.0] == len);
        if let Some(&(_, var)) = found {
            return var;
        }
        let var = self.kept(len);
        self.temporaries.push((name, var));
        var
    }

    /// A buffer an operation fills for its own backward pass, without a gradient.
    pub(crate) fn aside(&mut self, len: usize) -> Var {
        self.input(len, false)
    }

    /// Whether the gradient of a value is kept.
    pub(crate) fn wants_grad(&self, var: Var) -> bool {
        self.wants_grad[var.0]
    }

    pub(crate) fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Ends the plan. With a loss, the backward pass is planned too.
    pub fn finish(self, loss: Option<Var>) -> Plan {
        let mut slots = Slots { of: vec![None; self.lens.len()], lens: Vec::new(), free: Vec::new() };
        let mut backward = Vec::new();
        if let Some(loss) = loss {
            slots.assign(loss, self.lens[loss.0]);
        }
        for (index, op) in self.ops.iter().enumerate().rev() {
            let Some(dout) = slots.of[op.out().0] else { continue };
            let mut shared = false;
            let dresidual = match op.residual() {
                Some(residual) if slots.of[residual.0].is_none() => {
                    slots.of[residual.0] = Some(dout);
                    shared = true;
                    Route::Shared
                }
                Some(residual) => Route::Add(slots.of[residual.0].expect("assigned")),
                None => Route::Nowhere,
            };
            let x = op.input();
            let dx = match slots.of[x.0] {
                Some(slot) => Route::Add(slot),
                None if self.wants_grad[x.0] => Route::Write(slots.assign(x, self.lens[x.0])),
                None => Route::Nowhere,
            };
            if !shared {
                slots.free.push(dout);
            }
            backward.push(BackwardStep { op: index, dout, dx, dresidual });
        }
        let scratch = self.ops.iter().map(|op| op.scratch(loss.is_some())).max().unwrap_or(0);
        Plan { ops: self.ops, lens: self.lens, backward, grad_of: slots.of, slot_lens: slots.lens, scratch }
    }
}

/// Gradient buffers handed out while walking the operations backward.
struct Slots {
    of: Vec<Option<usize>>,
    lens: Vec<usize>,
    free: Vec<usize>,
}

impl Slots {
    fn assign(&mut self, var: Var, len: usize) -> usize {
        let reused = self.free.iter().position(|&slot| self.lens[slot] == len);
        let slot = match reused {
            Some(place) => self.free.swap_remove(place),
            None => {
                self.lens.push(len);
                self.lens.len() - 1
            }
        };
        self.of[var.0] = Some(slot);
        slot
    }
}

/// The operations of a network for one shape.
#[derive(Debug)]
pub struct Plan {
    pub(crate) ops: Vec<Op>,
    pub(crate) lens: Vec<usize>,
    pub(crate) backward: Vec<BackwardStep>,
    pub(crate) grad_of: Vec<Option<usize>>,
    pub(crate) slot_lens: Vec<usize>,
    pub(crate) scratch: usize,
}

impl Plan {
    /// Bytes of all buffers together.
    pub fn bytes(&self) -> usize {
        4 * (self.lens.iter().sum::<usize>() + self.slot_lens.iter().sum::<usize>() + self.scratch)
    }

    /// The operations in the order they run.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }
}

/// The buffers of a plan in main memory, and what they are filled with.
#[derive(Debug)]
pub struct Buffers {
    pub(crate) values: Vec<Vec<f32>>,
    pub(crate) grads: Vec<Vec<f32>>,
    pub(crate) scratch: Vec<f32>,
}

impl Buffers {
    /// Allocates every buffer of a plan; nothing is allocated later.
    pub fn new(plan: &Plan) -> Self {
        let all = |lens: &[usize]| lens.iter().map(|&len| zeros(len)).collect();
        Self { values: all(&plan.lens), grads: all(&plan.slot_lens), scratch: zeros(plan.scratch) }
    }

    /// A value, by reference.
    pub fn value(&self, var: Var) -> &[f32] {
        &self.values[var.0]
    }

    /// Moves a value out while an operation writes it; [`Buffers::put`] brings it back. A move, not a copy.
    pub(crate) fn take(&mut self, var: Var) -> Vec<f32> {
        std::mem::take(&mut self.values[var.0])
    }

    pub(crate) fn put(&mut self, var: Var, value: Vec<f32>) {
        self.values[var.0] = value;
    }
}

/// What an operation sees besides its buffers.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The flat parameter buffer.
    pub params: &'a [f32],
    /// Its matrices, where they were packed before.
    pub packed: Option<&'a PackedParams>,
    /// For queries after a shared prefix: the prefix.
    pub prefix: Option<Prefix<'a>>,
}

/// A prefix that was run before, and how much of it the queries may see.
#[derive(Debug, Clone, Copy)]
pub struct Prefix<'a> {
    /// The buffers of the run over the prefix.
    pub buffers: &'a Buffers,
    /// Tokens the queries see.
    pub tokens: usize,
    /// Tokens the prefix run has in all.
    pub total: usize,
}
