//! What can be wrong with a foreign file.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::model::checkpoint::CheckpointError;

/// Names shown in a message before the rest is only counted.
const SHOWN: usize = 6;

/// What is wrong with a file of another program, or with what is asked of it.
#[derive(Debug, Error)]
pub enum InterchangeError {
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
    /// The bytes are not of a kind that can be read.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What was found, and what would be accepted.
        reason: String,
    },
    /// The pickle inside a PyTorch checkpoint is damaged or beyond the limits.
    #[error("{}: the pickle inside cannot be read at byte {offset}: {reason}", path.display())]
    Pickle {
        /// The file.
        path: PathBuf,
        /// Where in the pickle.
        offset: usize,
        /// What was found.
        reason: String,
    },
    /// A tensor is not what the network needs, or does not fit its bytes.
    #[error("{}: tensor `{tensor}` should be {expected}, but it is {found}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// What would be accepted.
        expected: String,
        /// What was found.
        found: String,
    },
    /// Tensors that are missing, and tensors that do not belong to the network.
    #[error("{}: {}", path.display(), names(missing, unexpected))]
    Names {
        /// The file.
        path: PathBuf,
        /// Tensors that the network needs and the file does not have, by the engine's names.
        missing: Vec<String>,
        /// Tensors that the file has and the network does not know, by the file's names.
        unexpected: Vec<String>,
    },
    /// A network that cannot be built.
    #[error("network config: field `{field}`: {rule}")]
    Config {
        /// The field at fault.
        field: &'static str,
        /// What is wrong with it.
        rule: String,
    },
    /// Something that the other format cannot express.
    #[error("{0}")]
    Unsupported(String),
    /// From the engine's own checkpoints.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

impl InterchangeError {
    /// For `map_err` on file operations.
    pub(super) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_path_buf(), action, source }
    }

    /// A file of the wrong kind.
    pub(super) fn format(path: &Path, reason: impl Into<String>) -> Self {
        Self::Format { path: path.to_path_buf(), reason: reason.into() }
    }

    /// For `map_err` on the crate that reads safetensors.
    pub(super) fn damaged(path: &Path) -> impl Fn(safetensors::SafeTensorError) -> Self {
        move |reason| Self::format(path, format!("not a whole safetensors file: {reason}"))
    }

    /// A tensor at fault.
    pub(super) fn tensor(
        path: &Path,
        tensor: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Tensor {
            path: path.to_path_buf(),
            tensor: short(tensor),
            expected: expected.into(),
            found: found.into(),
        }
    }
}

/// A name from a file, cut to a length that a sentence bears.
pub(super) fn short(name: &str) -> String {
    let mut text: String = name.chars().filter(|c| !c.is_control()).take(120).collect();
    if text.len() < name.len() {
        text.push('…');
    }
    text
}

fn listed(list: &[String]) -> String {
    let shown: Vec<String> = list.iter().take(SHOWN).map(|name| format!("`{}`", short(name))).collect();
    match list.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn names(missing: &[String], unexpected: &[String]) -> String {
    let mut parts = Vec::new();
    for (what, list) in [("missing", missing), ("not of this network", unexpected)] {
        if !list.is_empty() {
            let plural = if list.len() == 1 { "tensor" } else { "tensors" };
            parts.push(format!("{plural} {what}: {}", listed(list)));
        }
    }
    parts.join("; ")
}
