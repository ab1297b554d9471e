//! The private module `iclab._iclab` behind the Python package `iclab`.
//!
//! Thin over `lab`: nothing is computed here. Arrays cross without a copy where they are float64 and contiguous, everything
//! else as plain data; the Python package gives it names and types.
//!
//! ```text
//! calls: the interpreter let go, Ctrl-C heard, panics kept in     errors: the exceptions     arrays: NumPy and back
//! prompts, learners, comparison, fingerprint, patching, states, body (a module of PyTorch), construction, training, reproduction
//! findings: figures, tables and claims of any of them             command: the command line
//! ```

mod arrays;
mod body;
mod calls;
mod command;
mod comparison;
mod construction;
mod errors;
mod findings;
mod fingerprint;
mod learners;
mod patching;
mod prompts;
mod reproduction;
mod states;
mod training;

use pyo3::prelude::*;

/// What the package is made of.
#[pymodule]
mod _iclab {
    #[pymodule_export]
    use crate::body::{fit_body, load_state};
    #[pymodule_export]
    use crate::command::{command, embed};
    #[pymodule_export]
    use crate::comparison::compare;
    #[pymodule_export]
    use crate::construction::construct;
    #[pymodule_export]
    use crate::findings::Findings;
    #[pymodule_export]
    use crate::fingerprint::fingerprint;
    #[pymodule_export]
    use crate::learners::{Learner, probe};
    #[pymodule_export]
    use crate::patching::patch;
    #[pymodule_export]
    use crate::prompts::Prompts;
    #[pymodule_export]
    use crate::reproduction::{analyses, reproduce};
    #[pymodule_export]
    use crate::states::states;
    #[pymodule_export]
    use crate::training::train;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
