//! What can go wrong at the edge. Each message names the file, the field, the value and what would be accepted.

use std::path::PathBuf;

/// Why a command did not do what it was asked: an interruption exits with code 130, everything else with 2.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// From the laboratory, files and their contents included.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// From the report.
    #[error(transparent)]
    Report(#[from] report::Error),
    /// It was asked to stop, and saved what was done; what is left, and how to go on.
    #[error("{0}")]
    Interrupted(String),
    /// A device failed that some work was left to; which work.
    #[error("{0}")]
    DeviceFailed(String),
    /// A process that did the work ended so.
    #[error("exit code {0}")]
    Ended(u8),
    /// Arguments that do not go together.
    #[error("{0}")]
    Usage(String),
}

/// Result of a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether a device failed: the same work may be done by another process.
    pub fn is_of_device(&self) -> bool {
        match self {
            Error::DeviceFailed(_) => true,
            Error::Lab(error) => error.is_of_device(),
            _ => false,
        }
    }

    /// For `map_err` on file operations.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let failed = lab::Error::file(action, path);
        move |source| failed(source).into()
    }

    /// A file whose content is wrong.
    pub fn content(path: impl Into<PathBuf>, why: impl Into<String>) -> Error {
        lab::Error::content(path, why).into()
    }
}
