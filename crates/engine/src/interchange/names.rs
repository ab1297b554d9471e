//! Names of other programs, and the network that a set of named shapes must come from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::config::checked;
use super::error::InterchangeError;
use crate::model::networks::{Gpt2Config, LstmConfig, Network};
use crate::model::parameters::{Param, ParamLayout};

/// Heads of the paper's network: assumed when nothing says otherwise, as weights do not show them.
pub const DEFAULT_HEADS: usize = 8;

/// What a name of another program stands for.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    /// A parameter, by the engine's name.
    Parameter(String),
    /// A constant or an unused weight, left out.
    Dropped,
    /// Nothing that is known.
    Unknown,
}

/// Strips wrappers: data-parallel, compiled.
fn unwrapped(mut name: &str) -> &str {
    while let Some(rest) = name.strip_prefix("module.").or(name.strip_prefix("_orig_mod.")) {
        name = rest;
    }
    name
}

fn meaning(name: &str) -> Meaning {
    let name = unwrapped(name);
    let plain = name.strip_prefix('_').unwrap_or(name);
    if plain.starts_with("read_in.") || plain.starts_with("read_out.") {
        return Meaning::Parameter(plain.into());
    }
    let body = ["backbone.", "transformer.", "lstm."].iter().find_map(|prefix| plain.strip_prefix(prefix));
    let body = unwrapped(body.unwrap_or(name));
    if body.starts_with("weight_") || body.starts_with("bias_") {
        return Meaning::Parameter(format!("lstm.{body}"));
    }
    if let Some((_, part)) = block(body) {
        // Old versions of transformers stored the causal mask and the value of masked scores.
        return match part {
            "attn.bias" | "attn.masked_bias" => Meaning::Dropped,
            _ => Meaning::Parameter(body.into()),
        };
    }
    match body {
        // Tokens are numbers here, so the table of words is never used.
        "wte.weight" | "lm_head.weight" => Meaning::Dropped,
        _ if body.starts_with("wpe.") || body.starts_with("ln_f.") => Meaning::Parameter(body.into()),
        _ => Meaning::Unknown,
    }
}

/// The layer and the part in names like `h.3.ln_1.weight`.
fn block(name: &str) -> Option<(usize, &str)> {
    let (layer, part) = name.strip_prefix("h.")?.split_once('.')?;
    // `h.03` is not a name that any program writes.
    (layer == "0" || !layer.starts_with('0')).then_some((layer.parse().ok()?, part))
}

/// The layer in names like `lstm.weight_ih_l3`.
fn lstm_layer(name: &str) -> Option<usize> {
    name.strip_prefix("lstm.")?.rsplit_once("_l")?.1.parse().ok()
}

/// A network recognised in a file, and where each parameter is found there.
#[derive(Debug)]
pub(super) struct Recognised {
    pub network: Network,
    /// Name in the file, place in the flat buffer.
    pub sources: Vec<(String, Param)>,
    pub values: usize,
    /// Names in the file that were left out.
    pub dropped: Vec<String>,
    /// Whether nothing said how many heads there are.
    pub heads_assumed: bool,
}

/// Finds the network that named shapes belong to. Every parameter must be there with its shape, and no other tensor.
/// `heads` are those asked for, `stated` the network that the file says it holds.
pub(super) fn recognise(
    path: &Path,
    shapes: &BTreeMap<String, Vec<u64>>,
    heads: Option<usize>,
    stated: Option<Network>,
) -> Result<Recognised, InterchangeError> {
    let mut found: BTreeMap<String, &str> = BTreeMap::new();
    let (mut dropped, mut unexpected) = (Vec::new(), Vec::new());
    for name in shapes.keys() {
        match meaning(name) {
            Meaning::Parameter(ours) if !found.contains_key(&ours) => drop(found.insert(ours, name)),
            Meaning::Dropped => dropped.push(name.clone()),
            Meaning::Parameter(_) | Meaning::Unknown => unexpected.push(name.clone()),
        }
    }
    let heads_assumed = heads.is_none() && stated.is_none();
    let shape = |name: &str| found.get(name).map(|&theirs| shapes[theirs].as_slice());
    let network = with_heads(path, infer(path, &found, shape, unexpected.clone())?, heads, stated)?;
    let network = checked(network)?;
    let heads_assumed = heads_assumed && matches!(network, Network::Gpt2(_));
    let layout = ParamLayout::new(network.params());
    let mut sources = Vec::new();
    let mut missing = Vec::new();
    for (spec, place) in layout.iter() {
        match found.remove(&spec.name) {
            Some(theirs) => {
                let shape = &shapes[theirs];
                if !shape.iter().copied().eq(spec.shape.iter().map(|&size| size as u64)) {
                    let expected = format!("a float tensor of shape {:?}", spec.shape);
                    return Err(InterchangeError::tensor(
                        path,
                        theirs,
                        expected,
                        format!("of shape {shape:?}"),
                    ));
                }
                sources.push((theirs.to_string(), place));
            }
            None => missing.push(spec.name.clone()),
        }
    }
    unexpected.extend(found.values().map(|name| name.to_string()));
    if !(missing.is_empty() && unexpected.is_empty()) {
        return Err(InterchangeError::Names { path: path.into(), missing, unexpected });
    }
    Ok(Recognised { network, sources, values: layout.len(), dropped, heads_assumed })
}

/// Sizes from shapes.
fn infer<'a>(
    path: &Path,
    found: &BTreeMap<String, &str>,
    shape: impl Fn(&str) -> Option<&'a [u64]>,
    unexpected: Vec<String>,
) -> Result<Network, InterchangeError> {
    let matrix = |name: &str| -> Result<[usize; 2], InterchangeError> {
        let Some(sizes) = shape(name) else {
            let missing = vec![name.to_string()];
            return Err(InterchangeError::Names {
                path: path.into(),
                missing,
                unexpected: unexpected.clone(),
            });
        };
        match sizes {
            &[rows, columns] if rows.max(columns) <= u64::from(u32::MAX) => {
                Ok([rows as usize, columns as usize])
            }
            sizes => {
                let found = format!("of shape {sizes:?}");
                Err(InterchangeError::tensor(path, name, "a matrix", found))
            }
        }
    };
    let [width, features] = matrix("read_in.weight")?;
    let lstm: BTreeSet<usize> = found.keys().filter_map(|name| lstm_layer(name)).collect();
    let blocks: BTreeSet<usize> =
        found.keys().filter_map(|name| block(name).map(|(layer, _)| layer)).collect();
    // Layers are counted, not taken from the largest number, which a file could make as large as it likes.
    if !lstm.is_empty() && blocks.is_empty() && !found.contains_key("wpe.weight") {
        return Ok(Network::Lstm(LstmConfig { features, width, layers: lstm.len() }));
    }
    let [positions, _] = matrix("wpe.weight")?;
    let layers = blocks.len();
    Ok(Network::Gpt2(Gpt2Config { features, positions, width, layers, ..Default::default() }))
}

/// Adds what shapes do not show: heads, and the variants that only the file itself can state.
fn with_heads(
    path: &Path,
    network: Network,
    heads: Option<usize>,
    stated: Option<Network>,
) -> Result<Network, InterchangeError> {
    let heads_stated = match &stated {
        Some(Network::Gpt2(config)) => Some(config.heads),
        _ => None,
    };
    if let (Some(asked), Some(stated)) = (heads, heads_stated)
        && asked != stated
    {
        let reason = format!("the file states {stated} heads, but {asked} were asked for");
        return Err(InterchangeError::format(path, reason));
    }
    let network = match (network, &stated) {
        (Network::Gpt2(mut config), _) => {
            config.heads = heads.or(heads_stated).unwrap_or(DEFAULT_HEADS);
            if let Some(Network::Gpt2(stated)) = &stated {
                config.attention = stated.attention;
                config.activation = stated.activation;
            }
            Network::Gpt2(config)
        }
        (network, _) => network,
    };
    match stated {
        Some(stated) if stated != network => Err(InterchangeError::format(
            path,
            format!(
                "its tensors do not have the sizes that it states: {} against {}",
                super::network_to_json(&network),
                super::network_to_json(&stated)
            ),
        )),
        _ => Ok(network),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_programs() {
        let parameter = |name: &str| Meaning::Parameter(name.into());
        for (theirs, ours) in [
            ("_read_in.weight", parameter("read_in.weight")),
            ("module._orig_mod._read_out.bias", parameter("read_out.bias")),
            ("_backbone.wpe.weight", parameter("wpe.weight")),
            ("_orig_mod._backbone.h.11.mlp.c_fc.bias", parameter("h.11.mlp.c_fc.bias")),
            ("transformer.ln_f.bias", parameter("ln_f.bias")),
            ("h.0.ln_1.weight", parameter("h.0.ln_1.weight")),
            ("_backbone.weight_ih_l3", parameter("lstm.weight_ih_l3")),
            ("lstm.bias_hh_l0", parameter("lstm.bias_hh_l0")),
            ("_backbone.wte.weight", Meaning::Dropped),
            ("_backbone.h.0.attn.bias", Meaning::Dropped),
            ("h.2.attn.masked_bias", Meaning::Dropped),
            ("fc.weight", Meaning::Unknown),
            ("h.007.ln_1.weight", Meaning::Unknown),
        ] {
            assert_eq!(meaning(theirs), ours, "{theirs}");
        }
    }
}
