//! Read-outs in a file beside the checkpoint they belong to.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use safetensors::tensor::Dtype;

use super::fit::Fit;
use super::read::{ReadOut, ReadPoint};
use crate::error::Result;
use crate::networks::Weights;
use crate::networks::experiment::TaskSpec;
use crate::tensors;

/// Read-outs, and all that they depend on.
pub struct SavedReadOuts {
    /// Of the weights they were fitted to.
    pub checkpoint: String,
    /// The prompts they were fitted to.
    pub task: TaskSpec,
    /// Seed of those prompts.
    pub seed: u64,
    /// How they were fitted.
    pub fit: Fit,
    /// From the read-in on.
    pub read_outs: Vec<ReadOut>,
}

/// What is in the file: one tensor, and these entries of its metadata.
const TENSOR: &str = "read_outs";
const CHECKPOINT: &str = "checkpoint";
const TASK: &str = "task";
const SEED: &str = "seed";
const FIT: &str = "fit";
const VERSION: &str = "version";
/// Raised when read-outs of an older file would not be those that are fitted now.
const CURRENT: &str = "1";

/// 16 hex digits that name a network's weights on every machine.
pub fn hash(weights: &Weights) -> String {
    let network = engine::interchange::network_to_json(&weights.network);
    let values = weights.params().iter().flat_map(|value| value.to_bits().to_le_bytes());
    format!("{:016x}", engine::hash::stable_id_of(network.into_bytes().into_iter().chain(values)))
}

/// Where the read-outs of a checkpoint are kept: `readouts.safetensors` in a run, `NAME.readouts.safetensors` beside others.
pub fn beside(checkpoint: &Path) -> PathBuf {
    let stem = checkpoint.file_stem().unwrap_or_default().to_string_lossy();
    match &*stem {
        "checkpoint" => checkpoint.with_file_name("readouts.safetensors"),
        _ => checkpoint.with_file_name(format!("{stem}.readouts.safetensors")),
    }
}

impl SavedReadOuts {
    /// Writes the file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let flat: Vec<f64> = self.read_outs.iter().flat_map(ReadOut::affine).collect();
        let shape = [self.read_outs.len(), flat.len() / self.read_outs.len()];
        let entries = HashMap::from([
            (CHECKPOINT.into(), self.checkpoint.clone()),
            (TASK.into(), toml::to_string(&self.task).expect("a plain table")),
            (SEED.into(), self.seed.to_string()),
            (FIT.into(), serde_json::to_string(&self.fit).expect("plain data")),
            (VERSION.into(), CURRENT.into()),
        ]);
        tensors::write(path, &[tensors::f64s(TENSOR, &shape, &flat)], entries)
    }

    /// Reads a file; the error says in words what is wrong with it.
    pub fn read(path: &Path) -> Result<SavedReadOuts, String> {
        let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
        let (file, entries) =
            tensors::parse(&bytes).map_err(|e| format!("not a whole safetensors file: {e}"))?;
        let entry = |key: &str| entries.get(key).ok_or(format!("its metadata hold no '{key}'"));
        if entry(VERSION)? != CURRENT {
            return Err("another version of iclab wrote it".into());
        }
        let task = toml::from_str(entry(TASK)?).map_err(|e| format!("its task: {}", e.message()))?;
        let fit: Fit = serde_json::from_str(entry(FIT)?).map_err(|e| format!("how it was fitted: {e}"))?;
        let seed = entry(SEED)?.parse().map_err(|_| "its seed is not a number".to_string())?;
        let tensor = file.tensor(TENSOR).map_err(|_| format!("it has no tensor '{TENSOR}'"))?;
        let &[layers, width] = tensor.shape() else { return Err("its read-outs are not a matrix".into()) };
        if tensor.dtype() != Dtype::F64 || layers != fit.layers.len() || layers == 0 || width < 2 {
            return Err(format!(
                "its read-outs have shape [{layers}, {width}] and type {:?}",
                tensor.dtype()
            ));
        }
        let values = tensors::numbers(&tensor);
        if values.len() != layers * width || values.iter().any(|v| !v.is_finite()) {
            return Err("its read-outs are not finite numbers".into());
        }
        let point = |layer| ReadPoint::of_layer(layer, layers - 1, fit.raw);
        let read_outs = values.chunks_exact(width).enumerate();
        let read_outs = read_outs.map(|(l, affine)| ReadOut::new(affine.to_vec(), point(l))).collect();
        Ok(SavedReadOuts { checkpoint: entry(CHECKPOINT)?.clone(), task, seed, fit, read_outs })
    }

    /// Whether it has a read-out of the right width for every layer of a network.
    pub fn fits(&self, weights: &Weights) -> bool {
        let width = weights.network.width();
        self.read_outs.len() == weights.network.layers() + 1
            && self.read_outs.iter().all(|r| r.affine().len() == width + 1)
    }
}
