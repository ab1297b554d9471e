//! Training.

use std::path::PathBuf;

use engine::cuda::Precision;
use lab::Error;
use lab::interrupt;
use lab::networks::devices::Device;
use lab::networks::experiment::Change;
use lab::networks::pool::{self, JobOutcome, Pool, Wanted, Watch};
use lab::networks::runs::{self, CheckpointEvery, Metrics};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::calls::{keep, run};

/// What is trained, and where, from Python.
#[derive(FromPyObject)]
pub struct TrainArg {
    #[pyo3(item)]
    experiment: PathBuf,
    #[pyo3(item)]
    set: Vec<String>,
    #[pyo3(item)]
    steps: Option<u64>,
    #[pyo3(item)]
    seed: Option<u64>,
    #[pyo3(item)]
    device: String,
    #[pyo3(item)]
    precision: Option<String>,
    #[pyo3(item)]
    runs: PathBuf,
    #[pyo3(item)]
    checkpoint_every: Option<String>,
}

/// Hears of the run for Python.
struct Told {
    callback: Option<Py<PyAny>>,
    raised: std::sync::atomic::AtomicBool,
}

impl Watch for Told {
    fn stop(&self) -> bool {
        interrupt::asked() || self.raised.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn stepped(&self, _: usize, _: u64, row: Option<&Metrics>) {
        let (Some(callback), Some(row)) = (&self.callback, row) else { return };
        let told = Python::attach(|py| -> PyResult<()> {
            let metrics = PyDict::new(py);
            metrics.set_item("step", row.step)?;
            metrics.set_item("loss", row.loss)?;
            metrics.set_item("excess", row.excess)?;
            metrics.set_item("norm", row.norm)?;
            metrics.set_item("rate", row.rate)?;
            metrics.set_item("dims", row.dims)?;
            metrics.set_item("points", row.points)?;
            metrics.set_item("seconds", row.seconds)?;
            callback.call1(py, (metrics,)).map(drop)
        });
        if let Err(error) = told {
            drop(keep(error));
            self.raised.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// Trains an experiment; where its run is, and its result as JSON. An interrupted run is saved and goes on when called again.
#[pyfunction]
pub fn train(py: Python<'_>, asked: TrainArg, callback: Option<Py<PyAny>>) -> PyResult<(PathBuf, String)> {
    let told = Told { callback, raised: false.into() };
    run(py, || {
        let changes =
            asked.set.iter().map(|text| text.parse::<Change>().map_err(|e| Error::BadData(e.to_string())));
        let wanted = Wanted {
            set: changes.collect::<Result<_, _>>()?,
            steps: asked.steps,
            seed: asked.seed,
            seeds: 1,
        };
        let jobs = pool::jobs(std::slice::from_ref(&asked.experiment), &wanted, &asked.runs)?;
        let job = &jobs[0];
        if let Some(result) = runs::finished(&job.dir) {
            return Ok((job.dir.clone(), serde_json::to_string(&result).expect("plain data")));
        }
        let every = asked.checkpoint_every.as_deref().map(|text| {
            text.parse::<CheckpointEvery>()
                .map_err(|why| Error::BadData(format!("checkpoint_every '{text}': {why}")))
        });
        let pool = Pool {
            runs: &asked.runs,
            on_cuda: 1,
            on_cpu: 1,
            may_fall_back: asked.device == "auto",
            several: false,
            checkpoint_every: every.transpose()?,
            watch: &told,
        };
        let recorded = runs::recorded_device(&job.dir);
        let (precision, usual) = (asked.precision.as_deref(), Precision::default());
        let device = device(&asked.device, precision, usual, recorded.as_deref())?;
        match pool.train(&[(job, device)])?.remove(0) {
            JobOutcome::Finished(result) => {
                Ok((job.dir.clone(), serde_json::to_string(&result).expect("plain data")))
            }
            JobOutcome::Failed(error) => Err(error),
            unfinished => Err(Error::Training(unfinished.sentence(job))),
        }
    })
}

/// The device of a name; `auto` is the one that a run was begun on, a CUDA device, or the CPU. `usual` is how a CUDA device
/// multiplies unless a precision is asked for.
pub fn device(
    name: &str,
    precision: Option<&str>,
    usual: Precision,
    recorded: Option<&str>,
) -> lab::Result<Device> {
    let precision = precision.map(|name| {
        let names = Precision::ALL.map(|(_, name)| name).join(", ");
        Precision::named(name)
            .ok_or_else(|| Error::BadData(format!("precision '{name}' is unknown; accepted: {names}")))
    });
    let precision = precision.transpose()?;
    let begun = recorded.and_then(|name| Precision::named(name.strip_prefix("cuda ")?));
    match name {
        "cpu" if precision.is_some() => {
            Err(Error::BadData("precision is for CUDA devices; accepted: none with device='cpu'".into()))
        }
        "cpu" => Ok(Device::Cpu),
        "cuda" => Device::cuda(precision.unwrap_or(usual)),
        "auto" if recorded == Some("cpu") => Ok(Device::Cpu),
        "auto" => Ok(Device::cuda(precision.or(begun).unwrap_or(usual)).unwrap_or(Device::Cpu)),
        other => Err(Error::BadData(format!("device '{other}' is unknown; accepted: auto, cpu, cuda"))),
    }
}
