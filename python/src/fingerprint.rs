//! Spectral fingerprints.

use std::time::Instant;

use lab::fingerprint::plan::{Plan, Wish};
use lab::fingerprint::shown::Identified;
use lab::fingerprint::{AfterPairs, ReturnMap, Scale};
use lab::learners::planned::Source;
use lab::learners::task::KnownTask;
use lab::stats::Estimate;
use lab::{Error, Result};
use ndarray::{Array2, Array3};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{estimates, given, numbers, parsed, steps, triple};
use crate::calls::run;
use crate::findings::{Findings, json_text};
use crate::learners::Learner;
use crate::prompts::Prompts;

/// Whose.
#[derive(FromPyObject)]
pub enum WhoseArg<'py> {
    /// By name.
    Name(String),
    /// One that is there.
    Learner(PyRef<'py, Learner>),
}

/// How it is taken, from Python.
#[derive(FromPyObject)]
pub struct HowArg {
    #[pyo3(item)]
    against: Vec<String>,
    #[pyo3(item)]
    steps: Option<String>,
    #[pyo3(item)]
    pairs: Vec<usize>,
    #[pyo3(item)]
    queries: Option<usize>,
    #[pyo3(item)]
    knots: usize,
    #[pyo3(item)]
    unit: String,
    #[pyo3(item)]
    seed: u64,
}

/// Takes the fingerprint of a learner and names it.
#[pyfunction]
pub fn fingerprint<'py>(
    py: Python<'py>,
    learner: WhoseArg<'py>,
    prompts: Option<PyRef<'py, Prompts>>,
    count: Option<usize>,
    how: HowArg,
) -> PyResult<Bound<'py, PyDict>> {
    let began = Instant::now();
    let prompts = prompts.as_deref();
    let (found, json, seed) = match &learner {
        WhoseArg::Name(name) => run(py, || taken(None, name.clone(), prompts, count, &how))?,
        WhoseArg::Learner(learner) => {
            let learner = &**learner;
            run(py, || taken(Some(&*learner.inner), learner.inner.id().to_string(), prompts, count, &how))?
        }
    };
    as_dict(py, &found, json, began.elapsed().as_secs_f64(), seed)
}

fn taken(
    there: Option<&dyn lab::Learner>,
    learner: String,
    prompts: Option<&Prompts>,
    count: Option<usize>,
    how: &HowArg,
) -> Result<(Identified, String, u64)> {
    let unit = match &*how.unit {
        "auto" => None,
        name => Some(unit_of(name)?),
    };
    let sampled = prompts.and_then(|prompts| prompts.sampled.clone());
    let count = prompts.map_or(count, |prompts| Some(prompts.inner.count()));
    let seed = sampled.as_ref().map_or(how.seed, |sampled| sampled.seed);
    let task = match (&sampled, prompts) {
        (Some(sampled), _) => sampled.spec().into(),
        (None, Some(prompts)) => KnownTask {
            dim: Some(prompts.inner.dim()),
            points: Some(prompts.inner.points()),
            ..KnownTask::default()
        },
        (None, None) => KnownTask::default(),
    };
    let wish = Wish {
        learner,
        steps: parsed(how.steps.as_deref())?,
        against: how.against.clone(),
        pairs: how.pairs.clone(),
        prompts: count.map(Source::Count),
        queries: how.queries,
        knots: how.knots,
        unit,
        task,
        seed,
    };
    let (mut plan, notes) = if there.is_some() { Plan::of_unnamed(wish)? } else { Plan::new(wish)? };
    // sampled prompts are sampled again with their queries
    let given = prompts.filter(|_| sampled.is_none()).map(|prompts| (*prompts.inner).clone());
    let mut found = match there {
        Some(learner) => plan.run_on(learner, given, &|_| ())?,
        None if given.is_none() => plan.run(&|_| ())?,
        None => {
            let built = lab::learners::build_for(&plan.learner, Some(&plan.task.spec()), &|_| ())?;
            let mut found = plan.run_on(&*built.learner, given, &|_| ())?;
            found.notes.splice(0..0, built.notes);
            found
        }
    };
    found.notes.splice(0..0, notes);
    let json = json_text(&found.json(&plan));
    Ok((found, json, seed))
}

fn unit_of(name: &str) -> Result<Scale> {
    let known = Scale::ALL.iter().find(|(_, other, _)| *other == name);
    known.map(|(scale, ..)| *scale).ok_or_else(|| {
        let names: Vec<&str> = Scale::ALL.iter().map(|(_, name, _)| *name).collect();
        Error::BadData(format!("unit '{name}' is unknown; accepted: auto, {}", names.join(", ")))
    })
}

fn as_dict<'py>(
    py: Python<'py>,
    found: &Identified,
    json: String,
    seconds: f64,
    seed: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let taken = &found.fingerprint;
    let dict = PyDict::new(py);
    dict.set_item("learner", lab::solvers::label(&taken.learner))?;
    dict.set_item("unit", taken.unit.one())?;
    dict.set_item("steps", steps(py, &taken.steps))?;
    dict.set_item("prompts", taken.prompts)?;
    dict.set_item("names", found.naming.names())?;
    dict.set_item("informative", found.naming.informative.clone())?;
    let candidates = found.naming.candidates.iter();
    let candidates =
        candidates.map(|c| (c.name.clone(), triple(c.score), c.tied, c.steps.clone(), c.left.clone()));
    dict.set_item("candidates", candidates.collect::<Vec<_>>())?;
    let after: PyResult<Vec<_>> = taken.lengths.iter().map(|after| length(py, after)).collect();
    dict.set_item("after", after?)?;
    dict.set_item("json", json)?;
    let inner = lab::findings::Findings { seconds, ..found.findings() };
    dict.set_item("findings", Py::new(py, Findings { inner, about: (taken.prompts, seed) })?)?;
    Ok(dict)
}

fn length<'py>(py: Python<'py>, after: &AfterPairs) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let (count, knots) = (after.filters.len(), after.knots.count());
    dict.set_item("pairs", after.pairs)?;
    dict.set_item("eigenvalues", numbers(py, after.knots.values.clone()))?;
    let filters = |of: fn(&Estimate) -> f64| {
        Array2::from_shape_vec((count, knots), after.filters.iter().flatten().map(of).collect())
            .expect("a row per step")
    };
    let ends = [filters(|f| f.value), filters(|f| f.low), filters(|f| f.high)];
    let stacked = Array3::from_shape_fn((count, knots, 3), |(s, k, i)| ends[i][[s, k]]);
    dict.set_item("filters", given(py, stacked))?;
    dict.set_item("remaining", estimates(py, &after.remaining))?;
    dict.set_item("unexplained", estimates(py, &after.unexplained))?;
    let shapes: Vec<_> =
        after.shapes.iter().map(|shape| shape.map_or(Estimate::NONE, |shape| shape.exponent)).collect();
    dict.set_item("exponents", estimates(py, &shapes))?;
    let maps = |of: fn(&ReturnMap) -> Estimate| -> Vec<_> {
        after.maps.iter().map(|map| map.map_or(Estimate::NONE, |map| of(&map))).collect()
    };
    dict.set_item("map_a", estimates(py, &maps(|map| map.a)))?;
    dict.set_item("map_b", estimates(py, &maps(|map| map.b)))?;
    dict.set_item("order", estimates(py, &maps(|map| map.order)))?;
    dict.set_item("exponent", triple(after.overall.exponent))?;
    dict.set_item("a", triple(after.overall.a))?;
    dict.set_item("b", triple(after.overall.b))?;
    dict.set_item("iterations", triple(after.overall.iterations))?;
    Ok(dict)
}
