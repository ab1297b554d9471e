//! The forward pass through a plan, stage by stage.

use std::time::Instant;

use crate::cpu::executor::{Profile, execute_stage, note};
use crate::cpu::packed_weights::{Direction, ForwardParams, PackedWeights};
use crate::cpu::schedule::Schedule;
use crate::cpu::workspace::{Buffers, Context, Prefix};
use crate::model::hooks::{Moment, PlannedPatch};
use crate::model::plan::Plan;

/// The forward pass through all stages of a plan.
pub(crate) struct ForwardPass<'a> {
    pub plan: &'a Plan,
    pub schedule: &'a Schedule,
    pub buffers: &'a mut Buffers,
    /// A place for matrices, where the parameters are not packed already.
    pub packed: &'a mut PackedWeights,
    pub patches: &'a [PlannedPatch],
    /// The first operation that is run.
    pub first: usize,
    /// Where the time is noted, if anywhere.
    pub profile: &'a mut Option<Profile>,
}

impl ForwardPass<'_> {
    /// Computes every value of the plan.
    pub fn run(self, params: ForwardParams, prefix: Option<Prefix>) {
        let Self { plan, schedule, buffers, packed: own, patches, first, profile } = self;
        let timed = profile.is_some();
        for stage in schedule.stages.iter().filter(|stage| stage.ops.end > first) {
            let packed = params.packed.unwrap_or_else(|| {
                let start = Instant::now();
                own.pack(&plan.ops[stage.ops.clone()], params.flat, Direction::Forward);
                note(profile, "pack", start);
                own
            });
            let context = Context { params: params.flat, packed, prefix };
            let seconds =
                execute_stage(buffers.borrow_all(), schedule, stage, Vec::new(), |view, seconds| {
                    view.prefetch(&stage.filled);
                    for (step, i) in stage.ops.clone().enumerate().filter(|(_, i)| *i >= first) {
                        let start = timed.then(Instant::now);
                        view.prefetcher.begin(step);
                        let at = |moment| patches.iter().filter(move |patch| patch.moment == moment);
                        at(Moment::Before(i)).for_each(|patch| patch.apply(view));
                        plan.ops[i].cpu().forward(view, context);
                        at(Moment::After(i)).for_each(|patch| patch.apply(view));
                        seconds[i] += start.map_or(0.0, |start| start.elapsed().as_secs_f64());
                    }
                });
            if let Some(profile) = profile {
                seconds.note(profile, "forward", plan);
            }
        }
    }
}
