//! Findings of any kind: figures, tables, claims.

use std::path::PathBuf;

use lab::findings::Figure;
use pyo3::prelude::*;
use report::About;
use serde_json::Value;

use crate::errors::{argument, failed};

/// What was found, as a page shows it.
#[pyclass(frozen, module = "iclab._iclab")]
pub struct Findings {
    pub inner: lab::findings::Findings,
    /// Prompts and seed, for the page.
    pub about: (usize, u64),
}

/// Id, title, caption.
type Head = (String, String, String);

impl Findings {
    fn figure_of(&self, id: &str) -> PyResult<&Figure> {
        let figures = &self.inner.figures;
        figures.iter().find(|figure| figure.id == id).ok_or_else(|| {
            let ids: Vec<&str> = figures.iter().map(|figure| &*figure.id).collect();
            argument(&format!("there is no figure '{id}'; accepted: {}", ids.join(", ")))
        })
    }
}

#[pymethods]
impl Findings {
    #[getter]
    fn analysis(&self) -> &str {
        &self.inner.analysis
    }

    #[getter]
    fn title(&self) -> &str {
        &self.inner.title
    }

    #[getter]
    fn summary(&self) -> &str {
        &self.inner.summary
    }

    #[getter]
    fn answer(&self) -> String {
        match self.inner.answer.is_empty() {
            true => lab::findings::answer(&self.inner.claims),
            false => self.inner.answer.clone(),
        }
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.inner.notes.clone()
    }

    #[getter]
    fn seconds(&self) -> f64 {
        self.inner.seconds
    }

    /// Id, title and caption of each figure.
    #[getter]
    fn figures(&self) -> Vec<Head> {
        self.inner.figures.iter().map(|f| (f.id.clone(), f.title.clone(), f.caption.clone())).collect()
    }

    /// Id, title, caption, columns and rows of each table.
    #[getter]
    fn tables(&self) -> Vec<(Head, Vec<String>, Vec<Vec<String>>)> {
        let tables = self.inner.tables.iter();
        tables
            .map(|t| ((t.id.clone(), t.title.clone(), t.caption.clone()), t.columns.clone(), t.rows.clone()))
            .collect()
    }

    /// Its claims as JSON.
    #[getter]
    fn claims(&self) -> String {
        serde_json::to_string(&self.inner.claims).expect("plain data")
    }

    /// A figure as SVG.
    fn svg(&self, py: Python<'_>, id: &str) -> PyResult<String> {
        let figure = self.figure_of(id)?;
        Ok(py.detach(|| report::figure_svg(figure)))
    }

    /// A figure as PNG.
    fn png(&self, py: Python<'_>, id: &str, scale: f32) -> PyResult<Vec<u8>> {
        let figure = self.figure_of(id)?;
        py.detach(|| report::figure_png(figure, scale)).map_err(|error| failed(&error.to_string()))
    }

    /// The numbers of a figure as CSV.
    fn csv(&self, id: &str) -> PyResult<String> {
        Ok(report::figure_csv(self.figure_of(id)?))
    }

    /// Writes a page with all of it.
    fn save(&self, py: Python<'_>, directory: PathBuf) -> PyResult<PathBuf> {
        let found = &self.inner;
        let about = About {
            title: found.title.clone(),
            purpose: found.summary.clone(),
            notes: found.notes.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            command: format!("iclab.{} in Python", found.analysis),
            seconds: found.seconds,
            prompts: self.about.0,
            seed: self.about.1,
            ..About::default()
        };
        py.detach(|| report::write(std::slice::from_ref(found), &about, &directory))
            .map_err(|error| failed(&error.to_string()))?;
        Ok(directory.join("index.html"))
    }
}

/// JSON as text; what is not a number is null.
pub fn json_text(value: &Value) -> String {
    value.to_string()
}
