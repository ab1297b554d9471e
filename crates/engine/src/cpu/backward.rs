//! The backward pass through a plan: gradients of values stage by stage, and of parameters.

use std::time::Instant;

use crate::cpu::executor::{Profile, execute_stage, note};
use crate::cpu::packed_weights::{Direction, PackedWeights};
use crate::cpu::schedule::{BackwardStep, GradRoute, Schedule, Stage};
use crate::cpu::weight_gradients::{WeightGradient, WeightTask, add_one_by_one, in_turns, weight_tasks};
use crate::cpu::work_queue::run_tasks;
use crate::cpu::workspace::{Buffers, Context, GroupView, KeptBuffers};
use crate::model::ops::Op;
use crate::model::plan::Plan;

/// The backward pass through all stages of a plan, after a forward pass.
pub(crate) struct BackwardPass<'a> {
    pub plan: &'a Plan,
    pub schedule: &'a Schedule,
    pub buffers: &'a mut Buffers,
    /// The flat parameter buffer.
    pub params: &'a [f32],
    /// A place for its matrices.
    pub packed: &'a mut PackedWeights,
    /// Where the time is noted, if anywhere.
    pub profile: &'a mut Option<Profile>,
}

impl BackwardPass<'_> {
    /// Adds the gradients of all parameters to `dparams`. The gradient of the loss must be there.
    ///
    /// Weight gradients of a stage are a few large tasks: threads that have done theirs go on with the stage before it,
    /// which is many small ones, and so no thread waits long for another.
    pub fn run(self, dparams: &mut [f32]) {
        let Self { plan, schedule, buffers, params, packed, profile } = self;
        let timed = profile.is_some();
        let mut done: Option<&Stage> = None;
        for stage in schedule.stages.iter().rev() {
            let start = Instant::now();
            packed.pack(&plan.ops[stage.ops.clone()], params, Direction::Backward);
            note(profile, "pack", start);
            let context = Context { params, packed, prefix: None };
            let (borrowed, kept) = buffers.borrow_needed(&stage.needed_by_backward);
            let gradients = done.map_or(Vec::new(), |done| weight_gradients(plan, done, &kept));
            let [gradients, again] = in_turns(gradients);
            let weights = weight_tasks(dparams, &gradients);
            let seconds = execute_stage(borrowed, schedule, stage, weights, |view, seconds| {
                view.prefetch(&stage.needed_by_backward.values);
                for (i, &step) in stage.backward.iter().enumerate() {
                    let start = timed.then(Instant::now);
                    view.prefetcher.begin(i);
                    backward_step(&plan.ops[step.op], view, context, step);
                    seconds[step.op] += start.map_or(0.0, |start| start.elapsed().as_secs_f64());
                }
            });
            if let Some(profile) = profile {
                seconds.note(profile, "backward", plan);
            }
            add_one_by_one(dparams, again);
            let start = Instant::now();
            for (op, step) in steps(plan, stage) {
                op.cpu().other_gradients(buffers, params, dparams, buffers.grad(step.dout));
            }
            note(profile, "other gradients", start);
            done = Some(stage);
        }
        let start = Instant::now();
        let (_, kept) = buffers.borrow_needed(&Default::default());
        let gradients = done.map_or(Vec::new(), |done| weight_gradients(plan, done, &kept));
        let [gradients, again] = in_turns(gradients);
        run_tasks(weight_tasks(dparams, &gradients), WeightTask::run);
        add_one_by_one(dparams, again);
        note(profile, "weight gradients", start);
    }
}

/// The operations of a stage's backward pass, each with its step.
fn steps<'a>(plan: &'a Plan, stage: &'a Stage) -> impl Iterator<Item = (&'a Op, BackwardStep)> {
    stage.backward.iter().map(|&step| (&plan.ops[step.op], step))
}

fn weight_gradients<'a>(plan: &Plan, stage: &Stage, kept: &KeptBuffers<'a>) -> Vec<WeightGradient<'a>> {
    steps(plan, stage).flat_map(|(op, step)| op.cpu().weight_gradients(kept, step.dout)).collect()
}

/// Gradients of one backward step, moved out of the view while the operation works.
pub(crate) struct Grads<'a> {
    /// Gradient of the output; an operation may overwrite it.
    pub dout: &'a mut [f32],
    /// Gradient of the input; empty when nobody needs it.
    pub dx: &'a mut [f32],
    /// Whether dx already holds other contributions.
    pub add_dx: bool,
    /// Another contribution to dx, as long as it; empty where there is none.
    pub with: &'a mut [f32],
}

/// Computes the gradients of an operation's inputs.
fn backward_step(op: &Op, view: &mut GroupView, context: Context, step: BackwardStep) {
    let mut grads = Grads { dout: view.take_grad(step.dout), dx: &mut [], add_dx: false, with: &mut [] };
    if let GradRoute::Write(slot) | GradRoute::Add(slot) = step.dresidual {
        let residual = view.take_grad(slot);
        match step.dresidual {
            GradRoute::Add(_) => residual.iter_mut().zip(&*grads.dout).for_each(|(d, &g)| *d += g),
            _ => residual.copy_from_slice(grads.dout),
        }
        view.put_grad(slot, residual);
    }
    match step.dx {
        GradRoute::Nowhere => {}
        GradRoute::Write(slot) => grads.dx = view.take_grad(slot),
        GradRoute::Add(slot) => (grads.dx, grads.add_dx) = (view.take_grad(slot), true),
        GradRoute::Sum { slot, with } => {
            (grads.dx, grads.with) = (view.take_grad(slot), view.take_grad(with));
        }
    }
    op.cpu().backward(view, context, &mut grads);
    match step.dx {
        GradRoute::Nowhere => {}
        GradRoute::Write(slot) | GradRoute::Add(slot) => view.put_grad(slot, grads.dx),
        GradRoute::Sum { slot, with } => {
            view.put_grad(slot, grads.dx);
            view.put_grad(with, grads.with);
        }
    }
    view.put_grad(step.dout, grads.dout);
}
