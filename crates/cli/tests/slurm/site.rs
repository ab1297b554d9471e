//! A directory that the "machines" of a cluster share, in which sweeps are submitted and their tasks disturbed.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::common::{TINY, command, complaints, json, read, with};

/// A directory that the "machines" of the cluster share, and the program in it.
pub struct Site<'a> {
    pub cluster: &'a Cluster,
    pub dir: TempDir,
}

impl<'a> Site<'a> {
    pub fn new(cluster: &'a Cluster, plan: &str) -> Site<'a> {
        let base = include_str!("../../../../experiments/miniature.toml");
        let dir = with(&[("tiny.toml", TINY), ("miniature.toml", base), ("plan.toml", plan)]);
        Site { cluster, dir }
    }

    pub fn iclab(&self, arguments: &str) -> Output {
        command(self.dir.path(), arguments).env("SLURM_CONF", self.cluster.conf()).output().unwrap()
    }

    pub fn done(&self, arguments: &str) -> String {
        let output = self.iclab(arguments);
        assert!(output.status.success(), "{arguments}: {}", complaints(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn submit(&self) -> String {
        self.done("sweep plan.toml --on slurm")
    }

    pub fn status(&self) -> Vec<Value> {
        json(&self.done("sweep status plan.toml --json")).as_array().unwrap().clone()
    }

    pub fn finished(&self) -> usize {
        self.status().iter().filter(|row| row["state"] == "finished").count()
    }

    /// Run directory of a point.
    pub fn run(&self, point: usize) -> PathBuf {
        self.dir.path().join(self.status()[point]["run"].as_str().unwrap())
    }

    /// The task of a point in the queue, such as `12_3`.
    pub fn task(&self, point: usize) -> String {
        self.status()[point]["task"]["id"].as_str().unwrap().to_string()
    }

    /// Sends a signal to the process that trains a point; says whether there is one.
    pub fn signal(&self, point: usize, signal: &str) -> bool {
        let log = read(self.run(point).join("log.txt"));
        let process = log.rsplit_once("process ").unwrap().1.split(',').next().unwrap();
        Command::new("kill").args([signal, process]).status().unwrap().success()
    }

    /// The first point that is being trained, has saved something, and is none of `but`.
    pub fn caught(&self, but: &[usize]) -> usize {
        let saved = |row: &Value| {
            let run = self.dir.path().join(row["run"].as_str().unwrap());
            row["state"] == "running" && run.join("checkpoint.safetensors").is_file()
        };
        let pick =
            || self.status().iter().enumerate().position(|(point, row)| !but.contains(&point) && saved(row));
        let picked = std::cell::Cell::new(None);
        self.cluster.wait("a point that has saved something", |_| {
            picked.set(pick());
            picked.get().is_some()
        });
        picked.get().expect("the wait ends with one")
    }

    /// Such a point, its process stopped with steps left: it cannot finish before what is done to it next. A cluster lets a
    /// process go on when it ends it.
    pub fn held(&self, but: &[usize]) -> usize {
        const LEFT: u64 = 500;
        loop {
            let point = self.caught(but);
            self.signal(point, "-STOP");
            let row = &self.status()[point];
            let [step, steps] = ["step", "steps"].map(|name| row[name].as_u64().unwrap());
            if row["state"] == "running" && step + LEFT <= steps {
                return point;
            }
            self.signal(point, "-CONT");
        }
    }

    /// What the log of a point's run tells, without times.
    pub fn story(&self, point: usize) -> String {
        let log = read(self.run(point).join("log.txt"));
        log.lines().map(|line| line.split_once(' ').unwrap().1).collect::<Vec<_>>().join("; ")
    }

    /// How a point's last task ended, once the accounts have it.
    pub fn ended(&self, point: usize, state: &str) -> Value {
        self.cluster.wait("an entry in the accounts", |_| {
            self.status()[point]["ended"]["state"].as_str().is_some_and(|found| found.starts_with(state))
        });
        self.status()[point]["ended"].clone()
    }

    /// Waits until the queue is empty.
    pub fn drain(&self) {
        self.drain_but("");
    }

    /// Waits until nothing is in the queue but a task.
    pub fn drain_but(&self, id: &str) {
        self.cluster.wait("an empty queue", |cluster| {
            cluster.hurry();
            cluster.tasks().iter().all(|(found, _)| found == id)
        });
    }
}
