//! The paper's statements, measured.

use std::path::PathBuf;

use lab::analyses::reproduction::{CACHE, Cache, Digests, Measuring, PROMPTS, Reproduction};
use lab::analyses::{ANALYSES, select};
use lab::networks::models;
use pyo3::prelude::*;

use crate::calls::run;
use crate::findings::Findings;

/// Measures analyses, or remembers them.
#[pyfunction]
pub fn reproduce(
    py: Python<'_>,
    only: Vec<String>,
    prompts: Option<u32>,
    seed: u64,
    folder: Option<PathBuf>,
    cache: Option<PathBuf>,
    fresh: bool,
) -> PyResult<Vec<Findings>> {
    let found = run(py, || {
        let reproduction = Reproduction {
            root: folder.unwrap_or_else(models::folder),
            prompts: prompts.unwrap_or(PROMPTS),
            seed,
            ..Reproduction::default()
        };
        let lab = reproduction.lab(|_| ())?;
        let (selected, _) = reproduction.runnable(select(&only)?, !only.is_empty(), &lab)?;
        let cache = Cache::under(&cache.unwrap_or_else(|| CACHE.into()));
        let mut measuring = Measuring { lab, cache, fresh, digests: Digests::of(reproduction.models()?) };
        Ok(measuring.run(&selected, |_| true, |_, _| Ok::<(), lab::Error>(()))?.findings)
    })?;
    let about = (prompts.unwrap_or(PROMPTS) as usize, seed);
    Ok(found.into_iter().map(|inner| Findings { inner, about }).collect())
}

/// Id, title and networks of every analysis.
#[pyfunction]
pub fn analyses() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    ANALYSES.iter().map(|a| (a.id, a.title, a.needs.to_vec())).collect()
}
