//! What can go wrong when a network is built or fed.

use thiserror::Error;

/// A shape or setting that does not fit the network.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EngineError {
    /// A buffer handed in has the wrong number of values.
    #[error("{what} has {found} values, but {expected} are needed ({shape})")]
    Length {
        /// Which buffer.
        what: &'static str,
        /// Values needed.
        expected: usize,
        /// Values found.
        found: usize,
        /// The shape in words.
        shape: String,
    },
    /// A network configuration that cannot be built.
    #[error("network config: {field} = {value}, but {rule}")]
    Config {
        /// The field at fault.
        field: &'static str,
        /// Its value.
        value: usize,
        /// What would be accepted.
        rule: String,
    },
    /// Something the chosen network or mode does not offer.
    #[error("{0}")]
    Unsupported(String),
}

/// Checks the number of values in a buffer.
pub(crate) fn check_len(
    what: &'static str,
    found: usize,
    expected: usize,
    shape: impl FnOnce() -> String,
) -> Result<(), EngineError> {
    if found == expected {
        return Ok(());
    }
    Err(EngineError::Length { what, expected, found, shape: shape() })
}
