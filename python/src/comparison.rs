//! Two learners compared.

use std::sync::Arc;
use std::time::Instant;

use lab::compare::between::{Between, Compared};
use lab::compare::plan::{Measure, Plan, Wish};
use lab::compare::rates::Trend;
use lab::learners::planned::Source;
use lab::learners::task::KnownTask;
use lab::learners::{Predictions, Unit};
use lab::registry::Id;
use lab::{Comparison, Error, Result, Seed, Steps};
use ndarray::{Array2, ArrayView3};
use numpy::PyReadonlyArray3;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{estimates, given, numbers, parsed, steps, triple};
use crate::calls::run;
use crate::errors::{argument, raised};
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
    Learner(Arc<dyn lab::Learner>, Steps),
    Values(ArrayView3<'a, f64>, Steps, Id),
}

impl Side<'_> {
    fn compared(&self) -> Compared<'_> {
        match self {
            Side::Learner(learner, steps) => Compared::Learner(&**learner, steps),
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
            let sides =
                [side(py, &a, "a", &how.steps_a, prompts)?, side(py, &b, "b", &how.steps_b, prompts)?];
            run(py, || on_prompts(&sides, prompts, &how))?
        }
        _ => {
            let why = "learners that are no names have no task of their own; accepted: prompts=Prompts, those to compare on";
            return Err(argument(why));
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

/// A side as it is given; arrays stay where they lie.
fn side<'a>(
    py: Python<'_>,
    given: &'a SideArg<'_>,
    name: &str,
    wanted: &Option<String>,
    prompts: &Prompts,
) -> PyResult<Side<'a>> {
    let (count, points, dim) = prompts.inner.xs.dim();
    let of = |learner: &Learner| {
        let steps = parsed(wanted.as_deref()).map_err(raised)?;
        let steps = steps.unwrap_or_else(|| learner.inner.default_steps());
        Ok(Side::Learner(learner.inner.clone(), steps))
    };
    match given {
        SideArg::Name(learner) => of(&Learner::build(py, learner.clone(), Some((points, dim)))?),
        SideArg::Learner(learner) => of(learner),
        SideArg::Values(values, steps, label) => {
            let values = values.as_array();
            let accepted = (steps.len(), count, points);
            if values.dim() != accepted {
                return Err(argument(&format!(
                    "{name} has shape {:?}; accepted: [steps, prompts, points] = {accepted:?}",
                    values.dim()
                )));
            }
            if let Some(((s, b, t), value)) = values.indexed_iter().find(|(_, v)| !v.is_finite()) {
                let what = format!("{name}[{s}, {b}, {t}] is {value}; accepted: finite predictions");
                return Err(argument(&what));
            }
            let steps = Steps::new(steps.clone()).map_err(raised)?;
            Ok(Side::Values(values, steps, Id { name: label.clone(), given: Default::default() }))
        }
    }
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
