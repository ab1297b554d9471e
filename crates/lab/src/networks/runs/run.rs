//! A run being trained: opened fresh or where its checkpoint left it, trained to its end or until asked to stop.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use engine::model::checkpoint::{self, Checkpoint, write_whole};
use engine::model::optim::OptimiserState;

use super::checkpoints::{CheckpointEvery, Clock, Snapshot, Writer};
use super::health::{Health, Stretch};
use super::metrics::{Metrics, MetricsWriter, Window, copy_metrics, keep_until};
use super::{CHECKPOINT, DEVICE, HEALTHY, KEPT, PLAN, RESULT, RunResult, begun_on, directory, log, status};
use crate::error::{Error, Result};
use crate::lock::Lock;
use crate::networks::devices::{self, Device};
use crate::networks::experiment::{Experiment, TrainingSpec};
use crate::networks::train::{StepReport, Trainer, bayes_loss};

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
    health: Health,
    lock: Lock,
}

impl Run {
    /// Opens the run of an experiment on a device: a new directory, or an interrupted one where its checkpoint left it.
    /// A run goes on only on the device and in the precision that it was begun with.
    pub fn open(root: &Path, experiment: &Experiment, device: &Device) -> Result<Run> {
        experiment.check()?;
        let dir = directory(root, experiment);
        fs::create_dir_all(&dir).map_err(Error::file("create", &dir))?;
        let lock = status::lock(&dir)?;
        remove_parts(&dir);
        remove_parts(&dir.join(KEPT));
        remove_parts(&dir.join(HEALTHY));
        write_whole(&dir.join(PLAN), experiment.to_toml().as_bytes())?;
        let checkpoint = dir.join(CHECKPOINT);
        let (saved, window) = if checkpoint.exists() {
            let (checkpoint, window) = resume(&checkpoint, experiment, device)?;
            (Some(checkpoint), window)
        } else {
            (None, Window::default())
        };
        let trainer = Trainer::on(device, experiment, saved)?;
        let mut health = Health::new(&experiment.training);
        for row in keep_until(&dir, trainer.done())? {
            health.hear(&row);
        }
        let (step, device) = (trainer.done(), device.name());
        log::note(&dir, &format!("step {step}: taken up on {device} ({})", log::whereabouts()));
        Ok(Run { dir, experiment: experiment.clone(), device, trainer, window, health, lock })
    }

    /// Steps taken so far.
    pub fn done(&self) -> u64 {
        self.trainer.done()
    }

    /// Trains to the end, or until `stop` says so; `progress` hears of every step and of every row of metrics.
    ///
    /// Checkpoints are taken as `every` says, or else as the experiment does, and written by another thread. A kill at any
    /// moment leaves a whole one: the last that was written.
    pub fn train(
        &mut self,
        every: Option<CheckpointEvery>,
        stop: impl Fn() -> bool,
        mut progress: impl FnMut(u64, &StepReport, Option<&Metrics>),
    ) -> Result<Stopped> {
        let spec = self.experiment.training.clone();
        let mut metrics = MetricsWriter::open(&self.dir, self.done())?;
        let kept = spec.kept_steps();
        let asked_for = spec.checkpoint_every.map(CheckpointEvery::Steps);
        let mut clock = Clock::new(every.or(asked_for).unwrap_or_default());
        let mut writer = Writer::start();
        while self.done() < spec.steps {
            let first = self.done();
            let reports = self.trainer.advance(steps_until_pause(&spec, clock.steps(), &kept, first))?;
            let last = self.done();
            writer.check()?;
            self.check_lock()?;
            for (report, step) in reports.iter().zip(first + 1..) {
                self.window.add(report);
                let mut row = None;
                if step.is_multiple_of(spec.log_every) || step == spec.steps {
                    let written = metrics.write(&self.experiment, &mut self.window, step, report)?;
                    self.look_after(&written, &metrics, &mut writer)?;
                    row = Some(written);
                }
                if kept.binary_search(&step).is_ok() {
                    writer.write(self.snapshot_kept(step, &metrics)?)?;
                }
                progress(step, report, row.as_ref());
                // Weights are those after the last of these steps: only there can anything be saved.
                let asked = step == last && stop();
                if asked || step == spec.steps || (step == last && clock.due(step, &writer)) {
                    let begun = Instant::now();
                    writer.write(self.snapshot(&metrics)?)?;
                    clock.taken(begun);
                }
                if asked && step < spec.steps {
                    writer.finish()?;
                    log::note(&self.dir, &format!("step {step}: saved and left, as asked"));
                    return Ok(Stopped::Interrupted(step));
                }
            }
        }
        writer.finish()?;
        // A GPU makes the error at the last pairs, which few hard prompts rule, exact to a percent or so.
        let on_gpu = self.trainer.device_bytes().is_some();
        let result = self.evaluate(if on_gpu { 25_600 } else { 1280 })?;
        if result.broke_down.is_none() {
            let _ = fs::remove_dir_all(self.dir.join(HEALTHY)); // the end is as good
        }
        let text = serde_json::to_string_pretty(&result).expect("plain data");
        self.check_lock()?;
        write_whole(&self.dir.join(RESULT), text.as_bytes())?;
        log::note(&self.dir, &format!("step {}: finished", self.done()));
        Ok(Stopped::Finished(result))
    }

    /// Keeps the weights at the end of every healthy stretch, as a run of its own that is not over; says when training breaks down.
    fn look_after(&mut self, row: &Metrics, metrics: &MetricsWriter, writer: &mut Writer) -> Result<()> {
        let was_broken = self.health.breakdown().is_some();
        let found = self.health.hear(row);
        if found == Some(Stretch::Healthy) && row.step < self.experiment.training.steps {
            let folder = self.dir.join(HEALTHY);
            fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
            write_whole(&folder.join(PLAN), self.experiment.to_toml().as_bytes())?;
            copy_metrics(&self.dir, &folder)?;
            writer.write(self.weights_at(folder.join(CHECKPOINT), metrics)?)?;
        }
        match self.health.breakdown() {
            Some(broken) if !was_broken => log::note(&self.dir, &broken.to_string()),
            None if was_broken => log::note(&self.dir, &format!("step {}: training has recovered", row.step)),
            _ => {}
        }
        Ok(())
    }

    /// Before anything is written: a process that was asleep may have been taken for dead, and its run be trained elsewhere.
    fn check_lock(&self) -> Result<()> {
        if self.lock.check() { Ok(()) } else { Err(Error::Busy(self.dir.clone())) }
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

    /// The run as it is now, to go on from.
    fn snapshot(&self, metrics: &MetricsWriter) -> Result<Snapshot> {
        let optimiser = Some(self.trainer.optimiser()?.into_owned());
        Ok(Snapshot { optimiser, ..self.weights_at(self.dir.join(CHECKPOINT), metrics)? })
    }

    /// The weights as they are now, to be kept.
    fn snapshot_kept(&self, step: u64, metrics: &MetricsWriter) -> Result<Snapshot> {
        let folder = self.dir.join(KEPT);
        fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        self.weights_at(folder.join(format!("step-{step:07}.safetensors")), metrics)
    }

    fn weights_at(&self, path: PathBuf, metrics: &MetricsWriter) -> Result<Snapshot> {
        Ok(Snapshot {
            path,
            layout: self.trainer.layout.clone(),
            params: self.trainer.params()?.into_owned(),
            optimiser: None,
            metadata: self.metadata(),
            metrics: metrics.handle()?,
        })
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
            broke_down: self.health.breakdown(),
        })
    }
}

/// Removes what a killed process left half-written under a temporary name; nothing ever reads those.
fn remove_parts(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|e| e == "part") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Parameters, optimiser state and metrics window of a checkpoint that was begun on this device.
fn resume(
    path: &Path,
    experiment: &Experiment,
    device: &Device,
) -> Result<((Vec<f32>, OptimiserState), Window)> {
    let network = experiment.network.build(experiment.task.dim, experiment.task.points)?;
    let Checkpoint { params, optimiser, metadata } = checkpoint::load(path, &network.layout())?;
    let incomplete = |what: &str| {
        Error::content(path, format!("has no {what}; accepted: a checkpoint written by iclab train"))
    };
    let (begun, device) = (begun_on(&metadata), device.name());
    if begun != device {
        let why = format!(
            "this run was begun on {begun} and would not end with the same bits on {device}; accepted: {}, or another \
             directory of runs (--runs)",
            devices::arguments(&begun)
        );
        return Err(Error::content(path, why));
    }
    let optimiser = optimiser.ok_or_else(|| incomplete("optimiser state"))?;
    let window = metadata.get("window").ok_or_else(|| incomplete("metrics window"))?;
    let window = serde_json::from_str(window).map_err(|_| incomplete("readable metrics window"))?;
    Ok(((params, optimiser), window))
}

/// Steps until something has to be written: a row of metrics, a checkpoint every so many steps, a kept one, or the end.
fn steps_until_pause(spec: &TrainingSpec, checkpoint_every: Option<u64>, kept: &[u64], done: u64) -> u64 {
    let multiple = |every: u64| (done / every + 1).saturating_mul(every);
    let kept = kept.iter().copied().find(|step| *step > done);
    let next = [spec.steps, multiple(spec.log_every)];
    let others = checkpoint_every.map(multiple).into_iter().chain(kept);
    next.into_iter().chain(others).min().map_or(1, |next| next - done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_between_two_pauses() {
        let text = include_str!("../../../../../experiments/miniature.toml");
        let mut spec = Experiment::parse(text, Path::new("miniature.toml")).unwrap().training;
        (spec.steps, spec.log_every, spec.keep) = (1000, 30, 9);
        let kept = spec.kept_steps();
        let (mut done, mut pauses) = (0, Vec::new());
        while done < spec.steps {
            done += steps_until_pause(&spec, Some(77), &kept, done);
            pauses.push(done);
        }
        let written = |step: &u64| {
            [30, 77, 1000].iter().any(|every| step.is_multiple_of(*every)) || kept.contains(step)
        };
        assert_eq!(pauses, (1..=1000).filter(written).collect::<Vec<u64>>());
    }
}
