//! The buffers of a plan, and the share of them that one group of prompts has.

use crate::cpu::arena::{Buffer, Parts};
use crate::cpu::gemm::Ahead;
use crate::cpu::parallel::next_group;
use crate::cpu::weights::PackedParams;
use crate::cpu::work_queue::Seconds;
use crate::model::plan::{Needed, Place, Plan, Var};

/// The buffers of a plan in main memory, and what they are filled with.
#[derive(Debug)]
pub struct Buffers {
    /// For all prompts; empty where threads have their own.
    whole: Memory,
    /// What each thread works in.
    lanes: Vec<Lane>,
}

/// A buffer for each value and each gradient of a plan, all in one piece.
#[derive(Debug)]
struct Memory {
    buffer: Buffer,
    /// Values, then gradients.
    parts: Parts,
    values: usize,
}

impl Memory {
    /// With as much for each as `len` says.
    fn new(plan: &Plan, len: impl Fn(&Place) -> usize) -> Self {
        let mut parts = Parts::default();
        plan.places.iter().chain(&plan.slots).for_each(|place| parts.push(len(place)));
        Self { buffer: Buffer::zeros(parts.len()), parts, values: plan.places.len() }
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
pub(crate) struct Lane {
    memory: Memory,
    /// What it took, where somebody asks.
    pub seconds: Seconds,
}

impl Buffers {
    /// Allocates the buffers of a plan; threads that take part later bring their own.
    pub fn new(plan: &Plan) -> Self {
        Self {
            whole: Memory::new(plan, |place| if place.passing { 0 } else { place.len }),
            lanes: Vec::new(),
        }
    }

    /// A value of all prompts; empty for one that is needed within a stage only.
    pub fn value(&self, var: Var) -> &[f32] {
        self.whole.parts.of(&self.whole.buffer, var.0)
    }

    /// As [`Buffers::value`], to be filled.
    pub(crate) fn value_mut(&mut self, var: Var) -> &mut [f32] {
        self.whole.parts.of_mut(&mut self.whole.buffer, var.0)
    }

    /// A gradient of all prompts; empty for one that is needed within a stage only.
    pub(crate) fn grad(&self, slot: usize) -> &[f32] {
        self.whole.parts.of(&self.whole.buffer, self.whole.values + slot)
    }

    /// As [`Buffers::grad`], to be filled.
    pub(crate) fn grad_mut(&mut self, slot: usize) -> &mut [f32] {
        self.whole.parts.of_mut(&mut self.whole.buffer, self.whole.values + slot)
    }

    /// Bytes of all buffers together.
    pub fn bytes(&self) -> usize {
        let lanes = self.lanes.iter().map(|lane| &lane.memory);
        size_of::<f32>() * lanes.chain([&self.whole]).map(|memory| memory.buffer.len()).sum::<usize>()
    }

    /// Lends all buffers for a pass through a stage.
    pub(crate) fn lend(&mut self) -> Lent<'_> {
        let [values, grads] = self.whole.all();
        Lent { values, grads, lanes: &mut self.lanes }
    }

    /// Lends only what is needed; the others can be looked at meanwhile.
    pub(crate) fn lend_needed(&mut self, needed: &Needed) -> (Lent<'_>, Kept<'_>) {
        let mut lent = self.lend();
        let values = keep(&mut lent.values, needed.values.iter().map(|(_, var)| var.0));
        let grads = keep(&mut lent.grads, needed.grads.iter().copied());
        (lent, Kept { values, grads })
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

/// Buffers that are not lent to a pass: empty where they are.
pub(crate) struct Kept<'a> {
    values: Vec<&'a [f32]>,
    grads: Vec<&'a [f32]>,
}

impl<'a> Kept<'a> {
    /// A value of all prompts.
    pub fn value(&self, var: Var) -> &'a [f32] {
        self.values[var.0]
    }

    /// A gradient of all prompts.
    pub fn grad(&self, slot: usize) -> &'a [f32] {
        self.grads[slot]
    }
}

/// Buffers lent for a pass through a stage: empty where they are not needed.
pub(crate) struct Lent<'a> {
    values: Vec<&'a mut [f32]>,
    grads: Vec<&'a mut [f32]>,
    lanes: &'a mut Vec<Lane>,
}

impl<'a> Lent<'a> {
    /// The shares of all groups of prompts, one after the other, and a lane for each of `threads`.
    pub fn shares(self, plan: &Plan, threads: usize) -> (Shares<'a>, &'a mut [Lane]) {
        let Self { values, grads, lanes } = self;
        while lanes.len() < threads {
            lanes.push(Lane::new(plan));
        }
        let shares = Shares {
            values: Rest::all(values, plan, &plan.places),
            grads: Rest::all(grads, plan, &plan.slots),
            first: 0,
            batch: plan.batch,
            group: plan.group,
            threads,
        };
        (shares, &mut lanes[..threads])
    }

    /// The share of all prompts together, without what is needed within a stage only.
    pub fn whole(self) -> Share<'a> {
        let Self { values, grads, .. } = self;
        Share { first: 0, prompts: 0, values, grads, ahead: Ahead::default() }
    }
}

impl Lane {
    fn new(plan: &Plan) -> Self {
        let len = |place: &Place| if place.passing { place.len / plan.batch * plan.group } else { 0 };
        Self { memory: Memory::new(plan, len), seconds: Seconds::none(plan) }
    }
}

/// A buffer, and how much of it each prompt has; what is not a number per prompt, as the loss, has no parts.
struct Rest<'a> {
    values: &'a mut [f32],
    prompt: usize,
}

impl<'a> Rest<'a> {
    fn all(buffers: Vec<&'a mut [f32]>, plan: &Plan, places: &[Place]) -> Vec<Self> {
        let cut = |(values, place): (&'a mut [f32], &Place)| match place.len.is_multiple_of(plan.batch) {
            true if !values.is_empty() => Rest { values, prompt: place.len / plan.batch },
            _ => Rest { values: &mut [], prompt: 0 },
        };
        buffers.into_iter().zip(places).map(cut).collect()
    }

    /// The part of the next prompts.
    fn take(&mut self, prompts: usize) -> &'a mut [f32] {
        let (part, rest) = std::mem::take(&mut self.values).split_at_mut(prompts * self.prompt);
        self.values = rest;
        part
    }
}

/// Iterates over the groups of a batch: smaller ones at the end, so that threads finish together.
pub(crate) struct Shares<'a> {
    values: Vec<Rest<'a>>,
    grads: Vec<Rest<'a>>,
    first: usize,
    batch: usize,
    group: usize,
    threads: usize,
}

impl<'a> Iterator for Shares<'a> {
    type Item = Share<'a>;

    fn next(&mut self) -> Option<Share<'a>> {
        let prompts = next_group(self.batch - self.first, self.batch, self.group, self.threads);
        if prompts == 0 {
            return None;
        }
        let first = self.first;
        self.first += prompts;
        let [values, grads] = [&mut self.values, &mut self.grads]
            .map(|rests| rests.iter_mut().map(|rest| rest.take(prompts)).collect());
        Some(Share { first, prompts, values, grads, ahead: Ahead::default() })
    }
}

/// One group's part of every buffer: whole prompts, as if there were no others.
pub(crate) struct Share<'a> {
    /// Number of the first prompt in the batch.
    pub first: usize,
    prompts: usize,
    values: Vec<&'a mut [f32]>,
    grads: Vec<&'a mut [f32]>,
    /// What later steps read.
    pub ahead: Ahead,
}

impl<'a> Share<'a> {
    /// Lists values that later steps need.
    pub fn look_ahead(&mut self, needed: &[(usize, Var)]) {
        for &(step, var) in needed {
            self.ahead.push(step, self.values[var.0]);
        }
    }

    /// Lends a thread's buffers for what is needed within a stage only.
    pub fn with_lane<'b>(self, plan: &Plan, lane: &'b mut Lane) -> Share<'b>
    where
        'a: 'b,
    {
        let Share { first, prompts, mut values, mut grads, ahead }: Share<'b> = self;
        let [own_values, own_grads] = lane.memory.all();
        for (shares, own, places) in
            [(&mut values, own_values, &plan.places), (&mut grads, own_grads, &plan.slots)]
        {
            for ((share, own), place) in shares.iter_mut().zip(own).zip(places) {
                if place.passing {
                    *share = &mut own[..place.len / plan.batch * prompts];
                }
            }
        }
        Share { first, prompts, values, grads, ahead }
    }

    /// A value.
    pub fn value(&self, var: Var) -> &[f32] {
        self.values[var.0]
    }

    /// Moves a value out while an operation writes it; [`Share::put`] brings it back.
    pub fn take(&mut self, var: Var) -> &'a mut [f32] {
        std::mem::take(&mut self.values[var.0])
    }

    pub fn put(&mut self, var: Var, value: &'a mut [f32]) {
        self.values[var.0] = value;
    }

    /// Moves a gradient out, like [`Share::take`].
    pub fn take_grad(&mut self, slot: usize) -> &'a mut [f32] {
        std::mem::take(&mut self.grads[slot])
    }

    pub fn put_grad(&mut self, slot: usize, grad: &'a mut [f32]) {
        self.grads[slot] = grad;
    }
}

/// What an operation sees besides its buffers.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The flat parameter buffer.
    pub params: &'a [f32],
    /// Its matrices, packed: transposed ones on the way back.
    pub packed: &'a PackedParams,
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
