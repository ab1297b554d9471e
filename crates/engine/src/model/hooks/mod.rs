//! Activations by name: where a Transformer can be read and patched.
//!
//! | name | activation | shape |
//! |---|---|---|
//! | `blocks.7.resid_pre` | the residual stream before block 7 | `[batch, tokens, width]` |
//! | `blocks.7.attn.z`, `blocks.7.attn.z.3` | what the heads, or head 3, hand to the projection | `[batch, tokens, heads·size]`, `[…, size]` |
//! | `blocks.7.resid_mid` | the residual stream between attention and MLP | `[batch, tokens, width]` |
//! | `blocks.7.mlp.hidden` | inside the MLP, after its activation | `[batch, tokens, 4·width]` |
//! | `blocks.7.resid_post` | the residual stream after block 7 | `[batch, tokens, width]` |
//! | `blocks.7.out` | what block 7 adds to the stream, resid_post − resid_pre | `[batch, tokens, width]` |
//!
//! Blocks count from 1, as layers do; heads from 0. An ablation is a [`Patch`], too: of a head by zero at `attn.z.3`, of a whole block at
//! `out`.
//!
//! ```text
//! mod.rs      Site: names          patch.rs   Patch: site, tokens, values
//! shapes.rs   which sites a network has, and how wide they are
//! planned.rs  a patch in the plan of one network, for any device
//! ```

mod patch;
mod planned;
mod shapes;

pub use patch::{Patch, Tokens, Values};
pub(crate) use planned::{Moment, Place, PlannedPatch};

use std::fmt;
use std::str::FromStr;

use crate::names::close;

/// An activation of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Site {
    /// From 1.
    pub block: usize,
    /// Which of its activations.
    pub kind: SiteKind,
}

/// Which activation of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SiteKind {
    /// The residual stream before the block.
    ResidPre,
    /// What all attention heads, or one of them, hand to the projection.
    Z(Option<usize>),
    /// The residual stream between attention and MLP.
    ResidMid,
    /// Inside the MLP, after its activation.
    MlpHidden,
    /// The residual stream after the block.
    ResidPost,
    /// What the block adds to the residual stream, resid_post − resid_pre. It is computed nowhere: values in its place are added to the
    /// stream before the block, so that what was read comes back up to the rounding of one sum.
    Out,
}

impl SiteKind {
    /// Every kind without a number of its own, with its name.
    pub const ALL: [(SiteKind, &str); 6] = [
        (SiteKind::ResidPre, "resid_pre"),
        (SiteKind::Z(None), "attn.z"),
        (SiteKind::ResidMid, "resid_mid"),
        (SiteKind::MlpHidden, "mlp.hidden"),
        (SiteKind::ResidPost, "resid_post"),
        (SiteKind::Out, "out"),
    ];
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Site { block, kind } = self;
        if let SiteKind::Z(Some(head)) = kind {
            return write!(f, "blocks.{block}.attn.z.{head}");
        }
        let name = SiteKind::ALL.iter().find(|(other, _)| other == kind).map_or("", |(_, name)| name);
        write!(f, "blocks.{block}.{name}")
    }
}

impl FromStr for Site {
    type Err = String;

    fn from_str(text: &str) -> Result<Site, String> {
        read(text).ok_or_else(|| {
            let names = SiteKind::ALL.map(|(_, name)| format!("blocks.L.{name}")).join(", ");
            format!("{}; accepted: {names}, blocks.L.attn.z.HEAD", unknown(text))
        })
    }
}

fn read(text: &str) -> Option<Site> {
    let (block, name) = text.strip_prefix("blocks.")?.split_once('.')?;
    let block: usize = block.parse().ok()?;
    let kind = match name.strip_prefix("attn.z.") {
        Some(head) => SiteKind::Z(Some(head.parse().ok()?)),
        None => SiteKind::ALL.iter().find(|(_, other)| *other == name).map(|(kind, _)| *kind)?,
    };
    Some(Site { block, kind })
}

/// That there is no such name, with those that are near.
fn unknown(text: &str) -> String {
    let number = text.split('.').find_map(|part| part.parse::<usize>().ok()).unwrap_or(1);
    let names: Vec<String> =
        SiteKind::ALL.iter().map(|(_, name)| format!("blocks.{number}.{name}")).collect();
    // what follows the block tells names apart; without one, all of it
    let written = text.strip_prefix(&format!("blocks.{number}.")).unwrap_or(text);
    let near = close(written, SiteKind::ALL.iter().map(|(_, name)| *name));
    let near: Vec<&str> = near
        .iter()
        .filter_map(|near| names.iter().find(|name| name.ends_with(near)))
        .map(String::as_str)
        .collect();
    match near.is_empty() {
        true => format!("activation '{text}' is unknown"),
        false => format!("activation '{text}' is unknown, did you mean {}?", near.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for (kind, name) in SiteKind::ALL {
            let text = format!("blocks.7.{name}");
            assert_eq!(text.parse(), Ok(Site { block: 7, kind }));
            assert_eq!(Site { block: 7, kind }.to_string(), text);
        }
        let head = Site { block: 12, kind: SiteKind::Z(Some(3)) };
        assert_eq!("blocks.12.attn.z.3".parse(), Ok(head));
        assert_eq!(head.to_string(), "blocks.12.attn.z.3");
        for wrong in ["resid_pre", "blocks.x.resid_pre", "blocks.7", "blocks.7.resid", "blocks.7.attn.z.one"]
        {
            assert!(wrong.parse::<Site>().unwrap_err().contains("accepted: blocks.L.resid_pre"), "{wrong}");
        }
    }

    #[test]
    fn near_names_are_named() {
        for (wrong, near) in [
            ("blocks.7.attn.zz", "did you mean blocks.7.attn.z?"),
            (
                "blocks.7.resid",
                "did you mean blocks.7.resid_pre or blocks.7.resid_mid or blocks.7.resid_post?",
            ),
            ("resid_post", "did you mean blocks.1.resid_post"),
            ("blocks.3.mlp.hiden", "did you mean blocks.3.mlp.hidden?"),
        ] {
            let said = wrong.parse::<Site>().unwrap_err();
            assert!(said.contains(near), "{said}");
        }
        let said = "something".parse::<Site>().unwrap_err();
        assert!(
            said.starts_with("activation 'something' is unknown; accepted: blocks.L.resid_pre"),
            "{said}"
        );
    }
}
