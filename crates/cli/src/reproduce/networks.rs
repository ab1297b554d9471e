//! Networks that are trained before anything is measured: the miniature of `--quick`, all of them for `--from-scratch`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use lab::analyses::reproduction::ToTrain;
use lab::networks::experiment::Experiment;
use lab::networks::models::PaperNetwork;
use lab::networks::runs;

use crate::device::DeviceArgs;
use crate::error::{Error, Result};

/// How long a request to stop waits for the trainer to save.
const SAVING: Duration = Duration::from_secs(20);

/// `iclab train`, while it runs.
static TRAINER: Mutex<Option<Child>> = Mutex::new(None);

fn trainer() -> std::sync::MutexGuard<'static, Option<Child>> {
    TRAINER.lock().unwrap_or_else(|e| e.into_inner())
}

/// Ends with the trainer: it was asked to stop by the same Ctrl-C and saves; runs survive being killed, too.
pub fn stop_training() {
    let Some(mut child) = trainer().take() else { return };
    let begun = Instant::now();
    while begun.elapsed() < SAVING && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Where and how to train.
pub struct Training<'a> {
    /// Folder of all runs.
    pub runs: &'a Path,
    /// On which device.
    pub device: &'a DeviceArgs,
}

impl Training<'_> {
    /// Trains what is not trained yet; returns each network with the directory of its run.
    pub fn run(&self, networks: &[ToTrain]) -> Result<Vec<(&'static PaperNetwork, PathBuf)>> {
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
        let program = std::env::current_exe().map_err(Error::file("find", "iclab"))?;
        let mut command = Command::new(&program);
        command.arg("train").args(experiments).arg("--runs").arg(self.runs).args(self.device.arguments());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        *trainer() = Some(command.spawn().map_err(Error::file("start", &program))?);
        loop {
            // Not under the lock while waiting: a request to stop takes the trainer away, and then ends this process.
            let done = trainer().as_mut().and_then(|child| child.try_wait().transpose());
            match done {
                Some(Ok(status)) => {
                    *trainer() = None;
                    if status.success() {
                        return Ok(());
                    }
                    return Err(Error::Usage(
                        "training failed, as said above; what was trained is kept".into(),
                    ));
                }
                Some(Err(error)) => return Err(Error::file("wait for", &program)(error)),
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}
