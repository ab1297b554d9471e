//! Ablations: a layer or head whose output is replaced by zero, or by its mean over prompts. They are the short form of patches.

use std::fmt;

use engine::model::hooks::{Site, SiteKind, Tokens};

use super::Probed;
use super::patches::{Outputs, Replaced, Replacement, StandIns};
use crate::error::{Error, Result};

/// A part of a network and what replaces its output. Layers count from 1, heads from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ablation {
    /// Which part.
    pub part: Part,
    /// What replaces its output.
    pub with: Replacement,
}

/// A part of a Transformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All that a layer adds to the residual stream.
    Layer(usize),
    /// What one attention head hands to the projection.
    Head {
        /// The layer, from 1.
        layer: usize,
        /// From 0.
        head: usize,
    },
}

/// The setting of a `run:` learner that ablates.
pub const ABLATE: &str = "ablate";

/// The settings it had before: what replaces the output, and whether heads are named.
pub(super) const OLDER: [(&str, Replacement, bool); 4] = [
    ("skip", Replacement::Zero, false),
    ("mean", Replacement::Mean, false),
    ("silence", Replacement::Zero, true),
    ("head", Replacement::Mean, true),
];

/// What an ablation replaces by.
fn named(kind: &str) -> Option<Replacement> {
    Replacement::named(kind).filter(|with| *with != Replacement::Donor)
}

impl Ablation {
    /// The patch that it is short for.
    pub fn replaced(&self) -> Replaced {
        let site = match self.part {
            Part::Layer(block) => Site { block, kind: SiteKind::Out },
            Part::Head { layer, head } => Site { block: layer, kind: SiteKind::Z(Some(head)) },
        };
        Replaced { with: self.with, site, tokens: Tokens::All }
    }

    /// The short form of a patch, if it has one.
    pub fn of(replaced: &Replaced) -> Option<Ablation> {
        let Replaced { with, site: Site { block, kind }, tokens } = replaced;
        let part = match kind {
            SiteKind::Out => Part::Layer(*block),
            SiteKind::Z(Some(head)) => Part::Head { layer: *block, head: *head },
            _ => return None,
        };
        let short = *tokens == Tokens::All && *with != Replacement::Donor;
        short.then_some(Ablation { part, with: *with })
    }

    /// Ablations by the text of a setting: `ablate=zero:7.3` (layer 7, head 3), `ablate=mean:7+8`, `ablate=zero:7+mean:8.0`.
    /// Older spellings are `skip=7`, `mean=7+8` for layers and `silence=7.3`, `head=7.0+7.1` for heads.
    pub fn parse(setting: &str, value: &str) -> Result<Vec<Ablation>> {
        let older = OLDER.iter().find(|(name, ..)| *name == setting);
        let bad = || {
            Error::BadSetting {
            row: "run".into(),
            setting: setting.into(),
            value: value.into(),
            accepted: match older {
                None => "zero: or mean: and layers counted from 1 or LAYER.HEAD with heads from 0, as zero:7+8 or mean:7.3",
                Some((.., false)) => "layers, counted from 1, as 7 or 7+8",
                Some((.., true)) => {
                    "heads as LAYER.HEAD, layers counted from 1 and heads from 0, as 7.3 or 7.0+7.1"
                }
            }
            .into(),
        }
        };
        let number = |text: &str| text.parse::<usize>().map_err(|_| bad());
        let mut with = older.map(|(_, with, _)| *with);
        let ablation = |text: &str| {
            let (kind, part) = match text.split_once(':') {
                Some((kind, part)) if older.is_none() => (Some(kind), part),
                _ => (None, text),
            };
            with = match kind {
                Some(kind) => Some(named(kind).ok_or_else(bad)?),
                None => with,
            };
            let part = match part.split_once('.') {
                Some((layer, head)) => Part::Head { layer: number(layer)?, head: number(head)? },
                None => Part::Layer(number(part)?),
            };
            if older.is_some_and(|(.., heads)| *heads != matches!(part, Part::Head { .. })) {
                return Err(bad());
            }
            Ok(Ablation { part, with: with.ok_or_else(bad)? })
        };
        value.split('+').map(ablation).collect()
    }
}

impl fmt::Display for Ablation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = self.with;
        match self.part {
            Part::Layer(layer) => write!(f, "{with}:{layer}"),
            Part::Head { layer, head } => write!(f, "{with}:{layer}.{head}"),
        }
    }
}

impl Probed {
    /// The same network and read-outs with parts ablated. `means` is needed where a part is replaced by its mean.
    pub fn ablated(&self, ablations: &[Ablation], means: Option<&Outputs>) -> Result<Probed> {
        let replaced: Vec<Replaced> = ablations.iter().map(Ablation::replaced).collect();
        self.replaced(&replaced, StandIns { means, donor: None })
    }
}
