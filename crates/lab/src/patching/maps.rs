//! The maps themselves.

use engine::cpu::{Runner, SuffixRunner};
use engine::model::hooks::{Patch, Site, SiteKind};
use engine::model::networks::Mode;

use super::{Part, Place};
use crate::data::prompts::Prompts;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::networks::Weights;
use crate::networks::devices::Device;
use crate::probe::per_thread;
use crate::stats::{Estimate, bootstrap};
use crate::streams::{answers, run_to_query};

/// Prompts that a thread patches together.
const GROUP: usize = 8;

/// Answers of a network with parts of it taken from donors.
#[derive(Clone, Debug)]
pub struct Patched {
    /// To each prompt `[b]`.
    pub base: Vec<f64>,
    /// To each donor `[b]`.
    pub donor: Vec<f64>,
    /// To each prompt with the donor's part at a layer and place `[layer][place][b]`.
    pub patched: Vec<Vec<Vec<f64>>>,
}

/// How far answers follow the donors, layer by layer and place by place.
#[derive(Clone, Debug)]
pub struct Maps {
    /// What was patched.
    pub part: Part,
    /// Where.
    pub places: Vec<Place>,
    /// Share of the way from the prompt's answer to the donor's `[layer][place]`; layers from 1.
    pub follows: Vec<Vec<Estimate>>,
    /// Pairs read before the query.
    pub pairs: usize,
    /// Prompts.
    pub prompts: usize,
}

impl Patched {
    /// Answers after all points but the last, which is the query.
    pub fn of(
        weights: &Weights,
        [prompts, donors]: [&Prompts; 2],
        part: Part,
        places: &[Place],
    ) -> Result<Patched> {
        check(weights, prompts, donors, places)?;
        let (count, layers) = (prompts.count(), weights.network.layers());
        let groups = per_thread(
            count.div_ceil(GROUP),
            || (),
            |(), group| {
                interrupt::look();
                let cut = |of: &Prompts| of.part(group * GROUP, GROUP);
                Group::new(weights, [cut(prompts), cut(donors)])?.all(part, places)
            },
        )?;
        let mut all = Patched::empty(layers, places.len());
        groups.into_iter().for_each(|group| all.extend(group));
        Ok(all)
    }

    /// Of no prompts.
    pub(super) fn empty(layers: usize, places: usize) -> Patched {
        Patched { base: Vec::new(), donor: Vec::new(), patched: vec![vec![Vec::new(); places]; layers] }
    }

    /// Adds more prompts.
    pub(super) fn extend(&mut self, group: Patched) {
        self.base.extend(group.base);
        self.donor.extend(group.donor);
        for (all, group) in self.patched.iter_mut().zip(group.patched) {
            all.iter_mut().zip(group).for_each(|(all, group)| all.extend(group));
        }
    }

    /// Of the first prompts alone.
    pub(super) fn head(&self, count: usize) -> Patched {
        let cut = |all: &Vec<f64>| all[..count].to_vec();
        let patched = self.patched.iter().map(|layer| layer.iter().map(cut).collect()).collect();
        Patched { base: cut(&self.base), donor: cut(&self.donor), patched }
    }

    /// How far the answers follow, with intervals over resampled prompts.
    pub fn follows(&self, seed: Seed) -> Vec<Vec<Estimate>> {
        let of = |patched: &Vec<f64>| bootstrap(seed, self.base.len(), |chosen| self.along(patched, chosen));
        self.patched.iter().map(|layer| layer.iter().map(of).collect()).collect()
    }

    /// How far the answers to some of the prompts follow at one place, layer by layer.
    pub fn share(&self, place: usize, chosen: &[usize]) -> Vec<f64> {
        self.patched.iter().map(|layer| self.along(&layer[place], chosen)).collect()
    }

    /// Share of the way from the prompts' answers to the donors', by least squares.
    fn along(&self, patched: &[f64], chosen: &[usize]) -> f64 {
        let (mut along, mut whole) = (0.0, 0.0);
        for &b in chosen {
            let way = self.donor[b] - self.base[b];
            along += (patched[b] - self.base[b]) * way;
            whole += way * way;
        }
        along / whole
    }
}

pub(super) fn check(weights: &Weights, prompts: &Prompts, donors: &Prompts, places: &[Place]) -> Result<()> {
    if prompts.xs.dim() != donors.xs.dim() {
        return Err(Error::BadData(format!(
            "prompts have shape {:?} and donors {:?}; accepted: the same",
            prompts.xs.dim(),
            donors.xs.dim()
        )));
    }
    if prompts.points() < 2 {
        return Err(Error::BadData(
            "a prompt of 1 point has a query alone; accepted: at least 2 points".into(),
        ));
    }
    let query = 2 * (prompts.points() - 1);
    let mut tokens = places.iter().flat_map(|place| place.tokens(prompts.points() - 1));
    if let Some(token) = tokens.find(|token| *token > query) {
        return Err(Error::BadData(format!("there is no token {token}; accepted: 0 to {query}, the query")));
    }
    if prompts.dim() > weights.network.features() {
        return Err(Error::BadData(format!(
            "prompts of {} dimensions; accepted: at most {}",
            prompts.dim(),
            weights.network.features()
        )));
    }
    Ok(())
}

/// A few prompts and their donors, both run once.
struct Group<'a> {
    weights: &'a Weights,
    base: Runner,
    donor: Runner,
    count: usize,
    pairs: usize,
}

impl<'a> Group<'a> {
    fn new(weights: &'a Weights, [prompts, donors]: [Prompts; 2]) -> Result<Group<'a>> {
        let (count, pairs) = (prompts.count(), prompts.points() - 1);
        // donors keep what is inside their layers
        let base = run_to_query(weights, &prompts, Mode::Infer)?;
        let donor = run_to_query(weights, &donors, Mode::Train)?;
        Ok(Group { weights, base, donor, count, pairs })
    }

    fn all(self, part: Part, places: &[Place]) -> Result<Patched> {
        let (network, rows) = (&self.weights.network, 2 * self.pairs + 1);
        let mut all = Patched::empty(network.layers(), places.len());
        (all.base, all.donor) = (answers(&self.base), answers(&self.donor));
        for (at, place) in places.iter().enumerate() {
            let tokens = place.tokens(self.pairs);
            // nothing changes before the first token that is patched, unless tokens see those after them
            let earliest = tokens.iter().copied().min().filter(|_| !network.sees_later_tokens());
            let first = earliest.unwrap_or(0);
            let mut suffix = network.suffix_runner(&self.base, rows - first)?;
            for (layer, all) in all.patched.iter_mut().enumerate() {
                all[at] = self.patched(&mut suffix, layer + 1, part, first, &tokens)?;
            }
        }
        Ok(all)
    }

    /// Answers with an activation of a layer taken from the donor, of which the tokens from `first` on are computed.
    fn patched(
        &self,
        suffix: &mut SuffixRunner,
        block: usize,
        part: Part,
        first: usize,
        tokens: &[usize],
    ) -> Result<Vec<f64>> {
        let stream = Site { block, kind: SiteKind::ResidPre };
        let every: Vec<usize> = (first..=2 * self.pairs).collect();
        suffix.write(&self.taken(&self.base, stream, first, &every)?)?;
        match part {
            Part::Stream => suffix.write(&self.taken(&self.donor, stream, first, tokens)?)?,
            Part::Attention | Part::Mlp => {
                let kind = if part == Part::Attention { SiteKind::Z(None) } else { SiteKind::MlpHidden };
                suffix.patch(&[self.taken(&self.donor, Site { block, kind }, first, tokens)?])?;
            }
        }
        suffix.forward_from(self.weights.for_passes(), &self.base, block)?;
        let last = every.len() - 1;
        Ok(suffix.predictions().chunks_exact(every.len()).map(|of| f64::from(of[last])).collect())
    }

    /// An activation at some tokens, for tokens that are counted from `first`.
    fn taken(&self, from: &Runner, site: Site, first: usize, tokens: &[usize]) -> Result<Patch> {
        let all = from.activation(site)?;
        let rows = 2 * self.pairs + 1;
        let width = all.len() / (self.count * rows);
        let of = |b: usize, t: usize| &all[(b * rows + t) * width..][..width];
        let values = (0..self.count).flat_map(|b| tokens.iter().flat_map(move |&t| of(b, t).iter().copied()));
        let values: Vec<f32> = values.collect();
        let tokens: Vec<usize> = tokens.iter().map(|token| token - first).collect();
        Ok(Patch::per_prompt(site, &tokens, values))
    }
}

impl Maps {
    /// How far the answers of a network follow donors.
    pub fn of(
        weights: &Weights,
        pair: [&Prompts; 2],
        part: Part,
        places: Vec<Place>,
        seed: Seed,
    ) -> Result<Maps> {
        Maps::on(&Device::Cpu, weights, pair, part, places, seed)
    }

    /// The same on a device.
    pub fn on(
        device: &Device,
        weights: &Weights,
        pair: [&Prompts; 2],
        part: Part,
        places: Vec<Place>,
        seed: Seed,
    ) -> Result<Maps> {
        let patched = Patched::on(device, weights, pair, part, &places)?;
        Ok(Maps::of_patched(&patched, part, places, pair[0].points() - 1, seed))
    }

    /// The shares at one place, layer by layer from 1.
    pub fn at(&self, place: Place) -> Option<Vec<Estimate>> {
        let at = self.places.iter().position(|other| *other == place)?;
        Some(self.follows.iter().map(|layer| layer[at]).collect())
    }
}
