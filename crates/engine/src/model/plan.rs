//! A plan: the operations of one network for one shape, and where every buffer lives.
//!
//! Plans are built once. Operations are grouped into stages: a few layers whose weights stay in the caches while one
//! group of prompts after the other passes through them. Values keep a buffer each; gradients share buffers, because a
//! gradient is only needed between the operation that writes it and the one that reads it.

use std::ops::Range;

use crate::cpu::ops::Op;

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

/// How much of each prompt is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every token in every layer.
    Everything,
    /// What predictions at the x tokens depend on. The last layer of a Transformer is read nowhere else, so it is
    /// computed nowhere else.
    Predictions,
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
    /// First two contributions: overwrite a gradient buffer with the sum of this one and another buffer, which is still
    /// needed as it is.
    Sum {
        /// The buffer that is overwritten.
        slot: usize,
        /// The other contribution.
        with: usize,
    },
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

/// Operations that a group of prompts passes through in one go.
#[derive(Debug)]
pub(crate) struct Stage {
    pub ops: Range<usize>,
    /// The way back through them; empty without a loss.
    pub backward: Vec<BackwardStep>,
    /// Values that the way there fills, each with the operation (counted from the first) before which they are asked for.
    pub filled: Vec<(usize, Var)>,
    /// What the way back reads or writes.
    pub back: Needed,
    /// Whether it takes the whole batch at once.
    pub whole: bool,
}

/// Buffers that a pass through a stage needs.
#[derive(Debug, Default)]
pub(crate) struct Needed {
    /// Values, each with the step that looks at it.
    pub values: Vec<(usize, Var)>,
    /// Gradient buffers.
    pub grads: Vec<usize>,
}

impl Needed {
    /// What steps of the way back need.
    fn on_the_way_back(ops: &[Op], steps: &[BackwardStep]) -> Self {
        let mut needed = Self::default();
        for (i, step) in steps.iter().enumerate() {
            needed.values.extend(ops[step.op].looks_back_at().into_iter().flatten().map(|var| (i, var)));
            needed.grads.push(step.dout);
            for route in [step.dx, step.dresidual] {
                match route {
                    Route::Nowhere => {}
                    Route::Write(slot) | Route::Add(slot) => needed.grads.push(slot),
                    Route::Sum { slot, with } => needed.grads.extend([slot, with]),
                }
            }
        }
        needed
    }
}

/// A buffer of values or gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Values, for all prompts together.
    pub len: usize,
    /// Whether it is needed within a stage only: then every thread has one that is large enough for its group of prompts,
    /// and that stays in its caches.
    pub passing: bool,
}

/// Collects operations, then assigns gradient buffers.
#[derive(Debug)]
pub struct PlanBuilder {
    ops: Vec<Op>,
    places: Vec<Place>,
    wants_grad: Vec<bool>,
    mode: Mode,
    batch: usize,
    group: usize,
    temporaries: Vec<(&'static str, Var)>,
    layers: Vec<usize>,
}

impl PlanBuilder {
    /// An empty plan for `batch` prompts, of which `group` pass through a stage together.
    pub fn new(mode: Mode, batch: usize, group: usize) -> Self {
        Self {
            ops: Vec::new(),
            places: Vec::new(),
            wants_grad: Vec::new(),
            mode,
            batch,
            group,
            temporaries: Vec::new(),
            layers: Vec::new(),
        }
    }

    /// What the plan is for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Begins a layer: stages end here, and temporary buffers are not looked at any more.
    pub fn begin_layer(&mut self) {
        self.layers.push(self.ops.len());
    }

    fn place(&mut self, place: Place, wants_grad: bool) -> Var {
        self.places.push(place);
        self.wants_grad.push(wants_grad);
        Var(self.places.len() - 1)
    }

    /// A value fed in from outside. `wants_grad`: keep the gradient of the loss for it.
    pub fn input(&mut self, len: usize, wants_grad: bool) -> Var {
        self.place(Place { len, passing: false }, wants_grad)
    }

    /// A buffer for a result that is looked at after the run.
    pub fn kept(&mut self, len: usize) -> Var {
        self.input(len, true)
    }

    /// A buffer for a result that only the next operations of the layer need. Without a backward pass, all buffers of
    /// one name are one and the same.
    pub fn temporary(&mut self, name: &'static str, len: usize) -> Var {
        if self.mode == Mode::Train {
            return self.kept(len);
        }
        let place = Place { len, passing: true };
        let found =
            self.temporaries.iter().find(|(other, var)| *other == name && self.places[var.0] == place);
        if let Some(&(_, var)) = found {
            return var;
        }
        let var = self.place(place, true);
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

    /// What operations fill that is not in a thread's caches anyway.
    fn filled(&self, ops: &Range<usize>) -> Vec<(usize, Var)> {
        let fills = |(i, op): (usize, &Op)| op.fills().map(|fill| fill.map(|(later, var)| (i + later, var)));
        let all = self.ops[ops.clone()].iter().enumerate().flat_map(fills).flatten();
        all.filter(|(_, var)| !self.places[var.0].passing).collect()
    }

    /// Layers one after the other, as many in a stage as have few enough weights to stay in the caches.
    fn stages(&self) -> Vec<Stage> {
        const MOST_WEIGHTS: usize = 1 << 20;
        let weights = |ops: &Range<usize>| -> usize {
            let matrices = self.ops[ops.clone()].iter().flat_map(Op::matrices);
            matrices.map(|matrix| matrix.param.len).sum()
        };
        let whole = self.ops.iter().position(Op::takes_whole_batch).unwrap_or(self.ops.len());
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let ends = self.layers.iter().skip(1).copied().chain([whole]);
        for end in ends {
            let layer = ranges.last().map_or(0, |before| before.end)..end;
            match ranges.last_mut() {
                Some(before) if weights(before) + weights(&layer) <= MOST_WEIGHTS => before.end = end,
                _ => ranges.push(layer),
            }
        }
        let stage = |ops, whole| Stage {
            filled: self.filled(&ops),
            ops,
            backward: Vec::new(),
            back: Needed::default(),
            whole,
        };
        let stages = ranges.into_iter().map(|ops| stage(ops, false));
        stages.chain([stage(whole..self.ops.len(), true)]).filter(|stage| !stage.ops.is_empty()).collect()
    }

    /// Whether, on the way back from operation `index`, a LayerNorm of the same stage is the next and last to contribute
    /// to the gradient of `var`.
    fn normalised_next(&self, stage: &Range<usize>, index: usize, var: Var) -> bool {
        let contributes = |&i: &usize| self.ops[i].input() == var || self.ops[i].residual() == Some(var);
        let mut others = (0..self.ops.len()).filter(contributes).filter(|&i| i != index);
        let only = others.next().filter(|i| others.next().is_none() && (stage.start..index).contains(i));
        only.is_some_and(|i| matches!(self.ops[i], Op::LayerNorm(_))) && self.ops[index].input() != var
    }

    /// Ends the plan. With a loss, the backward pass is planned too.
    pub fn finish(self, loss: Option<Var>) -> Plan {
        let mut stages = self.stages();
        let mut slots = Slots { of: vec![None; self.places.len()], places: Vec::new(), free: Vec::new() };
        if let Some(loss) = loss {
            slots.assign(loss, self.places[loss.0]);
        }
        // Weight gradients of a stage are computed during the way back through the stage before it: what they need stays
        // until then.
        let mut kept = Vec::new();
        for stage in stages.iter_mut().rev() {
            let mut ended = Vec::new();
            let mut owed: Vec<(Var, usize)> = Vec::new();
            for (index, op) in stage.ops.clone().map(|index| (index, &self.ops[index])).rev() {
                let Some(dout) = slots.of[op.out().0] else { continue };
                let mut route = |var: Var| match slots.of[var.0] {
                    Some(slot) => Route::Add(slot),
                    None if !self.wants_grad[var.0] => Route::Nowhere,
                    None => {
                        let mut made = self.ops[stage.ops.clone()].iter().filter(|op| op.out() == var);
                        let passing = !stage.whole && made.next().is_some_and(|op| !op.keeps_dout());
                        let slot = slots.assign(var, Place { passing, ..self.places[var.0] });
                        match owed.iter().find(|(owed, _)| *owed == var) {
                            Some(&(_, with)) => Route::Sum { slot, with },
                            None => Route::Write(slot),
                        }
                    }
                };
                let owes = op.residual().filter(|&var| self.normalised_next(&stage.ops, index, var));
                let paid = op.residual().filter(|_| owes.is_none());
                let dresidual = paid.map_or(Route::Nowhere, &mut route);
                let dx = route(op.input());
                owed.extend(owes.map(|var| (var, dout)));
                match slots.places[dout].passing {
                    true => slots.free.push(dout),
                    false => ended.push(dout),
                }
                stage.backward.push(BackwardStep { op: index, dout, dx, dresidual });
            }
            slots.free.extend(std::mem::replace(&mut kept, ended));
            stage.back = Needed::on_the_way_back(&self.ops, &stage.backward);
        }
        let Self { ops, places, batch, group, .. } = self;
        Plan { ops, places, stages, grad_of: slots.of, slots: slots.places, batch, group }
    }
}

/// Gradient buffers handed out while walking the operations backward.
struct Slots {
    of: Vec<Option<usize>>,
    places: Vec<Place>,
    free: Vec<usize>,
}

impl Slots {
    fn assign(&mut self, var: Var, place: Place) -> usize {
        let reused = self.free.iter().position(|&slot| self.places[slot] == place);
        let slot = match reused {
            Some(found) => self.free.swap_remove(found),
            None => {
                self.places.push(place);
                self.places.len() - 1
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
    pub(crate) places: Vec<Place>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) grad_of: Vec<Option<usize>>,
    pub(crate) slots: Vec<Place>,
    /// Prompts.
    pub(crate) batch: usize,
    /// Prompts that pass through a stage together.
    pub(crate) group: usize,
}

impl Plan {
    /// The operations in the order they run.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Values in the buffer of a variable, for all prompts.
    pub(crate) fn len_of(&self, var: Var) -> usize {
        self.places[var.0].len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::bench::{lstm, r1, small};

    #[test]
    fn large_layers_are_stages_and_small_ones_share_one() {
        for (case, stages) in [(r1(), 12), (small(), 1), (lstm(), 6)] {
            let infer = case.network.graph(case.batch, 82.min(2 * case.points), Mode::Infer).unwrap();
            let train = case.network.graph(case.batch, 82.min(2 * case.points), Mode::Train).unwrap();
            assert_eq!(infer.plan.stages.len(), stages, "{}", case.name);
            assert_eq!(train.plan.stages.len(), stages + 1, "{}: the loss is a stage of its own", case.name);
        }
    }

    #[test]
    fn what_passes_is_written_and_read_within_one_stage() {
        for case in [r1(), small(), lstm()] {
            let infer = case.network.graph(case.batch, 10, Mode::Infer).unwrap().plan;
            assert!(infer.places.iter().any(|place| place.passing), "{}", case.name);
            for stage in &infer.stages {
                let mut made = Vec::new();
                for op in &infer.ops[stage.ops.clone()] {
                    for var in [op.input()].into_iter().chain(op.residual()) {
                        assert!(!infer.places[var.0].passing || made.contains(&var), "{}", op.label());
                    }
                    made.push(op.out());
                }
            }
            let train = case.network.graph(case.batch, 10, Mode::Train).unwrap().plan;
            let steps = train.stages.iter().flat_map(|stage| &stage.backward);
            let sums = steps.filter(|step| matches!(step.dx, Route::Sum { .. })).count();
            let layers = train.ops.iter().filter(|op| matches!(op, Op::Attention(_))).count();
            assert_eq!(sums, 2 * layers, "{}: both halves of a layer have a way around them", case.name);
            // … and nothing by the stage before it, which is on its way back meanwhile.
            for stages in train.stages.windows(2) {
                let kept = stages[1].backward.iter().filter(|step| train.ops[step.op].keeps_dout());
                for step in kept {
                    assert!(!stages[0].back.grads.contains(&step.dout), "{}", case.name);
                }
            }
            for stage in &train.stages {
                let mut made = Vec::new();
                for step in &stage.backward {
                    assert!(!train.slots[step.dout].passing || made.contains(&step.dout), "{}", case.name);
                    for route in [step.dresidual, step.dx] {
                        match route {
                            Route::Write(slot) => made.push(slot),
                            Route::Add(slot) => assert!(!train.slots[slot].passing || made.contains(&slot)),
                            Route::Sum { slot, with } => {
                                let owes = |step: &&BackwardStep| {
                                    step.dout == with && step.dresidual == Route::Nowhere
                                };
                                assert!(
                                    stage.backward.iter().find(owes).is_some_and(|owes| owes.op > step.op)
                                );
                                assert!(!train.slots[with].passing && slot != with);
                                made.push(slot);
                            }
                            Route::Nowhere => {}
                        }
                    }
                    // Weight gradients read these when the stage is done: nothing may be written there until then.
                    let kept = stage.backward.iter().filter(|step| train.ops[step.op].keeps_dout());
                    assert!(kept.filter(|kept| kept.dout == step.dout).count() <= 1, "{}", case.name);
                }
            }
        }
    }
}
