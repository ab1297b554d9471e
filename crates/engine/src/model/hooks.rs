//! Activations by name: where a Transformer can be read and patched.
//!
//! | name | activation | shape |
//! |---|---|---|
//! | `blocks.7.resid_pre` | the residual stream before block 7 | `[batch, tokens, width]` |
//! | `blocks.7.attn.z`, `blocks.7.attn.z.3` | what the heads, or head 3, hand to the projection | `[batch, tokens, heads·size]`, `[…, size]` |
//! | `blocks.7.resid_mid` | the residual stream between attention and MLP | `[batch, tokens, width]` |
//! | `blocks.7.mlp.hidden` | inside the MLP, after its activation | `[batch, tokens, 4·width]` |
//! | `blocks.7.resid_post` | the residual stream after block 7 | `[batch, tokens, width]` |
//!
//! Blocks count from 1, as layers do; heads from 0.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// An activation of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// From 1.
    pub block: usize,
    /// Which of its activations.
    pub kind: SiteKind,
}

/// Which activation of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

impl SiteKind {
    /// Every kind without a number of its own, with its name.
    pub const ALL: [(SiteKind, &str); 5] = [
        (SiteKind::ResidPre, "resid_pre"),
        (SiteKind::Z(None), "attn.z"),
        (SiteKind::ResidMid, "resid_mid"),
        (SiteKind::MlpHidden, "mlp.hidden"),
        (SiteKind::ResidPost, "resid_post"),
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
        let names = || SiteKind::ALL.map(|(_, name)| format!("blocks.L.{name}")).join(", ");
        let unknown =
            || format!("activation '{text}' is unknown; accepted: {}, blocks.L.attn.z.HEAD", names());
        let rest = text.strip_prefix("blocks.").ok_or_else(unknown)?;
        let (block, name) = rest.split_once('.').ok_or_else(unknown)?;
        let block: usize = block.parse().map_err(|_| unknown())?;
        if let Some(head) = name.strip_prefix("attn.z.") {
            let head = head.parse().map_err(|_| unknown())?;
            return Ok(Site { block, kind: SiteKind::Z(Some(head)) });
        }
        let kind = SiteKind::ALL.iter().find(|(_, other)| *other == name).map(|(kind, _)| *kind);
        Ok(Site { block, kind: kind.ok_or_else(unknown)? })
    }
}

/// Values in place of what a network computes, at some tokens.
#[derive(Debug, Clone)]
pub struct Patch {
    /// Where.
    pub site: Site,
    /// At which tokens of every prompt, ascending.
    pub tokens: Vec<usize>,
    /// `[batch, tokens, width of the site]`.
    pub values: Arc<[f32]>,
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
}
