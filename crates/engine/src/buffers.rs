//! The buffers of a plan, and the share of them that one group of prompts has.

use crate::memory::Buffer;
use crate::packed::Ahead;
use crate::parallel::next_group;
use crate::parameters::PackedParams;
use crate::plan::{Place, Plan, Stage, Var};

/// The buffers of a plan in main memory, and what they are filled with.
#[derive(Debug)]
pub struct Buffers {
    /// For all prompts; empty where threads have their own.
    pub(crate) values: Vec<Buffer>,
    pub(crate) grads: Vec<Buffer>,
    /// What each thread works in.
    lanes: Vec<Lane>,
}

/// A thread's own buffers, large enough for one group of prompts.
#[derive(Debug)]
pub(crate) struct Lane {
    values: Vec<Buffer>,
    grads: Vec<Buffer>,
    /// Seconds spent on each operation, where somebody asks.
    pub seconds: Vec<f64>,
}

impl Buffers {
    /// Allocates the buffers of a plan; threads that take part later bring their own.
    pub fn new(plan: &Plan) -> Self {
        let whole = |places: &[Place]| {
            places.iter().map(|place| Buffer::zeros(if place.passing { 0 } else { place.len })).collect()
        };
        Self { values: whole(&plan.places), grads: whole(&plan.slots), lanes: Vec::new() }
    }

    /// A value of all prompts; empty for one that is needed within a stage only.
    pub fn value(&self, var: Var) -> &[f32] {
        &self.values[var.0]
    }

    /// Bytes of all buffers together.
    pub fn bytes(&self) -> usize {
        let lanes = self.lanes.iter().flat_map(|lane| lane.values.iter().chain(&lane.grads));
        4 * self.values.iter().chain(&self.grads).chain(lanes).map(|buffer| buffer.len()).sum::<usize>()
    }

    /// The shares of all groups of prompts, one after the other, and a lane for each of `threads`.
    pub(crate) fn shares(&mut self, plan: &Plan, threads: usize) -> (Shares<'_>, &mut [Lane]) {
        while self.lanes.len() < threads {
            self.lanes.push(Lane::new(plan));
        }
        let Self { values, grads, lanes } = self;
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
    pub(crate) fn whole(&mut self) -> Share<'_> {
        let [values, grads] = [&mut self.values, &mut self.grads]
            .map(|buffers| buffers.iter_mut().map(|buffer| &mut buffer[..]).collect());
        Share { first: 0, prompts: 0, values, grads, ahead: Ahead::default() }
    }
}

impl Lane {
    fn new(plan: &Plan) -> Self {
        let own = |places: &[Place]| {
            let len = |place: &Place| if place.passing { place.len / plan.batch * plan.group } else { 0 };
            places.iter().map(|place| Buffer::zeros(len(place))).collect()
        };
        Self { values: own(&plan.places), grads: own(&plan.slots), seconds: vec![0.0; plan.ops.len()] }
    }
}

/// A buffer, and how much of it each prompt has; what is not a number per prompt, as the loss, has no parts.
struct Rest<'a> {
    values: &'a mut [f32],
    prompt: usize,
}

impl<'a> Rest<'a> {
    fn all(buffers: &'a mut [Buffer], plan: &Plan, places: &[Place]) -> Vec<Self> {
        let cut = |(buffer, place): (&'a mut Buffer, &Place)| match place.len.is_multiple_of(plan.batch) {
            true if !buffer.is_empty() => Rest { values: &mut buffer[..], prompt: place.len / plan.batch },
            _ => Rest { values: &mut [], prompt: 0 },
        };
        buffers.iter_mut().zip(places).map(cut).collect()
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
    /// Lists what the steps of a stage's way back read.
    pub fn look_ahead(&mut self, plan: &Plan, stage: &Stage) {
        for (i, step) in stage.backward.iter().enumerate() {
            for var in plan.ops[step.op].read_back().into_iter().flatten() {
                self.ahead.push(i, self.values[var.0]);
            }
        }
    }

    /// Lends a thread's buffers for what is needed within a stage only.
    pub fn with_lane<'b>(self, plan: &Plan, lane: &'b mut Lane) -> Share<'b>
    where
        'a: 'b,
    {
        let Share { first, prompts, mut values, mut grads, ahead }: Share<'b> = self;
        for (shares, own, places) in
            [(&mut values, &mut lane.values, &plan.places), (&mut grads, &mut lane.grads, &plan.slots)]
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
