//! The way back through a plan: gradients of values stage by stage, and of parameters.

use std::time::Instant;

use crate::cpu::ops::{Op, WeightGradient, WeightTask, add_one_by_one, in_turns, weight_tasks};
use crate::cpu::parallel::deal;
use crate::cpu::weights::{PackedParams, Way};
use crate::cpu::work_queue::{Profile, carry, note};
use crate::cpu::workspace::{Buffers, Context, Kept};
use crate::model::plan::{BackwardStep, Plan, Stage};

/// The way back through all stages of a plan, after a pass forward.
pub(crate) struct WayBack<'a> {
    pub plan: &'a Plan,
    pub buffers: &'a mut Buffers,
    /// The flat parameter buffer.
    pub params: &'a [f32],
    /// A place for its matrices.
    pub packed: &'a mut PackedParams,
    /// Where the time is noted, if anywhere.
    pub profile: &'a mut Option<Profile>,
}

impl WayBack<'_> {
    /// Adds the gradients of all parameters to `dparams`. The gradient of the loss must be there.
    ///
    /// Gradients of a stage's weights are a few large pieces of work: threads that have done theirs go on with the stage
    /// before it, which is many small ones, and so no thread waits long for another.
    pub fn run(self, dparams: &mut [f32]) {
        let Self { plan, buffers, params, packed, profile } = self;
        let timed = profile.is_some();
        let mut done: Option<&Stage> = None;
        for stage in plan.stages.iter().rev() {
            let start = Instant::now();
            packed.pack(&plan.ops[stage.ops.clone()], params, Way::Back);
            note(profile, "pack", start);
            let context = Context { params, packed, prefix: None };
            let (lent, kept) = buffers.lend_needed(&stage.back);
            let gradients = done.map_or(Vec::new(), |done| weight_gradients(plan, done, &kept));
            let [gradients, again] = in_turns(gradients);
            let seconds = carry(lent, plan, stage, weight_tasks(dparams, &gradients), |share, seconds| {
                share.look_ahead(&stage.back.values);
                for (i, &step) in stage.backward.iter().enumerate() {
                    let start = timed.then(Instant::now);
                    share.ahead.begin(i);
                    plan.ops[step.op].backward(share, context, step);
                    seconds[step.op] += start.map_or(0.0, |start| start.elapsed().as_secs_f64());
                }
            });
            if let Some(profile) = profile {
                seconds.note(profile, "backward", plan);
            }
            add_one_by_one(dparams, again);
            let start = Instant::now();
            steps(plan, stage).for_each(|(op, step)| op.other_gradients(buffers, dparams, step));
            note(profile, "other gradients", start);
            done = Some(stage);
        }
        let start = Instant::now();
        let (_, kept) = buffers.lend_needed(&Default::default());
        let gradients = done.map_or(Vec::new(), |done| weight_gradients(plan, done, &kept));
        let [gradients, again] = in_turns(gradients);
        deal(weight_tasks(dparams, &gradients), WeightTask::run);
        add_one_by_one(dparams, again);
        note(profile, "weight gradients", start);
    }
}

/// The operations of a stage's way back, each with its step.
fn steps<'a>(plan: &'a Plan, stage: &'a Stage) -> impl Iterator<Item = (&'a Op, BackwardStep)> {
    stage.backward.iter().map(|&step| (&plan.ops[step.op], step))
}

fn weight_gradients<'a>(plan: &Plan, stage: &Stage, kept: &Kept<'a>) -> Vec<WeightGradient<'a>> {
    steps(plan, stage).flat_map(|(op, step)| op.weight_gradients(kept, step)).collect()
}
