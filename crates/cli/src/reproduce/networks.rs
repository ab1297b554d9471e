//! Networks that are trained for a reproduction: the miniature of `--quick` before anything is measured, all of them for
//! `--from-scratch` while others that are trained already, or need not be, are measured.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use lab::analyses::Analysis;
use lab::analyses::reproduction::{PROMPTS, QUICK_PROMPTS, Reproduction};
use lab::networks::experiment::Experiment;
use lab::networks::runs;
use lab::program::Program;

use super::ReproduceArgs;
use crate::device::DeviceArgs;
use crate::error::{Error, Result};
use crate::signals::{self, INTERRUPTED, PATIENT_VARIABLE};

/// How long a request to stop waits for the trainer to save.
const SAVING: Duration = Duration::from_secs(20);

/// `iclab train`, while it runs.
static TRAINER: Mutex<Option<Child>> = Mutex::new(None);

fn trainer() -> std::sync::MutexGuard<'static, Option<Child>> {
    TRAINER.lock().unwrap_or_else(|e| e.into_inner())
}

/// Ends with the trainer: asked to stop, it saves; runs survive being killed, too.
pub fn stop_training() {
    let Some(mut child) = trainer().take() else { return };
    signals::ask_to_stop(&child);
    let begun = Instant::now();
    while begun.elapsed() < SAVING && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
}

impl ReproduceArgs {
    /// What is measured on. Networks that must be trained first are; for `--from-scratch` that has only begun.
    pub(super) fn reproduction(&self, wanted: &[&Analysis]) -> Result<(Reproduction, Training)> {
        if let Some(root) = self.models.as_ref().filter(|root| !root.is_dir()) {
            return Err(Error::content(
                root,
                "is not a directory; accepted: a folder with networks (--models)",
            ));
        }
        let usual = if self.quick { QUICK_PROMPTS } else { PROMPTS };
        let mut reproduction = Reproduction {
            given: self.model.clone(),
            prompts: self.prompts.unwrap_or(usual),
            seed: self.seed,
            quick: self.quick,
            from_scratch: self.from_scratch,
            fresh: self.fresh,
            ..Reproduction::default()
        };
        if let Some(root) = &self.models {
            reproduction.root = root.clone();
        }
        let mut to_train = Vec::new();
        if self.from_scratch {
            reproduction.root = PathBuf::new();
            to_train = Reproduction::from_scratch(wanted, &self.experiments)?;
        } else if self.quick {
            to_train = reproduction.missing_miniature(wanted, &self.experiments)?;
        }
        let mut missing: Vec<PathBuf> = Vec::new();
        for (network, path) in to_train {
            let dir = runs::announce(&self.runs, &Experiment::read(&path)?)?;
            // Two names may have one recipe.
            if runs::finished(&dir).is_none() && !missing.contains(&path) {
                missing.push(path);
            }
            reproduction.awaited.push((network, dir));
        }
        let mut training = match missing.is_empty() {
            true => Training::none(),
            false => Training::begin(&missing, &self.runs, &self.device, self.from_scratch)?,
        };
        if !self.from_scratch {
            training.wait(&reproduction)?;
        }
        Ok((reproduction, training))
    }
}

/// Runs at once on a CUDA device, where others are waited for: enough that it is busy while one is prepared or evaluated, and
/// few enough that the first are over soon.
const AT_ONCE: &str = "3";

/// `iclab train` as a process of its own, which has the devices and the way to stop. It ends with this value.
pub struct Training {
    /// What it says, unless it says that itself.
    pieces: Option<ChildStderr>,
    /// Whether its end has not been seen yet.
    running: bool,
}

impl Drop for Training {
    fn drop(&mut self) {
        stop_training();
    }
}

impl Training {
    /// Nothing is trained.
    pub fn none() -> Training {
        Training { pieces: None, running: false }
    }

    /// Starts to train; `beside` other work, whose display is not to be disturbed.
    fn begin(experiments: &[PathBuf], runs: &Path, device: &DeviceArgs, beside: bool) -> Result<Training> {
        let program = Program::running().map_err(Error::file("find", "iclab"))?;
        let mut command = program.command();
        command.arg("train").args(experiments).arg("--runs").arg(runs).args(device.arguments());
        command.stdin(Stdio::null()).stdout(Stdio::null()).env(PATIENT_VARIABLE, "1");
        if beside {
            command.args(["--jobs", AT_ONCE]).stderr(Stdio::piped());
        }
        let mut child = command.spawn().map_err(Error::file("start", &program.file))?;
        let pieces = child.stderr.take();
        *trainer() = Some(child);
        Ok(Training { pieces, running: true })
    }

    /// Shows what it says above a bar from now on.
    pub fn tell(&mut self, bar: &ProgressBar) {
        let Some(pieces) = self.pieces.take() else { return };
        let bar = bar.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(pieces).lines().map_while(std::io::Result::ok) {
                bar.suspend(|| eprintln!("{line}"));
            }
        });
    }

    /// Whether it goes on; an error where it ended before all networks were trained.
    pub fn goes_on(&mut self, reproduction: &Reproduction) -> Result<bool> {
        if self.running {
            let ended = match trainer().as_mut().map(Child::try_wait) {
                // A request to stop has taken the trainer away, waits for it, and then ends this process.
                None => return Ok(true),
                Some(ended) => ended.map_err(Error::file("wait for", "iclab train"))?,
            };
            let Some(status) = ended else { return Ok(true) };
            *trainer() = None;
            self.running = false;
            if status.code() == Some(INTERRUPTED.into()) {
                let what = "training was interrupted; the same command goes on where it was";
                return Err(Error::Interrupted(what.into()));
            }
            if !status.success() {
                return Err(Error::Usage("training failed, as said above; what was trained is kept".into()));
            }
        }
        match reproduction.awaited.iter().find(|(_, dir)| runs::finished(dir).is_none()) {
            None => Ok(false),
            Some((_, dir)) => Err(Error::content(dir, "is not trained to its end; the same command goes on")),
        }
    }

    /// Waits until it is over.
    pub fn wait(&mut self, reproduction: &Reproduction) -> Result<()> {
        while self.goes_on(reproduction)? {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}
