//! `metrics.jsonl`: a row every `log_every` steps, and the same for TensorBoard.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use engine::model::checkpoint::write_whole;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::networks::experiment::Experiment;
use crate::networks::tensorboard::EventFile;
use crate::networks::train::{StepReport, bayes_loss};

/// One row of `metrics.jsonl`: means over the steps since the last row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Steps taken.
    pub step: u64,
    /// Mean loss.
    pub loss: f64,
    /// Loss above the Bayes loss for the dimensions and points in use, where that is known.
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

impl Metrics {
    fn line(&self) -> String {
        serde_json::to_string(self).expect("plain data") + "\n"
    }
}

const FILE: &str = "metrics.jsonl";

/// The rows of a run's metrics that can be read; a half-written last row is not an error.
pub fn read_metrics(dir: &Path) -> Result<Vec<Metrics>> {
    let path = dir.join(FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(Error::file("read", path)(e)),
    }
}

/// Drops the rows after step `done`: they will be written again. A half-written row at the end goes, too. Returns the others.
pub(super) fn keep_until(dir: &Path, done: u64) -> Result<Vec<Metrics>> {
    let kept: Vec<Metrics> = read_metrics(dir)?.into_iter().filter(|row| row.step <= done).collect();
    let rows: String = kept.iter().map(Metrics::line).collect();
    write_whole(&dir.join(FILE), rows.as_bytes())?;
    Ok(kept)
}

/// Copies the rows of a run into another directory, whole or not at all.
pub(super) fn copy_metrics(from: &Path, to: &Path) -> Result<()> {
    let path = from.join(FILE);
    let rows = std::fs::read(&path).map_err(Error::file("read", path))?;
    Ok(write_whole(&to.join(FILE), &rows)?)
}

/// Sums since the last row of metrics; part of a checkpoint, so that a resumed run writes the same rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Window {
    count: u64,
    loss: f64,
    norm: f64,
}

impl Window {
    pub fn add(&mut self, report: &StepReport) {
        self.count += 1;
        self.loss += report.loss;
        self.norm += report.norm;
    }
}

/// The files that rows go to while a process trains.
pub(super) struct MetricsWriter {
    path: PathBuf,
    file: File,
    events: EventFile,
    start: Instant,
    /// The Bayes loss changes only with the curriculum: kept for the last (dimensions, points).
    bayes: Option<((usize, usize), Option<f64>)>,
}

impl MetricsWriter {
    /// Appends to the files of a run that is at step `done`.
    pub fn open(dir: &Path, done: u64) -> Result<MetricsWriter> {
        let start = Instant::now();
        let path = dir.join(FILE);
        let file = File::options().append(true).open(&path).map_err(Error::file("write", &path))?;
        let events =
            EventFile::create(dir, unix_seconds() as u64, done).map_err(Error::file("write", dir))?;
        Ok(MetricsWriter { path, file, events, start, bayes: None })
    }

    /// Writes the row of a window that ends with `step`, and begins a new window.
    pub fn write(
        &mut self,
        experiment: &Experiment,
        window: &mut Window,
        step: u64,
        report: &StepReport,
    ) -> Result<Metrics> {
        let Window { count, loss, norm } = std::mem::take(window);
        let (loss, norm) = (loss / count as f64, norm / count as f64);
        let &StepReport { rate, dims, points, .. } = report;
        let excess = self.bayes_loss(experiment, (dims, points))?.map(|least| loss - least);
        let seconds = self.start.elapsed().as_secs_f64();
        let row = Metrics { step, loss, excess, norm, rate, dims, points, seconds };
        self.file.write_all(row.line().as_bytes()).map_err(Error::file("write", &self.path))?;
        let mut scalars = vec![("loss", loss), ("gradient norm", norm), ("rate", rate)];
        scalars.extend(excess.map(|e| ("excess loss", e)));
        self.events.scalars(unix_seconds(), step, &scalars).map_err(Error::file("write", &self.path))?;
        Ok(row)
    }

    /// The file of rows, for whoever makes them safe before a checkpoint counts on them.
    pub fn handle(&self) -> Result<File> {
        self.file.try_clone().map_err(Error::file("write", &self.path))
    }

    fn bayes_loss(&mut self, experiment: &Experiment, shape: (usize, usize)) -> Result<Option<f64>> {
        match self.bayes {
            Some((known, value)) if known == shape => Ok(value),
            _ => {
                let task = &experiment.task;
                let value = bayes_loss(&task.function, &task.inputs, shape.0, shape.1)?;
                self.bayes = Some((shape, value));
                Ok(value)
            }
        }
    }
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}
