//! How the CPU runs a plan: stages, the backward pass through each, and where gradients are kept.
//!
//! Operations are grouped into stages: a few layers whose weights stay in the caches while one group of prompts after the
//! other passes through them. Values keep a buffer each; gradients share buffers, because a gradient is only needed
//! between the operation that writes it and the one that reads it.
//!
//! Results are the same bits on one core and on many: where every row is computed by itself, groups may follow the number
//! of threads; where rows are summed, pieces follow the shape alone.

use std::ops::Range;

use crate::model::ops::Op;
use crate::model::plan::{BufferSpec, Plan, Var};

/// Where the gradient of an operation's input goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GradRoute {
    /// Nobody needs it.
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
    pub dx: GradRoute,
    /// Where the gradient of the residual input goes.
    pub dresidual: GradRoute,
}

/// Operations that a group of prompts passes through in one go.
#[derive(Debug)]
pub(crate) struct Stage {
    pub ops: Range<usize>,
    /// The backward pass through them; empty without a loss.
    pub backward: Vec<BackwardStep>,
    /// Values that the forward pass fills, each with the operation (counted from the first) before which they are
    /// prefetched.
    pub filled: Vec<(usize, Var)>,
    /// What the backward pass reads or writes.
    pub needed_by_backward: NeededBuffers,
    /// Whether it takes the full batch at once.
    pub full_batch: bool,
}

/// Buffers that a pass through a stage needs.
#[derive(Debug, Default)]
pub(crate) struct NeededBuffers {
    /// Values, each with the step that reads it.
    pub values: Vec<(usize, Var)>,
    /// Gradient buffers.
    pub grads: Vec<usize>,
}

impl NeededBuffers {
    fn by_backward(ops: &[Op], steps: &[BackwardStep]) -> Self {
        let mut needed = Self::default();
        for (i, step) in steps.iter().enumerate() {
            let values = ops[step.op].cpu().needed_by_backward();
            needed.values.extend(values.into_iter().flatten().map(|var| (i, var)));
            needed.grads.push(step.dout);
            for route in [step.dx, step.dresidual] {
                match route {
                    GradRoute::Nowhere => {}
                    GradRoute::Write(slot) | GradRoute::Add(slot) => needed.grads.push(slot),
                    GradRoute::Sum { slot, with } => needed.grads.extend([slot, with]),
                }
            }
        }
        needed
    }
}

/// The schedule of a plan.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub stages: Vec<Stage>,
    /// Buffers of values, by variable.
    pub values: Vec<BufferSpec>,
    /// Gradient buffers, which several variables share.
    pub grads: Vec<BufferSpec>,
    /// By variable: its gradient buffer.
    pub grad_of: Vec<Option<usize>>,
    /// Prompts.
    pub batch: usize,
    /// Prompts that pass through a stage together.
    pub group: usize,
    /// Operations of all stages.
    pub ops: usize,
}

impl Schedule {
    /// Plans stages, and with a loss the backward pass.
    pub fn new(plan: &Plan) -> Self {
        let mut stages = stages(plan);
        let mut slots = GradSlots::default();
        slots.of.resize(plan.buffers.len(), None);
        if let Some(loss) = plan.loss {
            slots.assign(loss, plan.buffers[loss.0]);
        }
        // Weight gradients of a stage are computed during the backward pass through the stage before it: what they need
        // stays until then.
        let mut kept = Vec::new();
        for stage in stages.iter_mut().rev() {
            let ended = plan_backward(plan, stage, &mut slots);
            slots.free.extend(std::mem::replace(&mut kept, ended));
            stage.needed_by_backward = NeededBuffers::by_backward(&plan.ops, &stage.backward);
        }
        let recurrent = plan.ops.iter().any(|op| op.cpu().recurrent());
        let group = match recurrent {
            true => prompts_per_recurrent_group(plan.batch),
            false => prompts_per_group(plan.batch, plan.tokens),
        };
        let (values, batch, ops) = (plan.buffers.clone(), plan.batch, plan.ops.len());
        Self { stages, values, grads: slots.buffers, grad_of: slots.of, batch, group, ops }
    }
}

/// Layers one after the other, as many in a stage as have few enough weights to stay in the caches.
fn stages(plan: &Plan) -> Vec<Stage> {
    const MOST_WEIGHTS: usize = 1 << 20;
    let weights = |ops: &Range<usize>| -> usize {
        let matrices = plan.ops[ops.clone()].iter().flat_map(Op::weights);
        matrices.map(|matrix| matrix.param.len).sum()
    };
    let full_batch = plan.ops.iter().position(|op| op.cpu().full_batch()).unwrap_or(plan.ops.len());
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let ends = plan.layers.iter().skip(1).copied().chain([full_batch]);
    for end in ends {
        let layer = ranges.last().map_or(0, |before| before.end)..end;
        match ranges.last_mut() {
            Some(before) if weights(before) + weights(&layer) <= MOST_WEIGHTS => before.end = end,
            _ => ranges.push(layer),
        }
    }
    let stage = |ops, full_batch| Stage {
        filled: filled(plan, &ops),
        ops,
        backward: Vec::new(),
        needed_by_backward: NeededBuffers::default(),
        full_batch,
    };
    let stages = ranges.into_iter().map(|ops| stage(ops, false));
    stages.chain([stage(full_batch..plan.ops.len(), true)]).filter(|stage| !stage.ops.is_empty()).collect()
}

/// What operations fill that is not in a thread's caches anyway.
fn filled(plan: &Plan, ops: &Range<usize>) -> Vec<(usize, Var)> {
    let fills =
        |(i, op): (usize, &Op)| op.cpu().fills().map(|fill| fill.map(|(later, var)| (i + later, var)));
    let all = plan.ops[ops.clone()].iter().enumerate().flat_map(fills).flatten();
    all.filter(|(_, var)| !plan.buffers[var.0].stage_local).collect()
}

/// Gradient buffers handed out while walking the operations backward.
#[derive(Default)]
struct GradSlots {
    of: Vec<Option<usize>>,
    buffers: Vec<BufferSpec>,
    free: Vec<usize>,
}

impl GradSlots {
    fn assign(&mut self, var: Var, buffer: BufferSpec) -> usize {
        let reused = self.free.iter().position(|&slot| self.buffers[slot] == buffer);
        let slot = match reused {
            Some(found) => self.free.swap_remove(found),
            None => {
                self.buffers.push(buffer);
                self.buffers.len() - 1
            }
        };
        self.of[var.0] = Some(slot);
        slot
    }
}

/// Plans the backward pass through a stage. Returns the gradient buffers that are free once weight gradients are computed.
fn plan_backward(plan: &Plan, stage: &mut Stage, slots: &mut GradSlots) -> Vec<usize> {
    let mut ended = Vec::new();
    let mut owed: Vec<(Var, usize)> = Vec::new();
    for (index, op) in stage.ops.clone().map(|index| (index, &plan.ops[index])).rev() {
        let Some(dout) = slots.of[op.out().0] else { continue };
        let mut route = |var: Var| match slots.of[var.0] {
            Some(slot) => GradRoute::Add(slot),
            None if !plan.wants_grad[var.0] => GradRoute::Nowhere,
            None => {
                let mut made = plan.ops[stage.ops.clone()].iter().filter(|op| op.out() == var);
                let stage_local = !stage.full_batch && made.next().is_some_and(|op| !op.cpu().keeps_dout());
                let slot = slots.assign(var, BufferSpec { stage_local, ..plan.buffers[var.0] });
                match owed.iter().find(|(owed, _)| *owed == var) {
                    Some(&(_, with)) => GradRoute::Sum { slot, with },
                    None => GradRoute::Write(slot),
                }
            }
        };
        let owes = op.residual().filter(|&var| normalised_next(plan, &stage.ops, index, var));
        let paid = op.residual().filter(|_| owes.is_none());
        let dresidual = paid.map_or(GradRoute::Nowhere, &mut route);
        let dx = if op.cpu().passes_gradient() { route(op.input()) } else { GradRoute::Nowhere };
        owed.extend(owes.map(|var| (var, dout)));
        match slots.buffers[dout].stage_local {
            true => slots.free.push(dout),
            false => ended.push(dout),
        }
        stage.backward.push(BackwardStep { op: index, dout, dx, dresidual });
    }
    ended
}

/// Whether, backward from operation `index`, a LayerNorm of the same stage is the next and last to contribute to the
/// gradient of `var`: it then adds the residual's contribution itself.
fn normalised_next(plan: &Plan, stage: &Range<usize>, index: usize, var: Var) -> bool {
    let contributes = |&i: &usize| plan.ops[i].input() == var || plan.ops[i].residual() == Some(var);
    let mut others = (0..plan.ops.len()).filter(contributes).filter(|&i| i != index);
    let only = others.next().filter(|i| others.next().is_none() && (stage.start..index).contains(i));
    only.is_some_and(|i| matches!(plan.ops[i], Op::LayerNorm(_))) && plan.ops[index].input() != var
}

/// Prompts that pass through a stage together when a prompt is rows that do not wait for each other: few enough for
/// what they make on the way to stay in L2, many enough for a product, and such that no thread has more to do than the
/// others.
fn prompts_per_group(batch: usize, tokens: usize) -> usize {
    const MOST_ROWS: usize = 184;
    let threads = rayon::current_num_threads();
    let most = (MOST_ROWS / tokens.max(1)).min(batch / (2 * threads)).max(1);
    let busiest = |prompts: &usize| batch.div_ceil(*prompts).div_ceil(threads) * prompts;
    (1..=most).rev().min_by_key(busiest).unwrap_or(1)
}

/// Prompts that one thread takes through all tokens of a recurrent layer: one group per thread. Products with few rows are slow, but
/// threads without work are slower (`benches/runs/2026-11-20-epyc-zen5-2cores`).
fn prompts_per_recurrent_group(batch: usize) -> usize {
    const MOST: usize = 64;
    batch.div_ceil(rayon::current_num_threads()).min(MOST)
}

/// Prompts of the next group where `left` of a batch are not yet queued: full groups first, smaller ones at the end, so
/// that no thread waits long for another. Where every thread has one group, it stays as it is.
pub(crate) fn next_group(left: usize, batch: usize, group: usize, threads: usize) -> usize {
    let full = left >= 2 * threads * group || batch <= threads * group || threads == 1;
    let smaller = left.div_ceil(2 * threads).max(group.div_ceil(4));
    if full { group.min(left) } else { smaller.min(group).min(left) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::bench::{lstm, r1, small};
    use crate::model::plan::Mode;

    #[test]
    fn large_layers_are_stages_and_small_ones_share_one() {
        for (case, stages) in [(r1(), 12), (small(), 1), (lstm(), 6)] {
            let scheduled = |mode| {
                let graph = case.network.graph(case.batch, 82.min(2 * case.points), mode).unwrap();
                Schedule::new(&graph.plan).stages.len()
            };
            assert_eq!(scheduled(Mode::Infer), stages, "{}", case.name);
            assert_eq!(scheduled(Mode::Train), stages + 1, "{}: the loss is a stage of its own", case.name);
        }
    }

    #[test]
    fn stage_local_buffers_are_written_and_read_within_one_stage() {
        for case in [r1(), small(), lstm()] {
            let plan = case.network.graph(case.batch, 10, Mode::Infer).unwrap().plan;
            assert!(plan.buffers.iter().any(|buffer| buffer.stage_local), "{}", case.name);
            for stage in &Schedule::new(&plan).stages {
                let mut made = Vec::new();
                for op in &plan.ops[stage.ops.clone()] {
                    for var in [op.input()].into_iter().chain(op.residual()) {
                        assert!(!plan.buffers[var.0].stage_local || made.contains(&var), "{}", op.label());
                    }
                    made.push(op.out());
                }
            }
        }
    }

    #[test]
    fn gradients_are_written_before_they_are_read_and_kept_for_weights() {
        for case in [r1(), small(), lstm()] {
            let plan = case.network.graph(case.batch, 10, Mode::Train).unwrap().plan;
            let schedule = Schedule::new(&plan);
            let steps = schedule.stages.iter().flat_map(|stage| &stage.backward);
            let sums = steps.filter(|step| matches!(step.dx, GradRoute::Sum { .. })).count();
            let layers = plan.ops.iter().filter(|op| matches!(op, Op::Attention(_))).count();
            assert_eq!(sums, 2 * layers, "{}: both halves of a layer have a residual", case.name);
            let keeps = |step: &&BackwardStep| plan.ops[step.op].cpu().keeps_dout();
            // What weight gradients read when a stage is done is not written by the stage before it meanwhile.
            for stages in schedule.stages.windows(2) {
                for step in stages[1].backward.iter().filter(keeps) {
                    assert!(!stages[0].needed_by_backward.grads.contains(&step.dout), "{}", case.name);
                }
            }
            for stage in &schedule.stages {
                let mut made = Vec::new();
                for step in &stage.backward {
                    let local = |slot: usize| schedule.grads[slot].stage_local;
                    assert!(!local(step.dout) || made.contains(&step.dout), "{}", case.name);
                    for route in [step.dresidual, step.dx] {
                        match route {
                            GradRoute::Write(slot) => made.push(slot),
                            GradRoute::Add(slot) => assert!(!local(slot) || made.contains(&slot)),
                            GradRoute::Sum { slot, with } => {
                                let owes = |step: &&BackwardStep| {
                                    step.dout == with && step.dresidual == GradRoute::Nowhere
                                };
                                let owes = stage.backward.iter().find(owes);
                                assert!(owes.is_some_and(|owes| owes.op > step.op));
                                assert!(!local(with) && slot != with);
                                made.push(slot);
                            }
                            GradRoute::Nowhere => {}
                        }
                    }
                    // Nor is it written twice within the stage.
                    let kept = stage.backward.iter().filter(keeps);
                    assert!(kept.filter(|kept| kept.dout == step.dout).count() <= 1, "{}", case.name);
                }
            }
        }
    }

    #[test]
    fn groups_get_smaller_at_the_end() {
        let groups = |batch: usize, group: usize, threads: usize| {
            let mut left = batch;
            let next = || {
                let prompts = next_group(left, batch, group, threads);
                left -= prompts;
                (prompts > 0).then_some(prompts)
            };
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        assert_eq!(groups(64, 8, 2), [8, 8, 8, 8, 8, 6, 5, 4, 3, 2, 2, 2]);
        assert_eq!(groups(10, 2, 2), [2, 2, 2, 1, 1, 1, 1]);
        assert_eq!((groups(64, 32, 2), groups(5, 2, 1)), (vec![32, 32], vec![2, 2, 1]));
        for (batch, group, threads) in [(1, 1, 2), (7, 3, 16), (64, 5, 3), (100, 8, 4)] {
            let groups = groups(batch, group, threads);
            assert!(groups.iter().sum::<usize>() == batch && groups.iter().all(|&prompts| prompts <= group));
        }
    }

    #[test]
    fn every_thread_has_prompts_of_a_recurrent_layer() {
        for (threads, prompts) in [(1, 64), (2, 32), (14, 5), (16, 4), (100, 1)] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            assert_eq!(pool.install(|| prompts_per_recurrent_group(64)), prompts, "{threads} threads");
        }
    }

    #[test]
    fn no_thread_has_more_prompts_than_it_must() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
        pool.install(|| {
            assert_eq!([22, 82, 202].map(|tokens| prompts_per_group(64, tokens)), [8, 2, 1]);
            for batch in 1..100 {
                let group = prompts_per_group(batch, 22);
                let busiest = batch.div_ceil(group).div_ceil(2) * group;
                assert!(busiest <= batch.div_ceil(2) + 1, "{batch} prompts in groups of {group}");
            }
        });
    }
}
