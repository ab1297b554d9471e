//! Networks that are trained before anything is measured: the miniature of `--quick`, all of them for `--from-scratch`.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use lab::analyses::Analysis;
use lab::analyses::reproduction::{PROMPTS, QUICK_PROMPTS, Reproduction, ToTrain};
use lab::networks::experiment::Experiment;
use lab::networks::models::PaperNetwork;
use lab::networks::runs;
use lab::program::Program;

use super::ReproduceArgs;
use crate::device::DeviceArgs;
use crate::error::{Error, Result};
use crate::signals::{INTERRUPTED, PATIENT_VARIABLE};

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
    ask_to_stop(&child);
    let begun = Instant::now();
    while begun.elapsed() < SAVING && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Ctrl-C on a terminal reaches the trainer, too; a signal to this process alone does not. A second request does it no harm.
#[cfg(unix)]
fn ask_to_stop(child: &Child) {
    use nix::sys::signal::{Signal, kill};
    if let Ok(id) = i32::try_from(child.id()) {
        let _ = kill(nix::unistd::Pid::from_raw(id), Signal::SIGTERM);
    }
}

#[cfg(not(unix))]
fn ask_to_stop(_: &Child) {}

impl ReproduceArgs {
    /// What is measured on; networks that must be trained first are.
    pub(super) fn reproduction(&self, wanted: &[&Analysis]) -> Result<Reproduction> {
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
        let training = Training { runs: &self.runs, device: &self.device };
        for (network, dir) in training.run(&to_train)? {
            reproduction.given.push(format!("{}={}", network.name, dir.display()));
        }
        Ok(reproduction)
    }
}

/// Where and how to train.
struct Training<'a> {
    /// Folder of all runs.
    runs: &'a Path,
    /// On which device.
    device: &'a DeviceArgs,
}

impl Training<'_> {
    /// Trains what is not trained yet; returns each network with the directory of its run.
    fn run(&self, networks: &[ToTrain]) -> Result<Vec<(&'static PaperNetwork, PathBuf)>> {
        let mut found = Vec::new();
        let mut missing = Vec::new();
        for (network, path) in networks {
            let dir = runs::directory(self.runs, &Experiment::read(path)?);
            if runs::finished(&dir).is_none() {
                missing.push(path);
            }
            found.push((*network, dir));
        }
        if !missing.is_empty() {
            self.train(&missing)?;
        }
        match found.iter().find(|(_, dir)| runs::finished(dir).is_none()) {
            None => Ok(found),
            Some((_, dir)) => Err(Error::content(dir, "is not trained to its end; the same command goes on")),
        }
    }

    /// The verb `iclab train` as a process of its own: it has the display, the devices and the way to stop.
    fn train(&self, experiments: &[&PathBuf]) -> Result<()> {
        let program = Program::running().map_err(Error::file("find", "iclab"))?;
        let mut command = program.command();
        command.arg("train").args(experiments).arg("--runs").arg(self.runs).args(self.device.arguments());
        command.stdin(Stdio::null()).stdout(Stdio::null()).env(PATIENT_VARIABLE, "1");
        *trainer() = Some(command.spawn().map_err(Error::file("start", &program.file))?);
        loop {
            // Not under the lock while waiting: a request to stop takes the trainer away, and then ends this process.
            let done = trainer().as_mut().and_then(|child| child.try_wait().transpose());
            match done {
                Some(Ok(status)) => {
                    *trainer() = None;
                    if status.success() {
                        return Ok(());
                    }
                    if status.code() == Some(INTERRUPTED.into()) {
                        let what = "training was interrupted; the same command goes on where it was";
                        return Err(Error::Interrupted(what.into()));
                    }
                    return Err(Error::Usage(
                        "training failed, as said above; what was trained is kept".into(),
                    ));
                }
                Some(Err(error)) => return Err(Error::file("wait for", &program.file)(error)),
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}
