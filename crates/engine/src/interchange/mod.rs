//! Files of other programs: PyTorch checkpoints in, Hugging Face safetensors out and in again.
//!
//! Nothing here trusts a file. A pickle is read as data, never executed; sizes are checked against the bytes that
//! are really there before anything is allocated; what goes wrong is an [`InterchangeError`] that names the file.

mod archive;
mod config;
mod error;
pub mod hf;
mod hub;
mod names;
mod pickle;
pub mod pt;
mod shards;
mod tensor;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use safetensors::SafeTensors;

pub use archive::open_zip;
pub use config::{Architecture, NETWORK, network_from_json, network_to_json};
pub use error::InterchangeError;
pub use names::DEFAULT_HEADS;
pub use shards::ByteSize;

use crate::model::checkpoint;
use crate::model::networks::Network;

/// The metadata entry that holds the number of steps taken.
const STEP: &str = "step";

/// A network read from a file of another program.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// Sizes and variants.
    pub network: Network,
    /// The flat parameter buffer.
    pub params: Vec<f32>,
    /// Steps taken in training, if the file says.
    pub step: Option<u64>,
    /// Tensors of the file that no network needs, by the file's names.
    pub dropped: Vec<String>,
    /// Whether neither the file nor the caller said how many heads there are.
    pub heads_assumed: bool,
}

/// Reads a PyTorch checkpoint, a safetensors file, or a folder (or index) of sharded safetensors.
///
/// Weights do not show the number of heads: it is what the file states, else `heads`, else [`DEFAULT_HEADS`].
pub fn import(path: &Path, heads: Option<usize>) -> Result<Imported, InterchangeError> {
    if path.is_dir() || path.extension().is_some_and(|end| end == "json") {
        return hf::read(path, heads);
    }
    let mut file = File::open(path).map_err(InterchangeError::io(path, "read"))?;
    let mut start = Vec::new();
    file.by_ref().take(9).read_to_end(&mut start).map_err(InterchangeError::io(path, "read"))?;
    // safetensors: the length of a JSON header, then the header.
    match start.get(8) {
        Some(b'{') => hf::read(path, heads),
        _ => pt::read(path, heads),
    }
}

/// Writes a model as a checkpoint of weights alone, with its network and its step in the metadata beside `entries`.
pub fn save_model(
    path: &Path,
    model: &Imported,
    entries: impl IntoIterator<Item = (String, String)>,
) -> Result<(), InterchangeError> {
    let mut metadata: BTreeMap<String, String> = entries.into_iter().collect();
    metadata.insert(NETWORK.into(), network_to_json(&model.network));
    metadata.extend(model.step.map(|step| (STEP.into(), step.to_string())));
    if path.is_dir() {
        return Err(InterchangeError::format(path, "it is a folder; accepted: the name of a file"));
    }
    Ok(checkpoint::save(path, &model.network.layout(), &model.params, None, &metadata)?)
}

/// Reads the weights of a checkpoint whose metadata name the network, as training and import write it.
pub fn load_model(path: &Path) -> Result<Imported, InterchangeError> {
    let bytes = fs::read(path).map_err(InterchangeError::io(path, "read"))?;
    let (_, header) = SafeTensors::read_metadata(&bytes).map_err(InterchangeError::damaged(path))?;
    let Some(json) = header.metadata().as_ref().and_then(|entries| entries.get(NETWORK)) else {
        let reason = format!(
            "its metadata hold no `{NETWORK}`; accepted: a checkpoint of iclab train or iclab import"
        );
        return Err(InterchangeError::format(path, reason));
    };
    let network =
        network_from_json(json).map_err(|error| InterchangeError::format(path, error.to_string()))?;
    // Weights take at least two bytes each.
    if config::parameters(&network).is_none_or(|count| count * 2 > bytes.len() as u128) {
        let reason =
            format!("the file is too small for the network that it names: {}", network_to_json(&network));
        return Err(InterchangeError::format(path, reason));
    }
    let read = checkpoint::parse(path, &bytes, &network.layout())?;
    let written = read.metadata.get(STEP).and_then(|step| step.parse().ok());
    let step = read.optimiser.map(|state| state.step).or(written);
    Ok(Imported { network, params: read.params, step, dropped: Vec::new(), heads_assumed: false })
}
