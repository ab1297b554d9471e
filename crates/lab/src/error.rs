//! What can go wrong in the lab, as a type. A message names what was given and what would be accepted.

use engine::cuda::CudaError;
use engine::names::close;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name that is not in a registry.
    #[error("unknown {kind} '{name}'; {hint}")]
    UnknownName {
        /// `solver`, `function`, `inputs`, `analysis`.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// Close names, or all of them.
        hint: String,
    },
    /// A setting that the named row does not have.
    #[error("'{row}' has no setting '{setting}'; {hint}")]
    UnknownSetting {
        /// Registry row.
        row: String,
        /// What was asked for.
        setting: String,
        /// The settings it has.
        hint: String,
    },
    /// A setting with a value that makes no sense.
    #[error("setting '{setting}' of '{row}' is '{value}'; accepted: {accepted}")]
    BadSetting {
        /// Registry row.
        row: String,
        /// Setting name.
        setting: String,
        /// The value given.
        value: String,
        /// What would be accepted.
        accepted: String,
    },
    /// Text that cannot be read as steps, or steps the learner cannot take.
    #[error(
        "steps '{text}': {why}; accepted: a number, a list '1,50,100', ranges '0..=24' or '50..=1300/50', powers 'pow2:0..=12'"
    )]
    BadSteps {
        /// The text given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// Data of a shape or content that the operation cannot use.
    #[error("{0}")]
    BadData(String),
    /// A file or directory could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read`, `write`, `create`.
        action: &'static str,
        /// Which one.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: {why}", path.display())]
    Content {
        /// Which one.
        path: std::path::PathBuf,
        /// What is wrong and what would be accepted.
        why: String,
    },
    /// From the engine: a shape that a network cannot have.
    #[error(transparent)]
    Engine(#[from] engine::EngineError),
    /// From a checkpoint file.
    #[error(transparent)]
    Checkpoint(#[from] engine::model::checkpoint::CheckpointError),
    /// From a CUDA device: missing, or failed.
    #[error(transparent)]
    Cuda(#[from] engine::cuda::CudaError),
    /// Training went wrong in a way that no further step can mend.
    #[error("{0}")]
    Training(String),
    /// A run that another process is training.
    #[error("{}: another process is training this run", .0.display())]
    Busy(std::path::PathBuf),
    /// A learner cannot do what was asked (a file of predictions cannot answer new queries).
    #[error("{learner} cannot {action}: {why}")]
    Unsupported {
        /// Which learner.
        learner: String,
        /// What was asked.
        action: &'static str,
        /// Why not.
        why: &'static str,
    },
}

/// Result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// "did you mean …" for a name, from the names there are; all of them when none is close.
pub fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let close = close(name, known.clone());
    if close.is_empty() {
        let all: Vec<&str> = known.collect();
        return if all.is_empty() { "it has none".into() } else { format!("known: {}", all.join(", ")) };
    }
    format!("did you mean {}?", close.join(" or "))
}

impl Error {
    /// Whether a CUDA device or its driver failed at work that it had taken on.
    pub fn is_of_device(&self) -> bool {
        matches!(self, Error::Cuda(CudaError::Driver { .. } | CudaError::Blas { .. }))
    }

    /// For `map_err` on file operations.
    pub fn file(
        action: &'static str,
        path: impl Into<std::path::PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { action, path, source }
    }

    /// A file whose content is wrong.
    pub fn content(path: impl Into<std::path::PathBuf>, why: impl Into<String>) -> Error {
        Error::Content { path: path.into(), why: why.into() }
    }

    /// What TOML refuses of a file's text, with the line.
    pub fn toml(path: &std::path::Path, text: &str, refused: &toml::de::Error) -> Error {
        let before = |span: std::ops::Range<usize>| text.as_bytes().iter().take(span.start);
        let line = refused.span().map_or(0, |span| before(span).filter(|byte| **byte == b'\n').count());
        let words = text.lines().nth(line).unwrap_or_default().trim();
        let why = format!("{} (line {}: '{words}')", refused.message(), line + 1);
        Error::Content { path: path.into(), why }
    }
}
