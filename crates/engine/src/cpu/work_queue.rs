//! Carries groups of prompts through a stage, on all threads, and notes what it takes.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::cpu::ops::WeightTask;
use crate::cpu::parallel::deal_with;
use crate::cpu::workspace::{Lent, Share};
use crate::model::plan::{Plan, Stage};

/// Milliseconds by kind of operation.
pub type Profile = BTreeMap<String, f64>;

/// Seconds of a pass through a stage, averaged over threads.
#[derive(Debug, Clone)]
pub(crate) struct Seconds {
    /// Of each operation of the plan.
    pub ops: Vec<f64>,
    /// Of gradients of weights.
    pub weights: f64,
    /// In which threads had nothing to do.
    waiting: f64,
}

impl Seconds {
    pub fn none(plan: &Plan) -> Self {
        Self { ops: vec![0.0; plan.ops.len()], weights: 0.0, waiting: 0.0 }
    }

    /// Adds what one of several threads took.
    fn add(&mut self, own: &Self, threads: usize) {
        self.ops.iter_mut().zip(&own.ops).for_each(|(all, own)| *all += own / threads as f64);
        self.weights += own.weights / threads as f64;
    }

    /// Adds all to a profile.
    pub fn note(&self, profile: &mut Profile, pass: &str, plan: &Plan) {
        let mut add = |what: String, seconds: f64| {
            if seconds > 0.0 {
                *profile.entry(what).or_default() += seconds * 1e3;
            }
        };
        for (op, &seconds) in plan.ops.iter().zip(&self.ops) {
            add(format!("{pass} {}", op.label()), seconds);
        }
        add("weight gradients".into(), self.weights);
        add("waiting".into(), self.waiting);
    }
}

/// Adds the time since `start` to the profile, if one is kept.
pub(crate) fn note(profile: &mut Option<Profile>, what: &str, start: Instant) {
    if let Some(profile) = profile {
        *profile.entry(what.into()).or_default() += start.elapsed().as_secs_f64() * 1e3;
    }
}

/// What a thread takes next.
enum Piece<'a> {
    Group(Share<'a>),
    Weights(WeightTask<'a>),
}

/// Carries all groups of prompts through a stage, dealt to threads as these become free, which compute gradients of weights
/// in between. `work` takes one group, and a place for the seconds that each operation took.
pub(crate) fn carry<'a>(
    lent: Lent<'a>,
    plan: &Plan,
    stage: &Stage,
    weights: Vec<WeightTask<'a>>,
    work: impl Fn(&mut Share, &mut [f64]) + Sync,
) -> Seconds {
    let start = Instant::now();
    let mut all = Seconds::none(plan);
    if stage.whole {
        weights.into_iter().for_each(WeightTask::run);
        work(&mut lent.whole(), &mut all.ops);
        return all;
    }
    let groups = plan.batch.div_ceil(plan.group);
    let threads = rayon::current_num_threads().min(groups + weights.len());
    let (shares, lanes) = lent.shares(plan, threads);
    // Gradients of weights first: what they read was just written, and they are larger than what follows.
    let pieces = weights.into_iter().map(Piece::Weights).chain(shares.map(Piece::Group));
    deal_with(lanes, pieces, |lane, piece| match piece {
        Piece::Group(share) => {
            let mut seconds = std::mem::take(&mut lane.seconds.ops);
            work(&mut share.with_lane(plan, lane), &mut seconds);
            lane.seconds.ops = seconds;
        }
        Piece::Weights(task) => {
            let start = Instant::now();
            task.run();
            lane.seconds.weights += start.elapsed().as_secs_f64();
        }
    });
    for lane in lanes {
        all.add(&std::mem::replace(&mut lane.seconds, Seconds::none(plan)), threads);
    }
    all.waiting = start.elapsed().as_secs_f64() - all.weights - all.ops.iter().sum::<f64>();
    all
}
