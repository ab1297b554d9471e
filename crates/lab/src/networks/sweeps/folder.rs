//! A sweep and its directory, `runs/sweep-NAME-HASH/`: the plan written out, the logs of its jobs, what was collected.
//! Everything else is in the run directories, so that no state can be lost or disagree.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::model::checkpoint::write_whole;

use super::plan::Sweep;
use crate::error::{Error, Result};
use crate::lock::{self, Attempt, Lock, Owner};
use crate::networks::pool::Job;

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
    owner: Owner,
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

    /// Marks the sweep as being trained by this process, as long as the lock is held; another pool is refused.
    pub fn sign(&self) -> Result<Lock> {
        match lock::take(&self.pool_file())? {
            Attempt::Taken(lock) => Ok(lock),
            Attempt::Busy(owner) => {
                let who = owner.map_or("by another process".into(), |owner| owner.to_string());
                let why = format!("is being trained already ({who}); accepted: one local pool at a time");
                Err(Error::content(&self.dir, why))
            }
        }
    }

    /// The process of this machine that trains the sweep, if there is one; one of another machine is an error.
    pub fn pool_process(&self) -> Result<Option<PoolProcess>> {
        let path = self.pool_file();
        let Some(owner) = lock::holder(&path) else { return Ok(None) };
        let Some(owner) = owner else {
            let why = "does not say which process trains the sweep; accepted: stop it by hand";
            return Err(Error::content(path, why));
        };
        // A number may belong to another process by now, or on another machine: nobody is stopped by mistake.
        let me = Owner::this();
        let here = owner.is_running(&me).or_else(|| {
            // Systems without spaces of numbers, where the lock alone tells that it is running.
            (owner.space.is_empty() && owner.shares_kernel(&me)).then_some(true)
        });
        match (here, i32::try_from(owner.process)) {
            (Some(true), Ok(id)) => Ok(Some(PoolProcess { id, owner, path })),
            (Some(false), _) => Ok(None),
            _ => {
                let why = format!("the sweep is trained by {owner}; accepted: this command on that machine");
                Err(Error::content(path, why))
            }
        }
    }
}

impl PoolProcess {
    /// Waits until it has saved everything and ended: then its lock is free.
    pub fn wait(&self) {
        while lock::holder(&self.path) == Some(Some(self.owner.clone())) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
