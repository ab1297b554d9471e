//! Errors of the laboratory as exceptions of the package: `iclab.Error`, and `iclab.ArgumentError` for what was given.

use engine::text::plain;
use lab::Error;
use pyo3::prelude::*;

/// The exception for an error of the laboratory, with its one sentence.
pub fn raised(error: Error) -> PyErr {
    match error {
        Error::UnknownName { .. }
        | Error::UnknownSetting { .. }
        | Error::BadSetting { .. }
        | Error::BadSteps { .. }
        | Error::BadData(_)
        | Error::Unsupported { .. } => argument(&error.to_string()),
        other => exception("Error", &other.to_string()),
    }
}

/// The exception for arguments.
pub fn argument(sentence: &str) -> PyErr {
    exception("ArgumentError", sentence)
}

/// The exception for everything else.
pub fn failed(sentence: &str) -> PyErr {
    exception("Error", sentence)
}

fn exception(class: &str, sentence: &str) -> PyErr {
    Python::attach(|py| {
        let made =
            py.import("iclab._errors").and_then(|module| module.getattr(class)?.call1((plain(sentence),)));
        made.map_or_else(|error| error, PyErr::from_value)
    })
}
