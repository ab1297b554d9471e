//! A sweep and its directory, `runs/sweep-NAME-HASH/`: the plan written out, the logs of its jobs, what was collected.
//! Everything else is in the run directories, so that no state can be lost or disagree.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use engine::model::checkpoint::write_whole;

use super::plan::Sweep;
use crate::error::{Error, Result};
use crate::networks::pool::Job;
use crate::networks::runs::host;

/// The plan, written out.
pub const PLAN: &str = "plan.toml";

/// A sweep and where it is.
pub struct SweepFolder {
    /// Its points.
    pub sweep: Sweep,
    /// The plan's file.
    pub plan: PathBuf,
    /// Directory of all runs.
    pub runs: PathBuf,
    /// Its own directory, which need not be there yet.
    pub dir: PathBuf,
}

/// The process of this machine that trains a sweep.
pub struct PoolProcess {
    /// Its number.
    pub id: i32,
    lock: File,
    path: PathBuf,
}

impl SweepFolder {
    /// The sweep of a plan, with its runs under `runs`.
    pub fn open(plan: &Path, runs: &Path) -> Result<SweepFolder> {
        let sweep = Sweep::read(plan)?;
        let dir = sweep.dir(runs);
        Ok(SweepFolder { sweep, plan: plan.into(), runs: runs.into(), dir })
    }

    /// Makes its directory, with the plan written out for tasks on other machines and for later readers.
    pub fn create(&self) -> Result<()> {
        fs::create_dir_all(&self.dir).map_err(Error::file("create", &self.dir))?;
        Ok(write_whole(&self.dir.join(PLAN), self.sweep.to_toml().as_bytes())?)
    }

    /// The run directory of a point.
    pub fn point_dir(&self, point: usize) -> PathBuf {
        self.sweep.points[point].dir(&self.runs)
    }

    /// A point in words.
    pub fn label(&self, point: usize) -> String {
        self.sweep.label(&self.sweep.points[point])
    }

    /// A point as a job of a pool.
    pub fn job(&self, point: usize) -> Job {
        let experiment = self.sweep.points[point].experiment.clone();
        Job { experiment, dir: self.point_dir(point), label: self.label(point) }
    }

    /// The file that the local pool of this sweep locks and signs.
    fn pool_file(&self) -> PathBuf {
        self.dir.join("local.lock")
    }

    /// Marks the sweep as being trained by this process, as long as the file is open; another pool is refused.
    pub fn sign(&self) -> Result<File> {
        let path = self.pool_file();
        let options = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = options.map_err(Error::file("create", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut who = String::new();
                let _ = file.read_to_string(&mut who);
                let why =
                    format!("is being trained already ({}); accepted: one local pool at a time", who.trim());
                return Err(Error::content(&self.dir, why));
            }
            Err(TryLockError::Error(source)) => return Err(Error::file("lock", &path)(source)),
        }
        let signature = format!("process {} on {}\n", std::process::id(), host());
        file.set_len(0)
            .and_then(|()| file.write_all(signature.as_bytes()))
            .map_err(Error::file("write", &path))?;
        Ok(file)
    }

    /// The process of this machine that trains the sweep, if there is one; one of another machine is an error.
    pub fn pool_process(&self) -> Result<Option<PoolProcess>> {
        let path = self.pool_file();
        let Ok(mut lock) = File::open(&path) else { return Ok(None) };
        if !matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return Ok(None);
        }
        let mut who = String::new();
        lock.read_to_string(&mut who).map_err(Error::file("read", &path))?;
        let signed = who.trim().strip_prefix("process ").and_then(|rest| rest.split_once(" on "));
        let process = signed.and_then(|(number, machine)| Some((number.parse::<i32>().ok()?, machine)));
        let Some((id, machine)) = process else {
            let why = "does not say which process trains the sweep; accepted: stop it by hand";
            return Err(Error::content(path, why));
        };
        if machine != host() {
            let why = format!(
                "the sweep is trained by process {id} on {machine}; accepted: this command on that machine"
            );
            return Err(Error::content(path, why));
        }
        Ok(Some(PoolProcess { id, lock, path }))
    }
}

impl PoolProcess {
    /// Waits until it has saved everything and ended: then its lock is free.
    pub fn wait(&self) -> Result<()> {
        self.lock.lock_shared().map_err(Error::file("lock", &self.path))
    }
}
