//! Executes a stage: all groups of prompts pass through its operations, on all threads, and their times are noted.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::cpu::schedule::{Schedule, Stage};
use crate::cpu::weight_gradients::WeightTask;
use crate::cpu::work_queue::run_queue;
use crate::cpu::workspace::{BorrowedBuffers, GroupView};
use crate::model::plan::Plan;

/// Milliseconds by kind of operation.
pub type Profile = BTreeMap<String, f64>;

/// Seconds of a pass through a stage, averaged over threads.
#[derive(Debug, Clone)]
pub(crate) struct StageSeconds {
    /// Of each operation of the plan.
    pub ops: Vec<f64>,
    /// Of weight gradients.
    pub weights: f64,
    /// In which threads had nothing to do.
    waiting: f64,
}

impl StageSeconds {
    pub fn none(ops: usize) -> Self {
        Self { ops: vec![0.0; ops], weights: 0.0, waiting: 0.0 }
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

/// What a thread takes from the queue.
enum Task<'a> {
    Group(GroupView<'a>),
    Weights(WeightTask<'a>),
}

/// Executes a stage for all groups of prompts. Threads take groups, and weight gradients of another stage before them, from
/// one queue. `work` takes one group, and a place for the seconds that each operation took.
pub(crate) fn execute_stage<'a>(
    borrowed: BorrowedBuffers<'a>,
    schedule: &Schedule,
    stage: &Stage,
    weights: Vec<WeightTask<'a>>,
    work: impl Fn(&mut GroupView, &mut [f64]) + Sync,
) -> StageSeconds {
    let start = Instant::now();
    let mut all = StageSeconds::none(schedule.ops);
    if stage.full_batch {
        weights.into_iter().for_each(WeightTask::run);
        work(&mut borrowed.full_batch(), &mut all.ops);
        return all;
    }
    let groups = schedule.batch.div_ceil(schedule.group);
    let threads = rayon::current_num_threads().min(groups + weights.len());
    let (views, workspaces) = borrowed.groups(schedule, threads);
    // Weight gradients first: what they read was just written, and they are larger than what follows.
    let tasks = weights.into_iter().map(Task::Weights).chain(views.map(Task::Group));
    run_queue(workspaces, tasks, |workspace, task| match task {
        Task::Group(view) => {
            let mut seconds = std::mem::take(&mut workspace.seconds.ops);
            work(&mut view.with_workspace(schedule, workspace), &mut seconds);
            workspace.seconds.ops = seconds;
        }
        Task::Weights(task) => {
            let start = Instant::now();
            task.run();
            workspace.seconds.weights += start.elapsed().as_secs_f64();
        }
    });
    for workspace in workspaces {
        let own = std::mem::replace(&mut workspace.seconds, StageSeconds::none(schedule.ops));
        all.add(&own, threads);
    }
    all.waiting = start.elapsed().as_secs_f64() - all.weights - all.ops.iter().sum::<f64>();
    all
}
