//! Weights that are an algorithm.

use std::path::PathBuf;

use lab::constructions::{Constructed, Start, Variant, Wish, file, make, picture};
use lab::findings::Findings as LabFindings;
use lab::{Error, Seed};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::calls::run;
use crate::findings::{Findings, json_text};
use crate::learners::Learner;

/// What is wished for, from Python.
#[derive(FromPyObject)]
pub struct WishArg {
    #[pyo3(item)]
    variant: String,
    #[pyo3(item)]
    iterations: usize,
    #[pyo3(item)]
    dim: usize,
    #[pyo3(item)]
    points: usize,
    #[pyo3(item)]
    step: Option<f64>,
    #[pyo3(item)]
    inputs: String,
    #[pyo3(item)]
    seed: u64,
    #[pyo3(item)]
    out: Option<PathBuf>,
}

/// Every construction by its name in Python.
const VARIANTS: [(&str, Variant); 8] = [
    ("compact", Variant::Compact(Start::Gram)),
    ("compact-identity", Variant::Compact(Start::Identity)),
    ("paper", Variant::Paper),
    ("printed", Variant::Printed),
    ("causal", Variant::Causal),
    ("residual", Variant::Residual),
    ("gd", Variant::Gd),
    ("gd++", Variant::GdPlusPlus),
];

/// Builds a Transformer whose weights are an algorithm, and compares it with that.
#[pyfunction]
pub fn construct<'py>(py: Python<'py>, wish: WishArg) -> PyResult<(Learner, Bound<'py, PyDict>)> {
    let made = run(py, || {
        let variant = VARIANTS.iter().find(|(name, _)| *name == wish.variant).map(|(_, variant)| *variant);
        let variant =
            variant.ok_or_else(|| Error::BadData(format!("variant '{}' is unknown", wish.variant)))?;
        let made = make(
            &Wish {
                variant,
                iterations: wish.iterations,
                dim: wish.dim,
                pairs: wish.points,
                step: wish.step,
                inputs: wish.inputs.clone(),
                seed: Seed(wish.seed),
            },
            &|_| (),
        )?;
        if let Some(path) = &wish.out {
            file::write(path, &made.construction, &made.readme)?;
        }
        Ok(made)
    })?;
    let figure = picture::picture("weights", &made.construction);
    let inner = LabFindings {
        analysis: "construct".into(),
        title: figure.title.clone(),
        summary: made.summary(),
        figures: vec![figure],
        ..LabFindings::default()
    };
    let about = PyDict::new(py);
    about.set_item("algorithm", made.algorithm.clone())?;
    about.set_item("deviation", made.deviation)?;
    about.set_item("layers", made.construction.transformer.layers.len())?;
    about.set_item("width", made.construction.transformer.width())?;
    about.set_item("json", json_text(&made.record()))?;
    about.set_item("readme", made.readme.clone())?;
    about.set_item("findings", Py::new(py, Findings { inner, about: (0, wish.seed) })?)?;
    let name = format!("{} ({})", made.algorithm, wish.variant);
    Ok((Learner::new(Constructed::new(name, made.construction), Vec::new()), about))
}
