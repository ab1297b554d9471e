//! Safetensors with Hugging Face's names for GPT-2: written in one file or several, and read back.
//!
//! The read-in and read-out, which GPT-2 does not have, keep the names of Garg et al. (`_read_in`, `_read_out`).

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use half::f16;
use safetensors::SafeTensors;
use safetensors::tensor::Dtype as Stored;
use serde::Deserialize;

use super::error::{InterchangeError, short};
use super::names::{Recognised, recognise};
use super::shards::{Blob, Blobs, INDEX, SINGLE};
use super::tensor::{Dtype, FLOATS};
use super::{ByteSize, Imported, NETWORK, STEP, hub, network_from_json, network_to_json};
use crate::model::networks::Network;

/// Element type of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// float32: exact.
    #[default]
    F32,
    /// float16: half the size, rounded to nearest, ties to even.
    F16,
}

/// Names of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Names {
    /// Those of `GPT2Model`: `wpe.weight`, `h.0.ln_1.weight`, …
    #[default]
    HuggingFace,
    /// The same inside the module of Garg et al.: `_backbone.wpe.weight`, …
    Garg,
}

/// How to export.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExportOptions {
    /// Element type.
    pub precision: Precision,
    /// Names.
    pub names: Names,
    /// Size that no file exceeds, its header included.
    pub max_shard: Option<ByteSize>,
}

/// Writes a network. A target that ends in `.safetensors` is one file, any other a new folder, which gets a
/// `config.json` as well (for GPT-2) and, if one file would be too large, shards with an index. Returns the files
/// and their sizes.
pub fn export(
    target: &Path,
    model: &Imported,
    options: &ExportOptions,
) -> Result<Vec<(PathBuf, u64)>, InterchangeError> {
    let config = match &model.network {
        Network::Gpt2(config) => Some(hub::gpt2(config)?),
        Network::Lstm(_) => None,
    };
    let blobs = blobs(target, model, options)?;
    let most = options.max_shard.map(|size| size.0);
    if target.extension().is_some_and(|end| end == "safetensors") {
        return Ok(vec![(target.to_path_buf(), blobs.write_file(target, most)?)]);
    }
    let extra: Vec<_> = config.into_iter().map(|config| ("config.json", config)).collect();
    Ok(within(target, blobs.write_folder(target, most, &extra)?))
}

/// Writes a network as a new folder in the layout of the Hugging Face hub: `config.json`, `README.md` (the model card)
/// and `model.safetensors`. Returns the files and their sizes.
pub fn export_hub(
    target: &Path,
    model: &Imported,
    precision: Precision,
    card: String,
) -> Result<Vec<(PathBuf, u64)>, InterchangeError> {
    let extra = [("config.json", hub::config(&model.network)?), ("README.md", card)];
    let options = ExportOptions { precision, ..ExportOptions::default() };
    Ok(within(target, blobs(target, model, &options)?.write_folder(target, None, &extra)?))
}

fn within(folder: &Path, written: Vec<(String, u64)>) -> Vec<(PathBuf, u64)> {
    written.into_iter().map(|(name, bytes)| (folder.join(name), bytes)).collect()
}

/// The tensors of a network under their names; `target` is for messages.
fn blobs(target: &Path, model: &Imported, options: &ExportOptions) -> Result<Blobs, InterchangeError> {
    let layout = model.network.layout();
    if layout.len() != model.params.len() {
        let (found, needed) = (model.params.len(), layout.len());
        return Err(InterchangeError::Unsupported(format!(
            "{found} values given, but the network has {needed}"
        )));
    }
    let mut list = Vec::new();
    for (spec, place) in layout.iter() {
        let name = exported_name(&spec.name, options.names);
        let values = place.of(&model.params);
        let bytes = match options.precision {
            Precision::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Precision::F16 => {
                if let Some(lost) = values.iter().find(|v| v.is_finite() && f16::from_f32(**v).is_infinite())
                {
                    let range = "within float16's range of ±65504";
                    return Err(InterchangeError::tensor(target, &name, range, format!("{lost} somewhere")));
                }
                values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect()
            }
        };
        list.push(Blob { name, shape: spec.shape.clone(), bytes });
    }
    let mut metadata =
        BTreeMap::from([("format", "pt".to_string()), (NETWORK, network_to_json(&model.network))]);
    metadata.extend(model.step.map(|step| (STEP, step.to_string())));
    let dtype = match options.precision {
        Precision::F32 => "F32",
        Precision::F16 => "F16",
    };
    Ok(Blobs { dtype, list, metadata })
}

fn exported_name(name: &str, names: Names) -> String {
    match name.strip_prefix("lstm.") {
        Some(rest) => format!("_backbone.{rest}"),
        None if name.starts_with("read_") => format!("_{name}"),
        None if names == Names::Garg => format!("_backbone.{name}"),
        None => name.into(),
    }
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Reads a safetensors file, an index of shards, or a folder with either; float32, float64, float16 or bfloat16.
pub fn read(path: &Path, heads: Option<usize>) -> Result<Imported, InterchangeError> {
    if path.is_dir() {
        let [index, single] = [INDEX, SINGLE].map(|name| path.join(name));
        return match (index.is_file(), single.is_file()) {
            (_, true) => read(&single, heads),
            (true, false) => read(&index, heads),
            _ => {
                Err(InterchangeError::format(path, format!("the folder holds neither {SINGLE} nor {INDEX}")))
            }
        };
    }
    let load = |path: &Path| fs::read(path).map_err(InterchangeError::io(path, "read"));
    if path.extension().is_none_or(|end| end != "json") {
        return read_shards(path, &[(path.to_path_buf(), load(path)?)], None, heads);
    }
    let index: Index = serde_json::from_slice(&load(path)?)
        .map_err(|reason| InterchangeError::format(path, format!("it is no index of shards: {reason}")))?;
    let mut shards: BTreeMap<&str, (PathBuf, Vec<u8>)> = BTreeMap::new();
    for name in index.weight_map.values() {
        if shards.contains_key(name.as_str()) {
            continue;
        }
        // A shard lies beside its index; an index must not point anywhere else.
        if name.contains(['/', '\\', ':']) || name.contains(char::is_control) || name.starts_with('.') {
            let reason = format!("`{}` is no name of a file beside the index", short(name));
            return Err(InterchangeError::format(path, reason));
        }
        let shard = path.with_file_name(name);
        let bytes = load(&shard)?;
        shards.insert(name, (shard, bytes));
    }
    let shards: Vec<_> = shards.into_values().collect();
    read_shards(path, &shards, Some(&index), heads)
}

/// As [`read`], from the bytes of one safetensors file; `path` is for messages.
pub fn parse(path: &Path, bytes: Vec<u8>, heads: Option<usize>) -> Result<Imported, InterchangeError> {
    read_shards(path, &[(path.to_path_buf(), bytes)], None, heads)
}

fn read_shards(
    path: &Path,
    shards: &[(PathBuf, Vec<u8>)],
    index: Option<&Index>,
    heads: Option<usize>,
) -> Result<Imported, InterchangeError> {
    let mut shapes = BTreeMap::new();
    let mut views = BTreeMap::new();
    let mut metadata: HashMap<String, String> = HashMap::new();
    for (shard, bytes) in shards {
        let damaged = InterchangeError::damaged(shard);
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(&damaged)?;
        metadata.extend(header.metadata().clone().unwrap_or_default());
        for (name, view) in SafeTensors::deserialize(bytes).map_err(&damaged)?.tensors() {
            let named = index.is_none_or(|index| index.weight_map.contains_key(&name));
            let shape: Vec<u64> = view.shape().iter().map(|&size| size as u64).collect();
            if !named || shapes.insert(name.clone(), shape).is_some() {
                let reason = format!("tensor `{}` is in two shards or not in the index", short(&name));
                return Err(InterchangeError::format(shard, reason));
            }
            views.insert(name, (view.dtype(), view.data()));
        }
    }
    if let Some(index) = index {
        let missing: Vec<String> =
            index.weight_map.keys().filter(|name| !shapes.contains_key(*name)).cloned().collect();
        if !missing.is_empty() {
            return Err(InterchangeError::Names { path: path.into(), missing, unexpected: Vec::new() });
        }
    }
    let stated = metadata.get(NETWORK).map(|json| network_from_json(json)).transpose()?;
    let recognised = recognise(path, &shapes, heads, stated)?;
    let mut params = vec![0.0; recognised.values];
    for (name, place) in &recognised.sources {
        let (stored, data) = views[name];
        let dtype = match stored {
            Stored::F32 => Dtype::F32,
            Stored::F64 => Dtype::F64,
            Stored::F16 => Dtype::F16,
            Stored::BF16 => Dtype::Bf16,
            other => {
                return Err(InterchangeError::tensor(path, name, FLOATS, format!("{other:?}")));
            }
        };
        dtype.decode(data, false, place.of_mut(&mut params));
    }
    let step = metadata.get(STEP).and_then(|step| step.parse().ok());
    let Recognised { network, dropped, heads_assumed, .. } = recognised;
    Ok(Imported { network, params, step, dropped, heads_assumed })
}
