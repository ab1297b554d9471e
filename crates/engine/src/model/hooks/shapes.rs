//! Which sites a network has, and how wide they are.

use std::ops::Range;

use super::{Site, SiteKind, read, unknown};
use crate::error::EngineError;
use crate::model::graph::Graph;
use crate::model::networks::Network;

/// What the widths of all sites follow from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shapes {
    blocks: usize,
    heads: usize,
    /// Of the residual stream.
    width: usize,
}

impl Shapes {
    pub fn of_graph(graph: &Graph) -> Shapes {
        let width = graph.plan.len_of(graph.hidden[0]) / (graph.batch * graph.tokens);
        let heads = graph.blocks.first().map_or(1, |block| block.heads);
        Shapes { blocks: graph.blocks.len(), heads, width }
    }

    fn of_network(network: &Network) -> Shapes {
        match network {
            Network::Gpt2(config) => {
                Shapes { blocks: config.layers, heads: config.heads, width: config.width }
            }
            Network::Lstm(config) => Shapes { blocks: 0, heads: 1, width: config.width },
        }
    }

    /// Values in a row of the buffer that a site lies in, and those of them that are the site's.
    pub fn columns(&self, site: Site) -> Result<(usize, Range<usize>), EngineError> {
        let Shapes { blocks, heads, width } = *self;
        let bad = |what: String| Err(EngineError::Unsupported(format!("{site}: {what}")));
        if blocks == 0 {
            return bad("only a Transformer has blocks with named activations".into());
        }
        if !(1..=blocks).contains(&site.block) {
            return bad(format!("there is no such block; accepted: 1 to {blocks}"));
        }
        let size = width / heads;
        match site.kind {
            SiteKind::Z(Some(head)) if head >= heads => bad(format!(
                "there is no such head; accepted: 0 to {}, each [tokens, {size}], or blocks.{}.attn.z [tokens, {width}]",
                heads - 1,
                site.block
            )),
            SiteKind::Z(Some(head)) => Ok((width, head * size..(head + 1) * size)),
            SiteKind::MlpHidden => Ok((4 * width, 0..4 * width)),
            _ => Ok((width, 0..width)),
        }
    }

    /// All sites with their shapes, in words.
    fn words(&self) -> String {
        let Shapes { blocks, heads, width } = *self;
        let wide = SiteKind::ALL.iter().filter(|(kind, _)| *kind != SiteKind::MlpHidden);
        let wide: Vec<&str> = wide.map(|(_, name)| *name).collect();
        format!(
            "blocks.1 to blocks.{blocks} with {} [tokens, {width}], mlp.hidden [tokens, {}], attn.z.0 to attn.z.{} [tokens, {}]",
            wide.join(", "),
            4 * width,
            heads - 1,
            width / heads
        )
    }
}

impl Network {
    /// An activation of this network by its name; or a sentence with the names that are near, and what there is.
    pub fn site(&self, text: &str) -> Result<Site, EngineError> {
        let shapes = Shapes::of_network(self);
        let Some(site) = read(text) else {
            let accepted = match shapes.blocks {
                0 => "none, only a Transformer has blocks with named activations".into(),
                _ => shapes.words(),
            };
            return Err(EngineError::Unsupported(format!("{}; accepted: {accepted}", unknown(text))));
        };
        shapes.columns(site)?;
        Ok(site)
    }

    /// Values per token of an activation.
    pub fn width_of(&self, site: Site) -> Result<usize, EngineError> {
        Ok(Shapes::of_network(self).columns(site)?.1.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::networks::{Gpt2Config, LstmConfig};

    #[test]
    fn a_network_knows_its_sites() {
        let network = Network::Gpt2(Gpt2Config::default());
        for (name, width) in [
            ("blocks.7.attn.z", 256),
            ("blocks.7.attn.z.3", 32),
            ("blocks.12.mlp.hidden", 1024),
            ("blocks.1.out", 256),
        ] {
            assert_eq!(network.width_of(network.site(name).unwrap()), Ok(width), "{name}");
        }
        let said = |name: &str| network.site(name).unwrap_err().to_string();
        assert_eq!(
            said("blocks.7.attn.q"),
            "activation 'blocks.7.attn.q' is unknown, did you mean blocks.7.attn.z?; accepted: blocks.1 to blocks.12 with \
             resid_pre, attn.z, resid_mid, resid_post, out [tokens, 256], mlp.hidden [tokens, 1024], attn.z.0 to attn.z.7 \
             [tokens, 32]"
        );
        assert_eq!(said("blocks.13.out"), "blocks.13.out: there is no such block; accepted: 1 to 12");
        assert_eq!(
            said("blocks.7.attn.z.8"),
            "blocks.7.attn.z.8: there is no such head; accepted: 0 to 7, each [tokens, 32], or blocks.7.attn.z [tokens, 256]"
        );
        let lstm = Network::Lstm(LstmConfig::default());
        for name in ["blocks.1.out", "layers.1"] {
            assert!(lstm.site(name).unwrap_err().to_string().contains("only a Transformer"), "{name}");
        }
    }
}
