//! Patches of a learner: activations replaced by zero, by their mean over prompts, or by those of one other prompt.
//!
//! ```text
//! patch=zero:blocks.7.attn.z.3@y  →  Replaced { site, tokens, with }  →  Outputs (means, a donor's)  →  engine's Patch
//! ```

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use engine::cpu::Runner;
use engine::model::hooks::{Patch, Site, SiteKind, Tokens, Values};
use engine::model::networks::{Mode, Network};

use super::Probed;
use super::ablation::{ABLATE, Ablation};
use super::pass::{GROUP, LANES, PromptRunner, per_thread};
use crate::data::prompts::Task;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::networks::Weights;

/// The setting of a `run:` learner that patches.
pub const PATCH: &str = "patch";

/// A site of a network at some tokens, and what replaces what is computed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// What replaces it.
    pub with: Replacement,
    /// Where.
    pub site: Site,
    /// At which tokens.
    pub tokens: Tokens,
}

/// What replaces an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Zero: a layer is skipped, a head is silent.
    Zero,
    /// Its mean over prompts, position by position.
    Mean,
    /// What it is in one other prompt of the task, always the same.
    Donor,
}

impl Replacement {
    /// Every replacement with its name.
    pub const ALL: [(Replacement, &str); 3] =
        [(Replacement::Zero, "zero"), (Replacement::Mean, "mean"), (Replacement::Donor, "donor")];

    pub(super) fn named(name: &str) -> Option<Replacement> {
        Self::ALL.into_iter().find(|(_, other)| *other == name).map(|(with, _)| with)
    }
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL[*self as usize].1)
    }
}

/// Tokens by their role, as they follow a site.
const ROLES: [(&str, Tokens); 2] = [("x", Tokens::X), ("y", Tokens::Y)];

impl Replaced {
    /// Patches of a network by the text of a setting: `zero:blocks.7.attn.z.3@y+mean:blocks.5.mlp.hidden@x`. What replaces goes on until
    /// another is named.
    pub fn parse(network: &Network, value: &str) -> Result<Vec<Replaced>> {
        let bad = || Error::BadSetting {
            row: "run".into(),
            setting: PATCH.into(),
            value: value.into(),
            accepted:
                "zero:, mean: or donor:, an activation, and @x or @y for tokens of that kind alone, as \
                       zero:blocks.7.attn.z.3@y+mean:blocks.5.mlp.hidden"
                    .into(),
        };
        let mut with = None;
        let replaced = |text: &str| {
            let (kind, place) =
                text.split_once(':').map_or((None, text), |(kind, place)| (Some(kind), place));
            if let Some(kind) = kind {
                with = Some(Replacement::named(kind).ok_or_else(bad)?);
            }
            let (site, tokens) = match place.split_once('@') {
                None => (place, Tokens::All),
                Some((site, role)) => {
                    let found = ROLES.into_iter().find(|(name, _)| *name == role);
                    (site, found.ok_or_else(bad)?.1)
                }
            };
            Ok(Replaced { with: with.ok_or_else(bad)?, site: network.site(site)?, tokens })
        };
        value.split('+').map(replaced).collect()
    }
}

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.with, self.site)?;
        match ROLES.iter().find(|(_, tokens)| *tokens == self.tokens) {
            Some((role, _)) => write!(f, "@{role}"),
            None => Ok(()),
        }
    }
}

/// Activations that stand in for others, position by position.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// `[positions, width of the site]`; those of heads together.
    by_site: HashMap<Site, Vec<f64>>,
    /// Heads of a layer, and the width of each.
    heads: usize,
    size: usize,
}

/// Prompts over which means are taken when nobody says how many.
pub const MEAN_PROMPTS: usize = 512;

/// All heads of a block in place of one of them: what is measured.
fn whole(site: Site) -> Site {
    match site.kind {
        SiteKind::Z(_) => Site { kind: SiteKind::Z(None), ..site },
        _ => site,
    }
}

/// Heads of a Transformer, and the width of each.
fn heads(weights: &Weights) -> Result<(usize, usize)> {
    match &weights.network {
        Network::Gpt2(config) => Ok((config.heads, config.width / config.heads)),
        Network::Lstm(_) => Err(Error::BadData(
            "only the layers of a Transformer add to a residual stream and have heads".into(),
        )),
    }
}

impl Outputs {
    /// Means of sites over `count` prompts of a task.
    pub fn means(
        weights: &Weights,
        task: &Task,
        seed: Seed,
        count: usize,
        sites: impl IntoIterator<Item = Site>,
    ) -> Result<Outputs> {
        let (heads, size) = heads(weights)?;
        let sites = distinct(sites);
        let nothing = || -> Result<Vec<Vec<f64>>> {
            let empty = |site: &Site| Ok(vec![0.0; 2 * task.points * weights.network.width_of(*site)?]);
            sites.iter().map(empty).collect()
        };
        let piece = count.div_ceil(LANES).next_multiple_of(GROUP);
        let pieces = count.div_ceil(piece);
        let sums = per_thread(
            pieces,
            || PromptRunner::saving_activations(weights),
            |runner, number| {
                let mut sums = nothing()?;
                for first in (number * piece..(number + 1) * piece).step_by(GROUP) {
                    let prompts = task.sample(seed, "probe/means", first as u64, GROUP);
                    let runner = runner.run(&prompts)?;
                    for (sums, site) in sums.iter_mut().zip(&sites) {
                        add_prompts(sums, &activation(runner, *site)?);
                    }
                }
                Ok(sums)
            },
        )?;
        let mut means = nothing()?;
        for sums in &sums {
            for (mean, sum) in means.iter_mut().flatten().zip(sums.iter().flatten()) {
                *mean += sum / (pieces * piece) as f64;
            }
        }
        Ok(Outputs { by_site: sites.into_iter().zip(means).collect(), heads, size })
    }

    /// Means of what every block adds to the stream and of what its heads hand to the projection.
    pub fn of_parts(weights: &Weights, task: &Task, seed: Seed, count: usize) -> Result<Outputs> {
        let blocks = 1..=weights.network.layers();
        let parts = [SiteKind::Out, SiteKind::Z(None)];
        let sites = blocks.flat_map(|block| parts.map(|kind| Site { block, kind }));
        Outputs::means(weights, task, seed, count, sites)
    }

    /// Sites in one prompt of a task, always the same.
    pub fn donor(
        weights: &Weights,
        task: &Task,
        seed: Seed,
        sites: impl IntoIterator<Item = Site>,
    ) -> Result<Outputs> {
        let (heads, size) = heads(weights)?;
        let mut runner = PromptRunner::saving_activations(weights);
        let runner = runner.run(&task.sample(seed, "probe/donor", 0, 1))?;
        let sites = distinct(sites).into_iter();
        let by_site = sites.map(|site| Ok((site, activation(runner, site)?)));
        Ok(Outputs { by_site: by_site.collect::<Result<_>>()?, heads, size })
    }

    /// Heads of a layer.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// `[positions, width]` at one site; `None` where it was not measured.
    fn of(&self, site: Site) -> Option<Arc<[f32]>> {
        let all = self.by_site.get(&whole(site))?;
        let SiteKind::Z(Some(head)) = site.kind else { return Some(all.iter().map(|v| *v as f32).collect()) };
        let own = head * self.size..(head + 1) * self.size;
        let rows = all.chunks_exact(self.heads * self.size).map(|row| row.get(own.clone()));
        let rows = rows.collect::<Option<Vec<&[f64]>>>()?;
        Some(rows.into_iter().flatten().map(|v| *v as f32).collect())
    }
}

/// Activations that may stand in for others.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandIns<'a> {
    /// Means over prompts.
    pub means: Option<&'a Outputs>,
    /// Those of another prompt.
    pub donor: Option<&'a Outputs>,
}

impl Probed {
    /// The same network and read-outs with activations replaced; what stands in for them must have been measured.
    pub fn replaced(&self, replaced: &[Replaced], stand_ins: StandIns) -> Result<Probed> {
        self.check_patches(replaced)?;
        let mut probed = self.clone();
        for one @ Replaced { with, site, tokens } in replaced {
            let measured = match with {
                Replacement::Zero => None,
                Replacement::Mean => Some(stand_ins.means),
                Replacement::Donor => Some(stand_ins.donor),
            };
            let values = match measured {
                None => Values::Zero,
                Some(outputs) => {
                    let values = outputs.and_then(|outputs| outputs.of(*site));
                    let missing =
                        || Error::BadData(format!("{one}: what stands in for {site} was not measured"));
                    Values::PerPosition(values.ok_or_else(missing)?)
                }
            };
            probed.patches.push(Patch { site: *site, tokens: tokens.clone(), values });
            let (setting, text) = match Ablation::of(one) {
                Some(ablation) => (ABLATE, ablation.to_string()),
                None => (PATCH, one.to_string()),
            };
            let given = probed.id.given.entry(setting.into()).or_default();
            *given = if given.is_empty() { text } else { format!("{given}+{text}") };
        }
        Ok(probed)
    }

    /// Refuses sites that the network does not have, and patches that no prediction would notice, before anything is run.
    pub(super) fn check_patches(&self, replaced: &[Replaced]) -> Result<()> {
        let patches = replaced.iter().map(|one| {
            let (site, tokens, values) = (one.site, one.tokens.clone(), Values::Zero);
            Patch { site, tokens, values }
        });
        // two points have tokens of every role
        let mut runner = self.weights.network.predictor(1, 2, Mode::Infer)?;
        Ok(runner.patch(&patches.collect::<Vec<_>>())?)
    }

    /// The same with what stands in measured on prompts of a task.
    pub(super) fn replaced_on(&self, replaced: &[Replaced], task: &Task, seed: Seed) -> Result<Probed> {
        self.check_patches(replaced)?;
        let sites = |with: Replacement| -> Option<Vec<Site>> {
            let sites: Vec<Site> =
                replaced.iter().filter(|one| one.with == with).map(|one| one.site).collect();
            (!sites.is_empty()).then_some(sites)
        };
        let means = sites(Replacement::Mean)
            .map(|sites| Outputs::means(&self.weights, task, seed, MEAN_PROMPTS, sites))
            .transpose()?;
        let donor = sites(Replacement::Donor)
            .map(|sites| Outputs::donor(&self.weights, task, seed, sites))
            .transpose()?;
        self.replaced(replaced, StandIns { means: means.as_ref(), donor: donor.as_ref() })
    }
}

fn distinct(sites: impl IntoIterator<Item = Site>) -> Vec<Site> {
    let mut distinct: Vec<Site> = Vec::new();
    for site in sites.into_iter().map(whole) {
        if !distinct.contains(&site) {
            distinct.push(site);
        }
    }
    distinct
}

/// An activation `[prompt, position, width]` in double precision.
fn activation(runner: &Runner, site: Site) -> Result<Vec<f64>> {
    let doubles = |values: &[f32]| values.iter().copied().map(f64::from).collect::<Vec<f64>>();
    Ok(match site.kind {
        // without the rounding of a difference
        SiteKind::Out => {
            let (before, after) = (runner.hidden(site.block - 1), runner.hidden(site.block));
            after.iter().zip(before).map(|(a, b)| f64::from(*a) - f64::from(*b)).collect()
        }
        _ => doubles(&runner.activation(site)?),
    })
}

/// Adds values `[prompt, position, width]` to sums `[position, width]`.
fn add_prompts(sums: &mut [f64], values: &[f64]) {
    for prompt in values.chunks_exact(sums.len()) {
        sums.iter_mut().zip(prompt).for_each(|(sum, v)| *sum += v);
    }
}
