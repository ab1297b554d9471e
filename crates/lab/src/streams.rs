//! Residual streams of Transformers, trained or built by hand: read at some tokens, and handed on to other layers.
//!
//! A prompt here is n pairs and a query: tokens x₁, y₁, …, xₙ, yₙ, x_query, numbered from 0. Streams are counted as layers
//! are read: number l, from 0, is what layer l+1 reads, and the last one is what the last layer leaves.

pub(crate) mod on_device;

use engine::cpu::Runner;
use engine::model::hooks::{Patch, Site, SiteKind};
use engine::model::networks::{Mode, Network};
use ndarray::{Array2, Array3, ArrayView2, Axis};

use crate::constructions::Construction;
use crate::constructions::transformer::{Columns, Mask};
use crate::data::prompts::Prompts;
use crate::error::{Error, Result};
use crate::networks::{Weights, evaluation, tokens};
use crate::parallel;
use crate::probe::per_thread;

/// Prompts that a thread carries through a network together.
pub(crate) const GROUP: usize = 8;

/// What a token sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Itself and what comes before it.
    Past,
    /// The whole prompt.
    All,
}

/// A Transformer whose residual streams can be read and replaced.
pub trait Streams: Sync {
    /// Its layers.
    fn layers(&self) -> usize;

    /// What a token of it sees.
    fn sight(&self) -> Sight;

    /// Streams `[b, token, width]` at `tokens`, those before each layer and last that after the last one.
    fn read(&self, prompts: &Prompts, tokens: &[usize]) -> Result<Vec<Array3<f32>>>;

    /// Answers to the query `[splice][b]` when layer `to` reads what layer `from` read, for splices (from, to). Layers count
    /// from 1; with from = to nothing is changed.
    fn spliced(&self, prompts: &Prompts, splices: &[(usize, usize)]) -> Result<Vec<Vec<f64>>>;
}

/// A Transformer of which only some streams are looked at, such as those after whole iterations of several layers.
pub struct Between<'a> {
    /// The whole.
    pub whole: &'a dyn Streams,
    /// The streams that are looked at, as [`Streams::read`] counts them from 0.
    pub looked_at: Vec<usize>,
}

impl Streams for Between<'_> {
    fn layers(&self) -> usize {
        self.looked_at.len() - 1
    }

    fn sight(&self) -> Sight {
        self.whole.sight()
    }

    fn read(&self, prompts: &Prompts, tokens: &[usize]) -> Result<Vec<Array3<f32>>> {
        let mut all = self.whole.read(prompts, tokens)?;
        Ok(self.looked_at.iter().map(|&at| std::mem::take(&mut all[at])).collect())
    }

    fn spliced(&self, prompts: &Prompts, splices: &[(usize, usize)]) -> Result<Vec<Vec<f64>>> {
        check_splices(self.layers(), splices)?;
        let there = |layer: usize| self.looked_at[layer - 1] + 1;
        let splices: Vec<_> = splices.iter().map(|&(from, to)| (there(from), there(to))).collect();
        self.whole.spliced(prompts, &splices)
    }
}

/// Refuses splices between layers that are not there.
fn check_splices(layers: usize, splices: &[(usize, usize)]) -> Result<()> {
    match splices.iter().find(|(from, to)| !(1..=layers).contains(from) || !(1..=layers).contains(to)) {
        Some((from, to)) => Err(Error::BadData(format!(
            "splice from layer {from} to layer {to}; accepted: layers 1 to {layers}"
        ))),
        None => Ok(()),
    }
}

/// Tokens of prompts up to the last x, the query: its label is not read.
pub(crate) fn up_to_query(prompts: &Prompts, features: usize) -> Vec<f32> {
    let (prompt, read) = (2 * prompts.points() * features, (2 * prompts.points() - 1) * features);
    let all = tokens(prompts, features);
    all.chunks_exact(prompt).flat_map(|prompt| prompt[..read].iter().copied()).collect()
}

/// Refuses prompts of more dimensions than the network reads.
fn check_dimensions(weights: &Weights, prompts: &Prompts) -> Result<()> {
    let (found, most) = (prompts.dim(), weights.network.features());
    match found <= most {
        true => Ok(()),
        false => Err(Error::BadData(format!("prompts of {found} dimensions; accepted: at most {most}"))),
    }
}

/// A network built for prompts that end with their query, and run on them.
pub(crate) fn run_to_query(weights: &Weights, prompts: &Prompts, mode: Mode) -> Result<Runner> {
    let network = &weights.network;
    let (count, points, features) = (prompts.count(), prompts.points(), network.features());
    check_dimensions(weights, prompts)?;
    let mut runner = network.runner(count, 2 * points - 1, mode)?;
    runner.set_tokens(&up_to_query(prompts, features))?;
    runner.forward(weights.for_passes());
    Ok(runner)
}

/// Answers to the queries `[b]`.
pub(crate) fn answers(runner: &Runner) -> Vec<f64> {
    runner.predictions().chunks_exact(runner.points()).map(|of| f64::from(of[of.len() - 1])).collect()
}

impl Weights {
    fn read_on_cores(&self, prompts: &Prompts, tokens: &[usize]) -> Result<Vec<Array3<f32>>> {
        let groups = per_thread(
            prompts.count().div_ceil(GROUP),
            || (),
            |(), group| {
                let part = prompts.part(group * GROUP, GROUP);
                let runner = run_to_query(self, &part, Mode::Infer)?;
                let rows = 2 * part.points() - 1;
                let at_tokens = |layer: usize| {
                    let all = runner.hidden(layer);
                    let width = all.len() / (part.count() * rows);
                    let all = ndarray::ArrayView3::from_shape((part.count(), rows, width), all);
                    all.expect("as the network keeps it").select(Axis(1), tokens)
                };
                Ok((0..runner.hidden_count()).map(at_tokens).collect::<Vec<_>>())
            },
        )?;
        let joined = |layer: usize| {
            let parts: Vec<_> = groups.iter().map(|group| group[layer].view()).collect();
            ndarray::concatenate(Axis(0), &parts).expect("the same tokens and width everywhere")
        };
        Ok((0..=self.network.layers()).map(joined).collect())
    }
}

impl Streams for Weights {
    fn layers(&self) -> usize {
        self.network.layers()
    }

    fn sight(&self) -> Sight {
        Sight::Past
    }

    fn read(&self, prompts: &Prompts, tokens: &[usize]) -> Result<Vec<Array3<f32>>> {
        let found =
            evaluation::on_cuda(|device, precision| self.read_on(device, precision, prompts, tokens))?;
        found.map_or_else(|| self.read_on_cores(prompts, tokens), Ok)
    }

    fn spliced(&self, prompts: &Prompts, splices: &[(usize, usize)]) -> Result<Vec<Vec<f64>>> {
        if !matches!(self.network, Network::Gpt2(_)) {
            return Err(Error::BadData("an LSTM has no residual stream; accepted: a Transformer".into()));
        }
        check_splices(self.layers(), splices)?;
        let groups = per_thread(
            prompts.count().div_ceil(GROUP),
            || (),
            |(), group| {
                let mut runner = run_to_query(self, &prompts.part(group * GROUP, GROUP), Mode::Infer)?;
                let tokens: Vec<usize> = (0..2 * prompts.points() - 1).collect();
                // a pass writes over the streams of the one before
                let streams: Vec<_> = (0..self.layers())
                    .map(|l| runner.hidden(l).into())
                    .collect::<Vec<std::sync::Arc<[f32]>>>();
                let mut all = Vec::with_capacity(splices.len());
                for &(from, to) in splices {
                    let site = Site { block: to, kind: SiteKind::ResidPre };
                    runner.write(&Patch::per_prompt(site, &tokens, streams[from - 1].clone()))?;
                    runner.forward_from(self.for_passes(), to)?;
                    all.push(answers(&runner));
                }
                Ok(all)
            },
        )?;
        Ok((0..splices.len()).map(|s| groups.iter().flat_map(|group| group[s].clone()).collect()).collect())
    }
}

impl Construction {
    /// Hidden states `[column, width]` of one prompt: those that each layer reads, and last what the last one leaves.
    pub(crate) fn states(&self, prompts: &Prompts, b: usize) -> Vec<Array2<f64>> {
        let (xs, ys) = prompts.prompt(b);
        let (pairs, d) = (prompts.points() - 1, prompts.dim());
        let read = self.transformer.read(&xs[..pairs * d], &ys[..pairs], &xs[pairs * d..], true);
        let mut states = vec![read.h];
        for layer in &self.transformer.layers {
            let mut columns = Columns { h: states[states.len() - 1].clone(), seen: read.seen };
            self.transformer.pass(layer, &mut columns, 0);
            states.push(columns.h);
        }
        states
    }

    /// The answer when layer number `to`, from 1, and those after it start from given states `[column, width]`.
    pub(crate) fn answer_from(&self, to: usize, states: ArrayView2<f64>) -> f64 {
        let mut columns = Columns { seen: states.nrows(), h: states.to_owned() };
        for layer in &self.transformer.layers[to - 1..] {
            self.transformer.pass(layer, &mut columns, 0);
        }
        self.transformer.read_out(columns.h.row(columns.h.nrows() - 1))
    }
}

impl Streams for Construction {
    fn layers(&self) -> usize {
        self.transformer.layers.len()
    }

    fn sight(&self) -> Sight {
        match self.transformer.layers.iter().all(|layer| layer.mask == Mask::Causal) {
            true => Sight::Past,
            false => Sight::All,
        }
    }

    fn read(&self, prompts: &Prompts, tokens: &[usize]) -> Result<Vec<Array3<f32>>> {
        self.check("the construction", prompts)?;
        let (count, width) = (prompts.count(), self.transformer.width());
        let of_prompt = |b: usize| -> Vec<Array2<f64>> {
            let states = self.states(prompts, b);
            states.into_iter().map(|h| h.select(Axis(0), tokens)).collect()
        };
        let all = parallel::map(count, of_prompt);
        let layer = |l: usize| {
            Array3::from_shape_fn((count, tokens.len(), width), |(b, t, w)| all[b][l][[t, w]] as f32)
        };
        Ok((0..=self.layers()).map(layer).collect())
    }

    fn spliced(&self, prompts: &Prompts, splices: &[(usize, usize)]) -> Result<Vec<Vec<f64>>> {
        self.check("the construction", prompts)?;
        check_splices(self.layers(), splices)?;
        let of_prompt = |b: usize| -> Vec<f64> {
            let states = self.states(prompts, b);
            splices.iter().map(|&(from, to)| self.answer_from(to, states[from - 1].view())).collect()
        };
        let all = parallel::map(prompts.count(), of_prompt);
        Ok((0..splices.len()).map(|s| all.iter().map(|of| of[s]).collect()).collect())
    }
}
