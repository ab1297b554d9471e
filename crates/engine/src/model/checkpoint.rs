//! Checkpoints as safetensors: weights, the optimiser's moments, the step, and free metadata.
//!
//! A file is written under a temporary name beside its target, synced and renamed: whoever opens the target finds
//! a whole checkpoint, the old one or the new one. The reader trusts nothing.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use thiserror::Error;

use crate::model::optim::OptimiserState;
use crate::model::optim::adam::AdamConfig;
use crate::model::parameters::{Param, ParamLayout, ParamSpec};

/// What is wrong with a checkpoint; every message names the file.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The file could not be read or written.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The bytes are not a safetensors file.
    #[error("{}: not a whole safetensors file: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What the parser found.
        reason: String,
    },
    /// A tensor the network needs is not there.
    #[error("{}: tensor `{tensor}` is missing (expected shape {expected:?})", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shape the network needs.
        expected: Vec<usize>,
    },
    /// A tensor has another shape or type than the network needs.
    #[error("{}: tensor `{tensor}` should be {expected}, but it is {found}", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Type and shape needed.
        expected: String,
        /// Type and shape found.
        found: String,
    },
    /// A tensor the network does not have.
    #[error("{}: tensor `{tensor}` {found} does not belong to this network", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Type and shape found.
        found: String,
    },
    /// A metadata entry is missing or unreadable.
    #[error("{}: metadata `{key}` should be {expected}, but it is {found}", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// The entry.
        key: &'static str,
        /// What would be accepted.
        expected: &'static str,
        /// What was found.
        found: String,
    },
}

/// Everything needed to go on training.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The flat parameter buffer.
    pub params: Vec<f32>,
    /// The optimiser's moments and step; absent in files with weights alone.
    pub optimiser: Option<OptimiserState>,
    /// Free text: config, seed, metrics.
    pub metadata: BTreeMap<String, String>,
}

/// Prefixes of the optimiser's moments in a file.
const MEAN: &str = "adam.mean/";
const SQUARE: &str = "adam.square/";
/// Metadata entries of the optimiser.
const ADAM_STEP: &str = "adam.step";
const ADAM_CONFIG: &str = "adam.config";

/// Writes a checkpoint. `optimiser` may be left out to store weights alone. Keys starting with `adam.` are reserved.
pub fn save(
    path: &Path,
    layout: &ParamLayout,
    params: &[f32],
    optimiser: Option<&OptimiserState>,
    metadata: &BTreeMap<String, String>,
) -> Result<(), CheckpointError> {
    let mut tensors: Vec<Tensor> = Vec::new();
    let mut add = |prefix: &str, flat: &[f32]| {
        tensors.extend(layout.iter().map(|(spec, place)| {
            let bytes = place.of(flat).iter().flat_map(|value| value.to_le_bytes()).collect();
            (format!("{prefix}{}", spec.name), spec.shape.clone(), bytes)
        }));
    };
    add("", params);
    let mut entries: HashMap<String, String> = metadata.clone().into_iter().collect();
    if let Some(state) = optimiser {
        add(MEAN, &state.mean);
        add(SQUARE, &state.square);
        let AdamConfig { beta1, beta2, epsilon } = state.config;
        entries.insert(ADAM_STEP.into(), state.step.to_string());
        entries.insert(ADAM_CONFIG.into(), format!("{beta1} {beta2} {epsilon}"));
    }
    write_tensors(path, Dtype::F32, &tensors, entries)
}

/// Writes weights alone, rounded to float16: half the bytes, for networks that are shipped.
pub fn save_half(
    path: &Path,
    layout: &ParamLayout,
    params: &[f32],
    metadata: &BTreeMap<String, String>,
) -> Result<(), CheckpointError> {
    let tensor = |(spec, place): (&ParamSpec, Param)| {
        let bytes = place.of(params).iter().flat_map(|&value| half::f16::from_f32(value).to_le_bytes());
        (spec.name.clone(), spec.shape.clone(), bytes.collect())
    };
    let tensors: Vec<Tensor> = layout.iter().map(tensor).collect();
    write_tensors(path, Dtype::F16, &tensors, metadata.clone().into_iter().collect())
}

/// Name, shape, bytes.
type Tensor = (String, Vec<usize>, Vec<u8>);

fn write_tensors(
    path: &Path,
    dtype: Dtype,
    tensors: &[Tensor],
    entries: HashMap<String, String>,
) -> Result<(), CheckpointError> {
    let format = |reason: safetensors::SafeTensorError| CheckpointError::Format {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    };
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| Ok((name, TensorView::new(dtype, shape.clone(), bytes)?)))
        .collect::<Result<Vec<_>, _>>()
        .map_err(format)?;
    let bytes = safetensors::serialize(views, Some(entries)).map_err(format)?;
    write_whole(path, &with_sorted_header(bytes))
}

/// The same file with the entries of its header in order: the library writes metadata in the order of a hash map, which
/// differs from process to process, and equal checkpoints should be equal bytes.
pub fn with_sorted_header(bytes: Vec<u8>) -> Vec<u8> {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return bytes };
    let length = u64::from_le_bytes(*length) as usize;
    let header = rest.get(..length).and_then(|h| serde_json::from_slice::<serde_json::Value>(h).ok());
    let Some(header) = header else { return bytes };
    let mut text = header.to_string().into_bytes(); // a JSON object keeps its keys sorted
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut sorted = (text.len() as u64).to_le_bytes().to_vec();
    sorted.extend(text);
    sorted.extend(&rest[length..]);
    sorted
}

/// Writes bytes so that a reader of `path` never sees a part of them: temporary name, sync, rename, sync the folder.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let fail =
        |action: &'static str| move |source| CheckpointError::Io { path: path.to_path_buf(), action, source };
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    // Processes of two machines may share a number and, on NFS, a folder.
    name.push(format!(".{}.part", crate::host::process_tag()));
    let part = path.with_file_name(name);
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(source) = written.and_then(|()| fs::rename(&part, path)) {
        // The target is untouched; the useless part should not fill a disk that may be full already.
        let _ = fs::remove_file(&part);
        return Err(fail("write")(source));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Not every system lets a folder be opened; where it does, the rename is made durable.
    match File::open(folder) {
        Ok(folder) => folder.sync_all().map_err(fail("sync the folder of")),
        Err(_) => Ok(()),
    }
}

/// Reads a checkpoint for a network; every tensor must be there with the right shape, and no other.
pub fn load(path: &Path, layout: &ParamLayout) -> Result<Checkpoint, CheckpointError> {
    let bytes =
        fs::read(path).map_err(|source| CheckpointError::Io { path: path.into(), action: "read", source })?;
    parse(path, &bytes, layout)
}

/// The metadata of a checkpoint, without reading its tensors.
pub fn metadata(path: &Path) -> Result<BTreeMap<String, String>, CheckpointError> {
    const LONGEST: u64 = 100_000_000; // as the library's
    let io = |source| CheckpointError::Io { path: path.into(), action: "read", source };
    let format = |reason: &str| CheckpointError::Format { path: path.into(), reason: reason.into() };
    let mut file = File::open(path).map_err(io)?;
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(io)?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST {
        return Err(format("the header is too long"));
    }
    let mut header = Vec::new();
    file.take(length).read_to_end(&mut header).map_err(io)?;
    #[derive(serde::Deserialize)]
    struct Header {
        #[serde(rename = "__metadata__", default)]
        metadata: BTreeMap<String, String>,
    }
    let header: Header = serde_json::from_slice(&header).map_err(|e| format(&e.to_string()))?;
    Ok(header.metadata)
}

/// As [`load`], from bytes already read; `path` is for messages.
pub fn parse(path: &Path, bytes: &[u8], layout: &ParamLayout) -> Result<Checkpoint, CheckpointError> {
    let format = |reason: safetensors::SafeTensorError| CheckpointError::Format {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    };
    let file = SafeTensors::deserialize(bytes).map_err(format)?;
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(format)?;
    let mut metadata: BTreeMap<String, String> =
        header.metadata().clone().unwrap_or_default().into_iter().collect();
    let params = flat(path, &file, layout, "")?;
    let optimiser = match metadata.remove(ADAM_STEP) {
        None => None,
        Some(step) => Some(OptimiserState {
            step: number(path, ADAM_STEP, "a whole number", &step)?,
            config: adam_config(path, metadata.remove(ADAM_CONFIG))?,
            mean: flat(path, &file, layout, MEAN)?,
            square: flat(path, &file, layout, SQUARE)?,
            muon: Vec::new(),
        }),
    };
    for (name, view) in file.iter() {
        let moment =
            optimiser.is_some().then(|| name.strip_prefix(MEAN).or(name.strip_prefix(SQUARE))).flatten();
        if layout.place(moment.unwrap_or(name)).is_none() {
            return Err(CheckpointError::Foreign {
                path: path.into(),
                tensor: name.into(),
                found: describe(view.dtype(), view.shape()),
            });
        }
    }
    Ok(Checkpoint { params, optimiser, metadata })
}

/// Collects the tensors `<prefix><name>` into a flat buffer.
fn flat(
    path: &Path,
    file: &SafeTensors,
    layout: &ParamLayout,
    prefix: &str,
) -> Result<Vec<f32>, CheckpointError> {
    let mut flat = vec![0.0; layout.len()];
    for (spec, place) in layout.iter() {
        let tensor = format!("{prefix}{}", spec.name);
        let Ok(view) = file.tensor(&tensor) else {
            return Err(CheckpointError::Missing { path: path.into(), tensor, expected: spec.shape.clone() });
        };
        // Weights may be stored in half the space; moments are float32.
        let bytes = match view.dtype() {
            Dtype::F32 => 4,
            Dtype::F16 if prefix.is_empty() => 2,
            _ => 0,
        };
        if bytes == 0 || view.shape() != spec.shape || view.data().len() != bytes * place.len {
            return Err(CheckpointError::Mismatch {
                path: path.into(),
                tensor,
                expected: describe(Dtype::F32, &spec.shape),
                found: describe(view.dtype(), view.shape()),
            });
        }
        for (value, bytes) in place.of_mut(&mut flat).iter_mut().zip(view.data().chunks_exact(bytes)) {
            *value = match *bytes {
                [a, b] => half::f16::from_le_bytes([a, b]).to_f32(),
                [a, b, c, d] => f32::from_le_bytes([a, b, c, d]),
                _ => unreachable!("chunks are two or four bytes"),
            };
        }
    }
    Ok(flat)
}

fn describe(dtype: Dtype, shape: &[usize]) -> String {
    format!("{dtype:?} {shape:?}")
}

fn adam_config(path: &Path, text: Option<String>) -> Result<AdamConfig, CheckpointError> {
    const RULE: &str = "three numbers: beta1 beta2 epsilon";
    let text = text.unwrap_or_default();
    let parts: Vec<&str> = text.split(' ').collect();
    let [beta1, beta2, epsilon] = parts[..] else {
        return Err(CheckpointError::Metadata {
            path: path.into(),
            key: ADAM_CONFIG,
            expected: RULE,
            found: text,
        });
    };
    let read = |part: &str| number(path, ADAM_CONFIG, RULE, part);
    Ok(AdamConfig { beta1: read(beta1)?, beta2: read(beta2)?, epsilon: read(epsilon)? })
}

fn number<T: std::str::FromStr>(
    path: &Path,
    key: &'static str,
    expected: &'static str,
    text: &str,
) -> Result<T, CheckpointError> {
    text.parse().map_err(|_| CheckpointError::Metadata {
        path: path.into(),
        key,
        expected,
        found: format!("`{text}`"),
    })
}
