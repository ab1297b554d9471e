//! Two learners compared.

use std::time::Instant;

use lab::compare::between::{Between, Compared};
use lab::compare::plan::{Measure, Plan, Wish};
use lab::compare::rates::Trend;
use lab::learners::planned::Source;
use lab::learners::task::KnownTask;
use lab::learners::{Predictions, Unit};
use lab::registry::Id;
use lab::{Comparison, Error, Result, Seed, Steps};
use ndarray::Array2;
use numpy::PyReadonlyArray3;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{estimates, given, numbers, parsed, steps, triple};
use crate::calls::run;
use crate::errors::raised;
use crate::findings::Findings;
use crate::learners::Learner;
use crate::prompts::Prompts;

/// One side as Python gives it.
#[derive(FromPyObject)]
pub enum SideArg<'py> {
    /// By name.
    Name(String),
    /// One that is there.
    Learner(PyRef<'py, Learner>),
    /// What was predicted: values, steps, and a name for figures.
    Values(PyReadonlyArray3<'py, f64>, Vec<u64>, String),
}

/// A side while it is compared.
enum Side<'a> {
    Learner(&'a dyn lab::Learner, Steps),
    Values(ndarray::ArrayView3<'a, f64>, Steps, Id),
}

impl Side<'_> {
    fn compared(&self) -> Compared<'_> {
        match self {
            Side::Learner(learner, steps) => Compared::Learner(*learner, steps),
            Side::Values(values, steps, learner) => {
                let values = values.view();
                Compared::Predictions(Predictions { learner, unit: Unit::Step, steps, values })
            }
        }
    }
}

/// How to compare, from Python.
#[derive(FromPyObject)]
pub struct HowArg {
    #[pyo3(item)]
    measure: String,
    #[pyo3(item)]
    from_pairs: usize,
    #[pyo3(item)]
    queries: Option<usize>,
    #[pyo3(item)]
    seed: u64,
    #[pyo3(item)]
    steps_a: Option<String>,
    #[pyo3(item)]
    steps_b: Option<String>,
    /// First and last step of A that the rate is fitted to.
    #[pyo3(item)]
    over: Option<(u64, u64)>,
}

/// Compares two learners on prompts, or on sampled ones where only names are given.
#[pyfunction]
pub fn compare<'py>(
    py: Python<'py>,
    a: SideArg<'py>,
    b: SideArg<'py>,
    prompts: Option<PyRef<'py, Prompts>>,
    count: usize,
    how: HowArg,
) -> PyResult<Bound<'py, PyDict>> {
    let began = Instant::now();
    let found = match (&a, &b, prompts.as_deref()) {
        (SideArg::Name(a), SideArg::Name(b), None) => run(py, || by_names(a, b, count, &how))?,
        (_, _, Some(prompts)) => {
            let sides = [own(py, &a, "a", &how.steps_a, prompts)?, own(py, &b, "b", &how.steps_b, prompts)?];
            let sides = [side(&sides[0], &how.steps_a)?, side(&sides[1], &how.steps_b)?];
            run(py, || on_prompts(&sides, prompts, &how))?
        }
        _ => {
            let why = "learners that are no names have no task of their own; accepted: prompts=Prompts, those to compare on";
            return Err(crate::errors::argument(why));
        }
    };
    let found = match how.over {
        Some(over) => found.over(over),
        None => found,
    };
    as_dict(py, &found, began.elapsed().as_secs_f64(), how.seed)
}

/// As `iclab compare` does it.
fn by_names(a: &str, b: &str, count: usize, how: &HowArg) -> Result<Comparison> {
    let (mut plan, notes) = Plan::new(Wish {
        a: a.into(),
        b: b.into(),
        steps_a: parsed(how.steps_a.as_deref())?,
        steps_b: parsed(how.steps_b.as_deref())?,
        prompts: Source::Count(count),
        measure: how.measure.parse()?,
        from: how.from_pairs,
        queries: how.queries,
        task: KnownTask::default(),
        seed: how.seed,
    })?;
    Ok(plan.run(&|_| ())?.noting(notes))
}

/// What a side is made of, once its name is a learner.
enum Owned<'a> {
    Built(Learner),
    There(&'a Learner),
    Values(ndarray::ArrayView3<'a, f64>, Vec<u64>, String),
}

fn own<'a>(
    py: Python<'_>,
    side: &'a SideArg<'_>,
    argument: &str,
    steps: &Option<String>,
    prompts: &Prompts,
) -> PyResult<Owned<'a>> {
    let shape = prompts.inner.xs.dim();
    match side {
        SideArg::Name(name) => Learner::build(py, name.clone(), Some((shape.1, shape.2))).map(Owned::Built),
        SideArg::Learner(learner) => Ok(Owned::There(learner)),
        SideArg::Values(values, taken, name) => {
            let view = values.as_array();
            if view.dim() != (taken.len(), shape.0, shape.1) {
                return Err(crate::errors::argument(&format!(
                    "{argument} has shape {:?}; accepted: [steps, prompts, points] = {:?}",
                    view.dim(),
                    (taken.len(), shape.0, shape.1)
                )));
            }
            if let Some(((s, p, t), value)) = view.indexed_iter().find(|(_, v)| !v.is_finite()) {
                return Err(crate::errors::argument(&format!(
                    "{argument}[{s}, {p}, {t}] is {value}; accepted: finite predictions"
                )));
            }
            if steps.is_some() {
                let why = format!("steps_{argument} is given for an array, whose steps are all taken");
                return Err(crate::errors::argument(&format!("{why}; accepted: none")));
            }
            Ok(Owned::Values(view, taken.clone(), name.clone()))
        }
    }
}

fn side<'a>(owned: &'a Owned<'a>, wanted: &Option<String>) -> PyResult<Side<'a>> {
    let of = |learner: &'a Learner| -> Result<Side<'a>> {
        let steps = parsed(wanted.as_deref())?.unwrap_or_else(|| learner.inner.default_steps());
        Ok(Side::Learner(&*learner.inner, steps))
    };
    let made = match owned {
        Owned::Built(learner) => of(learner),
        Owned::There(learner) => of(learner),
        Owned::Values(values, steps, name) => Steps::new(steps.clone()).map(|steps| {
            Side::Values(values.view(), steps, Id { name: name.clone(), given: Default::default() })
        }),
    };
    made.map_err(raised)
}

fn on_prompts(sides: &[Side<'_>; 2], prompts: &Prompts, how: &HowArg) -> Result<Comparison> {
    let measure: Measure = how.measure.parse()?;
    let between = Between {
        sides: [sides[0].compared(), sides[1].compared()],
        measure,
        from: how.from_pairs,
        seed: Seed(how.seed),
    };
    let count = prompts.inner.count();
    let words = lab::findings::numbers::counted(count, "prompt", "prompts");
    if matches!(measure, Measure::Sime | Measure::L2e) {
        let found = between.on(&prompts.inner, &|_| ())?;
        return Ok(match &prompts.sampled {
            Some(sampled) => found.on(sampled.words(&words)),
            None => found,
        });
    }
    let Some(sampled) = &prompts.sampled else {
        let why = "induced weights need fresh queries from the distribution of the prompts, which arrays do not tell; accepted: \
                   prompts of iclab.sample, or measure 'sime' or 'l2e'";
        return Err(Error::BadData(why.into()));
    };
    let queries = how.queries.unwrap_or(10 * sampled.dim);
    let found = Between { seed: Seed(sampled.seed), ..between }.on_queries(
        &sampled.task()?,
        count,
        queries,
        &|_| (),
    )?;
    Ok(found.on(sampled.words(&words)))
}

fn as_dict<'py>(
    py: Python<'py>,
    found: &Comparison,
    seconds: f64,
    seed: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let (map, matching) = (&found.map, &found.matching);
    let dict = PyDict::new(py);
    dict.set_item("a", found.names().0)?;
    dict.set_item("b", found.names().1)?;
    dict.set_item("unit_a", map.a.unit.one())?;
    dict.set_item("unit_b", map.b.unit.one())?;
    dict.set_item("measure", map.label)?;
    dict.set_item("steps_a", steps(py, &map.a.steps))?;
    dict.set_item("steps_b", steps(py, &map.b.steps))?;
    dict.set_item("similarity", given(py, map.mean.clone()))?;
    dict.set_item("per_prompt", given(py, map.per_prompt.clone()))?;
    let none = f64::NAN;
    dict.set_item("best", numbers(py, found.best_steps()))?;
    dict.set_item("best_similarity", numbers(py, matching.similarity.clone()))?;
    let intervals = matching.step_intervals();
    let flat = intervals.iter().flat_map(|i| i.map_or([none; 2], |(low, high)| [low as f64, high as f64]));
    let flat = Array2::from_shape_vec((intervals.len(), 2), flat.collect()).expect("two each");
    dict.set_item("intervals", given(py, flat))?;
    let optima: Vec<_> = (0..matching.best.len()).map(|i| matching.optimum(i)).collect();
    dict.set_item("interpolated", estimates(py, &optima))?;
    dict.set_item("floor", found.floor)?;
    dict.set_item("prompts", map.prompts())?;
    let fit = found.rate().ok().map(|fit| -> PyResult<_> {
        let rate = PyDict::new(py);
        let trend = |trend: Trend| match trend {
            Trend::Linear => "linear",
            Trend::Exponential => "exponential",
        };
        rate.set_item("settled", fit.settled().map(trend))?;
        rate.set_item("preferred", trend(fit.trend))?;
        rate.set_item("linear", triple(fit.per_step(Trend::Linear)))?;
        rate.set_item("exponential", triple(fit.per_step(Trend::Exponential)))?;
        rate.set_item("evidence_linear", triple(fit.evidence(Trend::Linear)))?;
        rate.set_item("evidence_exponential", triple(fit.evidence(Trend::Exponential)))?;
        rate.set_item("points", fit.points.clone())?;
        rate.set_item("words", fit.words(map.a.unit.one()))?;
        Ok(rate)
    });
    dict.set_item("fit", fit.transpose()?)?;
    dict.set_item("no_fit", found.rate().err())?;
    dict.set_item("text", found.to_string())?;
    let inner = lab::findings::Findings { seconds, ..found.findings() };
    dict.set_item("findings", Py::new(py, Findings { inner, about: (map.prompts(), seed) })?)?;
    Ok(dict)
}
