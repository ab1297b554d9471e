//! The buffers of a plan, and the view of them that one group of prompts has.

use crate::cpu::arena::{Buffer, Parts};
use crate::cpu::executor::StageSeconds;
use crate::cpu::gemm::Prefetcher;
use crate::cpu::packed_weights::PackedWeights;
use crate::cpu::schedule::{NeededBuffers, Schedule, next_group};
use crate::model::plan::{BufferSpec, Var};

/// The buffers of a plan in main memory, and what they are filled with.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// For the full batch; empty where threads have their own.
    full_batch: BufferSet,
    /// What each thread works in.
    workspaces: Vec<ThreadWorkspace>,
}

/// A buffer for each value and each gradient of a plan, all in one piece.
#[derive(Debug)]
struct BufferSet {
    buffer: Buffer,
    /// Values, then gradients.
    parts: Parts,
    values: usize,
}

impl BufferSet {
    /// With as much for each as `len` says.
    fn new(schedule: &Schedule, len: impl Fn(&BufferSpec) -> usize) -> Self {
        let mut parts = Parts::default();
        schedule.values.iter().chain(&schedule.grads).for_each(|buffer| parts.push(len(buffer)));
        Self { buffer: Buffer::zeros(parts.len()), parts, values: schedule.values.len() }
    }

    /// All values and all gradients.
    fn all(&mut self) -> [Vec<&mut [f32]>; 2] {
        let mut values = self.parts.all(&mut self.buffer);
        let grads = values.split_off(self.values);
        [values, grads]
    }
}

/// A thread's own buffers, large enough for one group of prompts.
#[derive(Debug)]
pub(crate) struct ThreadWorkspace {
    buffers: BufferSet,
    /// What it took.
    pub seconds: StageSeconds,
}

impl Buffers {
    /// Allocates the buffers of a plan; threads that take part later bring their own.
    pub fn new(schedule: &Schedule) -> Self {
        let len = |buffer: &BufferSpec| if buffer.stage_local { 0 } else { buffer.len };
        Self { full_batch: BufferSet::new(schedule, len), workspaces: Vec::new() }
    }

    /// A value of all prompts; empty for one that is stage-local.
    pub fn value(&self, var: Var) -> &[f32] {
        self.full_batch.parts.of(&self.full_batch.buffer, var.0)
    }

    /// As [`Buffers::value`], to be filled.
    pub(crate) fn value_mut(&mut self, var: Var) -> &mut [f32] {
        self.full_batch.parts.of_mut(&mut self.full_batch.buffer, var.0)
    }

    /// A gradient of all prompts; empty for one that is stage-local.
    pub(crate) fn grad(&self, slot: usize) -> &[f32] {
        self.full_batch.parts.of(&self.full_batch.buffer, self.full_batch.values + slot)
    }

    /// As [`Buffers::grad`], to be filled.
    pub(crate) fn grad_mut(&mut self, slot: usize) -> &mut [f32] {
        self.full_batch.parts.of_mut(&mut self.full_batch.buffer, self.full_batch.values + slot)
    }

    /// Bytes of all buffers together.
    pub fn bytes(&self) -> usize {
        let workspaces = self.workspaces.iter().map(|workspace| &workspace.buffers);
        let sets = workspaces.chain([&self.full_batch]);
        size_of::<f32>() * sets.map(|set| set.buffer.len()).sum::<usize>()
    }

    /// Borrows all buffers for a pass through a stage.
    pub(crate) fn borrow_all(&mut self) -> BorrowedBuffers<'_> {
        let [values, grads] = self.full_batch.all();
        BorrowedBuffers { values, grads, workspaces: &mut self.workspaces }
    }

    /// Borrows only what is needed; the others can be read meanwhile.
    pub(crate) fn borrow_needed(&mut self, needed: &NeededBuffers) -> (BorrowedBuffers<'_>, KeptBuffers<'_>) {
        let mut borrowed = self.borrow_all();
        let values = keep(&mut borrowed.values, needed.values.iter().map(|(_, var)| var.0));
        let grads = keep(&mut borrowed.grads, needed.grads.iter().copied());
        (borrowed, KeptBuffers { values, grads })
    }
}

/// Takes back what is not needed, leaving nothing in its place.
fn keep<'a>(buffers: &mut [&'a mut [f32]], needed: impl Iterator<Item = usize>) -> Vec<&'a [f32]> {
    let mut needs = vec![false; buffers.len()];
    needed.for_each(|index| needs[index] = true);
    let keep = |(buffer, needed): (&mut &'a mut [f32], bool)| match needed {
        true => &[][..],
        false => &*std::mem::take(buffer),
    };
    buffers.iter_mut().zip(needs).map(keep).collect()
}

/// Buffers that a pass has not borrowed: empty where it has.
pub(crate) struct KeptBuffers<'a> {
    values: Vec<&'a [f32]>,
    grads: Vec<&'a [f32]>,
}

impl<'a> KeptBuffers<'a> {
    /// A value of all prompts.
    pub fn value(&self, var: Var) -> &'a [f32] {
        self.values[var.0]
    }

    /// A gradient of all prompts.
    pub fn grad(&self, slot: usize) -> &'a [f32] {
        self.grads[slot]
    }
}

/// Buffers borrowed for a pass through a stage: empty where they are not needed.
pub(crate) struct BorrowedBuffers<'a> {
    values: Vec<&'a mut [f32]>,
    grads: Vec<&'a mut [f32]>,
    workspaces: &'a mut Vec<ThreadWorkspace>,
}

impl<'a> BorrowedBuffers<'a> {
    /// Views of all groups of prompts, one after the other, and a workspace for each of `threads`.
    pub fn groups(self, schedule: &Schedule, threads: usize) -> (GroupViews<'a>, &'a mut [ThreadWorkspace]) {
        let Self { values, grads, workspaces } = self;
        while workspaces.len() < threads {
            workspaces.push(ThreadWorkspace::new(schedule));
        }
        let views = GroupViews {
            values: Remainder::all(values, schedule.batch, &schedule.values),
            grads: Remainder::all(grads, schedule.batch, &schedule.grads),
            first: 0,
            batch: schedule.batch,
            group: schedule.group,
            threads,
        };
        (views, &mut workspaces[..threads])
    }

    /// A view of all prompts together, without what is stage-local.
    pub fn full_batch(self) -> GroupView<'a> {
        let Self { values, grads, .. } = self;
        GroupView { first: 0, prompts: 0, values, grads, prefetcher: Prefetcher::default() }
    }
}

impl ThreadWorkspace {
    fn new(schedule: &Schedule) -> Self {
        let len = |buffer: &BufferSpec| match buffer.stage_local {
            true => buffer.len / schedule.batch * schedule.group,
            false => 0,
        };
        Self { buffers: BufferSet::new(schedule, len), seconds: StageSeconds::none(schedule.ops) }
    }
}

/// A buffer, and how much of it each prompt has; what is not a number per prompt, as the loss, has no parts.
struct Remainder<'a> {
    values: &'a mut [f32],
    prompt: usize,
}

impl<'a> Remainder<'a> {
    fn all(buffers: Vec<&'a mut [f32]>, batch: usize, specs: &[BufferSpec]) -> Vec<Self> {
        let cut = |(values, spec): (&'a mut [f32], &BufferSpec)| match spec.len.is_multiple_of(batch) {
            true if !values.is_empty() => Remainder { values, prompt: spec.len / batch },
            _ => Remainder { values: &mut [], prompt: 0 },
        };
        buffers.into_iter().zip(specs).map(cut).collect()
    }

    /// The part of the next prompts.
    fn take(&mut self, prompts: usize) -> &'a mut [f32] {
        let (part, rest) = std::mem::take(&mut self.values).split_at_mut(prompts * self.prompt);
        self.values = rest;
        part
    }
}

/// Iterates over the groups of a batch: smaller ones at the end, so that threads finish together.
pub(crate) struct GroupViews<'a> {
    values: Vec<Remainder<'a>>,
    grads: Vec<Remainder<'a>>,
    first: usize,
    batch: usize,
    group: usize,
    threads: usize,
}

impl<'a> Iterator for GroupViews<'a> {
    type Item = GroupView<'a>;

    fn next(&mut self) -> Option<GroupView<'a>> {
        let prompts = next_group(self.batch - self.first, self.batch, self.group, self.threads);
        if prompts == 0 {
            return None;
        }
        let first = self.first;
        self.first += prompts;
        let [values, grads] = [&mut self.values, &mut self.grads]
            .map(|remainders| remainders.iter_mut().map(|remainder| remainder.take(prompts)).collect());
        Some(GroupView { first, prompts, values, grads, prefetcher: Prefetcher::default() })
    }
}

/// One group's part of every buffer: whole prompts, as if there were no others.
pub(crate) struct GroupView<'a> {
    /// Number of the first prompt in the batch.
    pub first: usize,
    prompts: usize,
    values: Vec<&'a mut [f32]>,
    grads: Vec<&'a mut [f32]>,
    /// Prefetches what later steps read.
    pub prefetcher: Prefetcher,
}

impl<'a> GroupView<'a> {
    /// Has values prefetched that later steps need.
    pub fn prefetch(&mut self, needed: &[(usize, Var)]) {
        for &(step, var) in needed {
            self.prefetcher.push(step, self.values[var.0]);
        }
    }

    /// Borrows a thread's buffers for what is stage-local.
    pub fn with_workspace<'b>(self, schedule: &Schedule, workspace: &'b mut ThreadWorkspace) -> GroupView<'b>
    where
        'a: 'b,
    {
        let GroupView { first, prompts, mut values, mut grads, prefetcher }: GroupView<'b> = self;
        let [own_values, own_grads] = workspace.buffers.all();
        for (views, own, specs) in
            [(&mut values, own_values, &schedule.values), (&mut grads, own_grads, &schedule.grads)]
        {
            for ((view, own), spec) in views.iter_mut().zip(own).zip(specs) {
                if spec.stage_local {
                    *view = &mut own[..spec.len / schedule.batch * prompts];
                }
            }
        }
        GroupView { first, prompts, values, grads, prefetcher }
    }

    /// A value.
    pub fn value(&self, var: Var) -> &[f32] {
        self.values[var.0]
    }

    /// Moves a value out while an operation writes it; [`GroupView::put`] brings it back.
    pub fn take(&mut self, var: Var) -> &'a mut [f32] {
        std::mem::take(&mut self.values[var.0])
    }

    pub fn put(&mut self, var: Var, value: &'a mut [f32]) {
        self.values[var.0] = value;
    }

    /// Moves a gradient out, like [`GroupView::take`].
    pub fn take_grad(&mut self, slot: usize) -> &'a mut [f32] {
        std::mem::take(&mut self.grads[slot])
    }

    pub fn put_grad(&mut self, slot: usize, grad: &'a mut [f32]) {
        self.grads[slot] = grad;
    }
}

/// What an operation sees besides its buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    /// The flat parameter buffer.
    pub params: &'a [f32],
    /// Its matrices, packed: transposed ones in the backward pass.
    pub packed: &'a PackedWeights,
    /// For queries after a shared prefix: the prefix.
    pub prefix: Option<Prefix<'a>>,
}

/// A prefix that was run before, and how much of it the queries may see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prefix<'a> {
    /// The buffers of the run over the prefix.
    pub buffers: &'a Buffers,
    /// Tokens the queries see.
    pub tokens: usize,
    /// Tokens the prefix run has in all.
    pub total: usize,
}
