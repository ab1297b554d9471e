//! Files of other programs: PyTorch checkpoints in, Hugging Face safetensors out and in again.
//!
//! Nothing here trusts a file. A pickle is read as data, never executed; sizes are checked against the bytes that
//! are really there before anything is allocated; what goes wrong is an [`InterchangeError`] that names the file.

mod archive;
mod config;
mod error;
pub mod hf;
mod names;
mod own;
mod pickle;
pub mod pt;
mod shards;
mod size;
mod tensor;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use config::{Architecture, NETWORK, network_from_json, network_to_json};
pub use error::InterchangeError;
pub use names::DEFAULT_HEADS;
pub use own::{load_model, save_model};
pub use size::ByteSize;

use crate::model::networks::Network;

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
