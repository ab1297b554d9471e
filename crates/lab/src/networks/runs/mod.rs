//! Runs are directories: the resolved plan, metrics, and checkpoints that appear whole or not at all.
//!
//! ```text
//! runs/r1-fast-0123456789abcdef/
//!   plan.toml                 what was asked for, every default written out
//!   metrics.jsonl             a row every `log_every` steps
//!   events.out.tfevents.…     the same for TensorBoard
//!   checkpoint.safetensors    weights, Adam's moments, step: the newest
//!   kept/step-000123.safetensors   weights along the way, if asked for
//!   result.json               written when the run is finished
//!   log.txt                   a line whenever a process takes the run up or leaves it
//! ```

mod log;
mod status;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::networks::devices::{self, Device};
use crate::networks::experiment::{Experiment, TrainingSpec};
use crate::networks::tensorboard::EventFile;
use crate::networks::train::{StepReport, Trainer, bayes_loss};

pub use log::{LOG, failure, host, last_lines, note_failure};
pub use status::{RunProgress, RunStatus, inspect};

/// One row of `metrics.jsonl`: means over the steps since the last row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Steps taken.
    pub step: u64,
    /// Mean loss.
    pub loss: f64,
    /// Loss above the smallest possible one for the dimensions and points in use, where that is known.
    pub excess: Option<f64>,
    /// Mean gradient norm before clipping.
    pub norm: f64,
    /// Learning rate of the last step.
    pub rate: f64,
    /// Dimensions in use.
    pub dims: usize,
    /// Points in use.
    pub points: usize,
    /// Seconds since this process began to train.
    pub seconds: f64,
}

/// How a finished run turned out, on fresh prompts of the whole task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// Steps taken.
    pub steps: u64,
    /// Prompts evaluated.
    pub prompts: usize,
    /// Mean squared error over all positions.
    pub mean_loss: f64,
    /// Bayes loss: the smallest possible one, where known.
    #[serde(rename = "bayes_floor")]
    pub bayes_loss: Option<f64>,
    /// Mean squared error over d after all pairs.
    pub last_error_over_d: f64,
    /// Mean squared error by pairs read.
    pub errors: Vec<f64>,
}

/// Why a run stopped.
#[derive(Debug)]
pub enum Stopped {
    /// All steps are done.
    Finished(RunResult),
    /// It was asked to stop; a checkpoint is saved.
    Interrupted(u64),
}

/// A run directory, opened by this process alone.
pub struct Run {
    /// Where it is.
    pub dir: PathBuf,
    experiment: Experiment,
    /// As checkpoints record it.
    device: String,
    trainer: Trainer,
    window: Window,
    _lock: File,
}

/// Sums since the last row of metrics; part of a checkpoint, so that a resumed run writes the same rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Window {
    count: u64,
    loss: f64,
    norm: f64,
}

const PLAN: &str = "plan.toml";
const METRICS: &str = "metrics.jsonl";
const CHECKPOINT: &str = "checkpoint.safetensors";
const RESULT: &str = "result.json";
const LOCK: &str = "lock";
/// Entry of a checkpoint's metadata.
const DEVICE: &str = "device";

fn file_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::File { action, path, source }
}

/// Removes what a killed process left half-written under a temporary name; nothing ever reads those.
fn remove_parts(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|e| e == "part") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The directory of an experiment under `root`.
pub fn directory(root: &Path, experiment: &Experiment) -> PathBuf {
    root.join(format!("{}-{}", experiment.name, experiment.hash()))
}

/// The result of a finished run, if it is finished.
pub fn finished(dir: &Path) -> Option<RunResult> {
    serde_json::from_str(&fs::read_to_string(dir.join(RESULT)).ok()?).ok()
}

/// The device that an interrupted run was begun on, as its checkpoint records it; `None` without one that can be read.
pub fn recorded_device(dir: &Path) -> Option<String> {
    Some(begun_on(&engine::model::checkpoint::metadata(&dir.join(CHECKPOINT)).ok()?))
}

/// Checkpoints of the first version do not say: they are the CPU's.
fn begun_on(metadata: &BTreeMap<String, String>) -> String {
    metadata.get(DEVICE).cloned().unwrap_or_else(|| Device::Cpu.name())
}

impl Run {
    /// Opens the run of an experiment on a device: a new directory, or an interrupted one where its checkpoint left it.
    /// A run goes on only on the device and in the precision that it was begun with.
    pub fn open(root: &Path, experiment: &Experiment, device: &Device) -> Result<Run> {
        experiment.check()?;
        let dir = directory(root, experiment);
        fs::create_dir_all(&dir).map_err(file_error("create", &dir))?;
        let lock = status::lock(&dir)?;
        remove_parts(&dir);
        remove_parts(&dir.join("kept"));
        let write = |path: PathBuf, bytes: &[u8]| engine::model::checkpoint::write_whole(&path, bytes);
        write(dir.join(PLAN), experiment.to_toml().as_bytes())?;
        let network = experiment.network.build(experiment.task.dim, experiment.task.points)?;
        let (mut saved, mut window) = (None, Window::default());
        let checkpoint = dir.join(CHECKPOINT);
        if checkpoint.exists() {
            let engine::model::checkpoint::Checkpoint { params, adam, metadata } =
                engine::model::checkpoint::load(&checkpoint, &network.layout())?;
            let content = |why: String| Error::Content { path: checkpoint.clone(), why };
            let incomplete =
                |what: &str| content(format!("has no {what}; accepted: a checkpoint written by iclab train"));
            let begun = begun_on(&metadata);
            if begun != device.name() {
                return Err(content(format!(
                    "this run was begun on {begun} and would not end with the same bits on {}; accepted: {}, \
                     or another directory of runs (--runs)",
                    device.name(),
                    devices::arguments(&begun)
                )));
            }
            let adam = adam.ok_or_else(|| incomplete("optimiser state"))?;
            let text = metadata.get("window").ok_or_else(|| incomplete("metrics window"))?;
            window = serde_json::from_str(text).map_err(|_| incomplete("readable metrics window"))?;
            saved = Some((params, adam));
        }
        let trainer = Trainer::on(device, experiment, saved)?;
        // Rows after the checkpoint will be written again; a half-written row at the end is dropped.
        let kept = read_metrics(&dir)?.into_iter().filter(|row| row.step <= trainer.done());
        let rows: String = kept.map(|row| row_text(&row) + "\n").collect();
        write(dir.join(METRICS), rows.as_bytes())?;
        let (step, name) = (trainer.done(), device.name());
        log::note(&dir, &format!("step {step}: taken up on {name} ({})", log::whereabouts()));
        Ok(Run { dir, experiment: experiment.clone(), device: device.name(), trainer, window, _lock: lock })
    }

    /// Steps taken so far.
    pub fn done(&self) -> u64 {
        self.trainer.done()
    }

    /// Trains to the end, or until `stop` says so; `progress` hears of every step and of every row of metrics.
    pub fn train(
        &mut self,
        stop: impl Fn() -> bool,
        mut progress: impl FnMut(u64, &StepReport, Option<&Metrics>),
    ) -> Result<Stopped> {
        let spec = self.experiment.training.clone();
        let start = Instant::now();
        let path = self.dir.join(METRICS);
        let mut metrics = File::options().append(true).open(&path).map_err(file_error("write", &path))?;
        let mut events = EventFile::create(&self.dir, unix_seconds() as u64, self.done())
            .map_err(file_error("write", &self.dir))?;
        let kept = spec.kept_steps();
        let mut floor = Floor::default();
        while self.done() < spec.steps {
            let first = self.done();
            let reports = self.trainer.advance(steps_until_pause(&spec, &kept, first))?;
            let last = self.done();
            for (report, step) in reports.iter().zip(first + 1..) {
                self.window.count += 1;
                self.window.loss += report.loss;
                self.window.norm += report.norm;
                let mut row = None;
                if step.is_multiple_of(spec.log_every) || step == spec.steps {
                    let count = self.window.count as f64;
                    let loss = self.window.loss / count;
                    let metrics_row = Metrics {
                        step,
                        loss,
                        excess: floor.of(&self.experiment, report)?.map(|floor| loss - floor),
                        norm: self.window.norm / count,
                        rate: report.rate,
                        dims: report.dims,
                        points: report.points,
                        seconds: start.elapsed().as_secs_f64(),
                    };
                    writeln!(metrics, "{}", row_text(&metrics_row)).map_err(file_error("write", &path))?;
                    let mut scalars =
                        vec![("loss", loss), ("gradient norm", metrics_row.norm), ("rate", report.rate)];
                    scalars.extend(metrics_row.excess.map(|e| ("excess loss", e)));
                    events.scalars(unix_seconds(), step, &scalars).map_err(file_error("write", &self.dir))?;
                    self.window = Window::default();
                    row = Some(metrics_row);
                }
                if kept.binary_search(&step).is_ok() {
                    self.save_kept(step)?;
                }
                progress(step, report, row.as_ref());
                // Weights are those after the last of these steps: only there can anything be saved.
                let asked = step == last && stop();
                if asked || step.is_multiple_of(spec.checkpoint_every) || step == spec.steps {
                    metrics.sync_data().map_err(file_error("write", &path))?;
                    self.save()?;
                }
                if asked && step < spec.steps {
                    log::note(&self.dir, &format!("step {step}: saved and left, as asked"));
                    return Ok(Stopped::Interrupted(step));
                }
            }
        }
        // A GPU makes the error at the last pairs, which few hard prompts rule, exact to a percent or so.
        let on_gpu = self.trainer.device_bytes().is_some();
        let result = self.evaluate(if on_gpu { 25_600 } else { 1280 })?;
        let text = serde_json::to_string_pretty(&result).expect("plain data");
        engine::model::checkpoint::write_whole(&self.dir.join(RESULT), text.as_bytes())?;
        log::note(&self.dir, &format!("step {}: finished", self.done()));
        Ok(Stopped::Finished(result))
    }

    fn metadata(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("experiment".into(), self.experiment.to_toml()),
            ("network".into(), engine::interchange::network_to_json(self.trainer.network())),
            ("step".into(), self.done().to_string()),
            (DEVICE.into(), self.device.clone()),
            ("window".into(), serde_json::to_string(&self.window).expect("plain data")),
        ])
    }

    fn save(&self) -> Result<()> {
        let (path, trainer) = (self.dir.join(CHECKPOINT), &self.trainer);
        let (params, adam) = (trainer.params()?, trainer.adam()?);
        Ok(engine::model::checkpoint::save(&path, &trainer.layout, &params, Some(&adam), &self.metadata())?)
    }

    fn save_kept(&self, step: u64) -> Result<()> {
        let folder = self.dir.join("kept");
        fs::create_dir_all(&folder).map_err(file_error("create", &folder))?;
        let path = folder.join(format!("step-{step:07}.safetensors"));
        let (layout, params) = (&self.trainer.layout, self.trainer.params()?);
        Ok(engine::model::checkpoint::save(&path, layout, &params, None, &self.metadata())?)
    }

    fn evaluate(&self, prompts: usize) -> Result<RunResult> {
        let task = &self.experiment.task;
        let errors = self.trainer.evaluate(prompts)?;
        Ok(RunResult {
            steps: self.done(),
            prompts,
            mean_loss: errors.iter().sum::<f64>() / errors.len() as f64,
            bayes_loss: bayes_loss(&task.function, &task.inputs, task.dim, task.points)?,
            last_error_over_d: errors[errors.len() - 1] / task.dim as f64,
            errors,
        })
    }
}

/// Steps until something has to be written: a row of metrics, a checkpoint, a kept one, or the end.
fn steps_until_pause(spec: &TrainingSpec, kept: &[u64], done: u64) -> u64 {
    let multiple = |every: u64| (done / every + 1).saturating_mul(every);
    let kept = kept.iter().copied().find(|step| *step > done);
    let next = [spec.steps, multiple(spec.log_every), multiple(spec.checkpoint_every)];
    next.into_iter().chain(kept).min().map_or(1, |next| next - done)
}

/// The smallest possible loss changes only with the curriculum: computed once per shape.
#[derive(Default)]
struct Floor {
    shape: (usize, usize),
    value: Option<f64>,
}

impl Floor {
    fn of(&mut self, experiment: &Experiment, report: &StepReport) -> Result<Option<f64>> {
        let shape = (report.dims, report.points);
        if self.shape != shape {
            let task = &experiment.task;
            self.value = bayes_loss(&task.function, &task.inputs, report.dims, report.points)?;
            self.shape = shape;
        }
        Ok(self.value)
    }
}

/// The rows of a run's metrics that can be read; a half-written last row is not an error.
pub fn read_metrics(dir: &Path) -> Result<Vec<Metrics>> {
    let path = dir.join(METRICS);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(file_error("read", &path)(e)),
    }
}

fn row_text(row: &Metrics) -> String {
    serde_json::to_string(row).expect("plain data")
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_between_two_pauses() {
        let text = include_str!("../../../../../experiments/miniature.toml");
        let mut spec = Experiment::parse(text, Path::new("miniature.toml")).unwrap().training;
        (spec.steps, spec.log_every, spec.checkpoint_every, spec.keep) = (1000, 30, 77, 9);
        let kept = spec.kept_steps();
        let (mut done, mut pauses) = (0, Vec::new());
        while done < spec.steps {
            done += steps_until_pause(&spec, &kept, done);
            pauses.push(done);
        }
        let written = |step: &u64| {
            [30, 77, 1000].iter().any(|every| step.is_multiple_of(*every)) || kept.contains(step)
        };
        assert_eq!(pauses, (1..=1000).filter(written).collect::<Vec<u64>>());
    }
}
