//! What can go wrong at the edge. Each message names the file, the field, the value and what would be accepted.

use std::path::PathBuf;

/// Errors of the command line; all of them exit with code 2.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// From the laboratory, files and their contents included.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// From the report.
    #[error(transparent)]
    Report(#[from] report::Error),
    /// Arguments that do not go together.
    #[error("{0}")]
    Usage(String),
}

/// Result of a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
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
