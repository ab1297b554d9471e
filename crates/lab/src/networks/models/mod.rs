//! The networks of the paper by name, and where their weights are: shipped under `models/`, or a run directory.

mod add;
mod card;
pub mod checkpoints;
mod fingerprint;
mod shelf;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Progress;
use crate::data::prompts::{Prompts, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result, hint};
use crate::learners::Learner;
use crate::learners::recorded::Recorded;
use crate::networks::experiment::Experiment;
use crate::probe::{self, LoadedNetwork, LoadedProbe, Options, Probed, ReadPoint};

pub use add::{Added, Form, add};
pub use card::{Card, Evaluation, FileRecord};
pub use shelf::{Shelved, card, shelf, shelved};

/// A network of the paper: analyses ask for it by name.
pub struct PaperNetwork {
    /// `r1`, …
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Function class it must have been trained on.
    pub function: &'static str,
    /// Input law it must have been trained on.
    pub inputs: &'static str,
    /// Dimension of its inputs.
    pub dim: usize,
    /// Points per prompt.
    pub points: usize,
}

/// Where shipped networks are, below the directory that commands are run in.
pub const FOLDER: &str = "models";
/// Prompts of seed 0 that networks answer once where only their predictions are kept.
pub const RECORDED: usize = 1280;
/// A network of our own, small enough to be trained in a minute or two on two cores.
pub const MINIATURE: &str = "miniature";
/// How the names of networks trained by the paper's recipe end.
const BY_THE_PAPER: &str = "-paper";

impl PaperNetwork {
    /// The experiment that trains it: by the paper's recipe where its name says so, else by the fast one.
    pub fn experiment(&self) -> String {
        match self.name.strip_suffix(BY_THE_PAPER) {
            Some(name) => name.to_string(),
            None if self.name == MINIATURE => self.name.to_string(),
            None => format!("{}-fast", self.name),
        }
    }

    /// Whether it was trained by the paper's recipe. Such networks lie beside the fast ones until analyses ask them.
    pub fn by_the_paper(&self) -> bool {
        self.name.ends_with(BY_THE_PAPER)
    }

    /// The command that trains it.
    pub fn recipe(&self) -> String {
        format!("iclab train experiments/{}.toml", self.experiment())
    }

    /// Prompts on which it is judged.
    pub fn evaluation(&self, seed: Seed, count: usize) -> Result<Prompts> {
        Ok(Task::new(self.function, self.inputs, self.dim, self.points)?.sample(seed, "eval", 0, count))
    }
}

const fn isotropic(name: &'static str, about: &'static str) -> PaperNetwork {
    PaperNetwork { name, about, function: "linear", inputs: "gaussian", dim: 20, points: 41 }
}

/// Every network that an analysis may need.
pub const NETWORKS: &[PaperNetwork] = &[
    isotropic("r1", "Transformer of 12 layers and 8 heads"),
    isotropic("r1-paper", "r1 by the paper's recipe"),
    isotropic("r1-seed1", "r1 from another seed"),
    isotropic("r1-seed2", "r1 from another seed"),
    isotropic("r1-seed3", "r1 from another seed"),
    isotropic("r1-seed4", "r1 from another seed"),
    isotropic("r1-along", "r1 at twenty checkpoints of its training"),
    isotropic("r1-relu", "r1 with ReLU in place of softmax"),
    PaperNetwork { inputs: "skewed:kappa=100", ..isotropic("r2", "r1 on ill-conditioned data") },
    PaperNetwork { inputs: "skewed:kappa=100", ..isotropic("r2-paper", "r2 by the paper's recipe") },
    PaperNetwork { function: "noisy-linear:sigma=0.1", ..isotropic("r3", "r1 on noisy labels") },
    isotropic("r4", "Transformer of 12 layers and 1 head"),
    isotropic("r5", "Transformer of 24 layers and 8 heads"),
    isotropic("r6-8", "Transformer of 1 head, 8 wide"),
    isotropic("r6-16", "Transformer of 1 head, 16 wide"),
    isotropic("r6-32", "Transformer of 1 head, 32 wide"),
    isotropic("r6-64", "Transformer of 1 head, 64 wide"),
    isotropic("r7", "LSTM of 10 layers"),
    isotropic("r7-wide", "LSTM of 10 layers, twice as wide"),
    PaperNetwork {
        function: "relu-2nn",
        points: 101,
        ..isotropic("r8", "Transformer on two-layer ReLU networks")
    },
    PaperNetwork {
        function: "tanh-2nn",
        points: 101,
        ..isotropic("r9", "Transformer on two-layer tanh networks")
    },
    PaperNetwork { dim: 5, points: 16, ..isotropic(MINIATURE, "Transformer of 6 layers and 2 heads, d=5") },
];

/// Finds a network's row by name.
pub fn named(name: &str) -> Result<&'static PaperNetwork> {
    NETWORKS.iter().find(|n| n.name == name).ok_or_else(|| Error::UnknownName {
        kind: "network",
        name: name.to_string(),
        hint: hint(name, NETWORKS.iter().map(|n| n.name)),
    })
}

/// Where analyses get networks from.
pub trait Networks: Send + Sync {
    /// Whether the network of this name is there, and can be asked the first `count` prompts of a seed.
    fn has(&self, name: &str, seed: Seed, count: usize) -> bool;

    /// The network with a read-out fitted for every layer; `progress` hears what is going on.
    fn probed(&self, name: &str, progress: Progress) -> Result<Arc<dyn Learner>>;

    /// The network with its own, trained read-out at every layer, on that state of the layers before the last.
    fn own_read_out(&self, name: &str, state: ReadPoint) -> Result<Arc<dyn Learner>>;

    /// The network itself, to take parts out of it.
    fn opened(&self, name: &str, progress: Progress) -> Result<LoadedProbe>;

    /// The network at checkpoints of its training, with the steps taken by then; none when nothing was kept.
    fn checkpoints(&self, name: &str, progress: Progress) -> Result<Vec<(u64, Arc<dyn Learner>)>>;
}

/// Networks in directories: `plan.toml` and `checkpoint.safetensors` each.
#[derive(Default)]
pub struct Models {
    root: PathBuf,
    given: BTreeMap<String, PathBuf>,
}

impl Models {
    /// Networks in the folders of `root` that bear their names.
    pub fn under(root: impl Into<PathBuf>) -> Models {
        Models { root: root.into(), given: BTreeMap::new() }
    }

    /// Takes one from another directory, given as `r1=DIR`, if it is there and was trained on the task of that name.
    pub fn give(&mut self, text: &str) -> Result<()> {
        let Some((name, dir)) = text.split_once('=').filter(|(_, dir)| !dir.is_empty()) else {
            let why = format!(
                "model '{text}' names no directory; accepted: NAME=DIRECTORY, as in r1=runs/r1-fast-…"
            );
            return Err(Error::BadData(why));
        };
        let (named, dir) = (named(name)?, PathBuf::from(dir));
        check_task(named, &read_plan(&dir)?, &dir)?;
        let weights = dir.join(CHECKPOINT);
        if !weights.is_file() {
            let source = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(Error::File { action: "read", path: weights, source });
        }
        self.given.insert(name.to_string(), dir);
        Ok(())
    }

    fn directory(&self, name: &str) -> PathBuf {
        self.given.get(name).cloned().unwrap_or_else(|| self.root.join(name))
    }

    /// Whether a directory of that name is there.
    pub fn is_here(&self, name: &str) -> bool {
        self.given.contains_key(name) || !self.root.as_os_str().is_empty() && self.root.join(name).is_dir()
    }

    /// The directory of a network whose files are as they should be.
    fn checked(&self, name: &str) -> Result<PathBuf> {
        let dir = self.directory(name);
        if dir.join(Card::FILE).is_file() {
            Card::read(&dir)?.verify(&dir)?;
        }
        check_task(named(name)?, &read_plan(&dir)?, &dir)?;
        Ok(dir)
    }

    fn find(&self, name: &str) -> Result<LoadedNetwork> {
        probe::load(&self.checked(name)?)
    }
}

/// Whether predictions are all that is kept of a network.
fn only_recorded(dir: &Path) -> bool {
    dir.join(Recorded::FILE).is_file() && !dir.join(CHECKPOINT).is_file()
}

impl Networks for Models {
    fn has(&self, name: &str, seed: Seed, count: usize) -> bool {
        self.is_here(name) && (!only_recorded(&self.directory(name)) || seed == Seed(0) && count <= RECORDED)
    }

    fn probed(&self, name: &str, progress: Progress) -> Result<Arc<dyn Learner>> {
        let dir = self.checked(name)?;
        if only_recorded(&dir) {
            return Ok(Arc::new(Recorded::read(&dir.join(Recorded::FILE), name)?));
        }
        Ok(Arc::new(self.opened(name, progress)?.probed))
    }

    fn own_read_out(&self, name: &str, state: ReadPoint) -> Result<Arc<dyn Learner>> {
        let found = self.find(name)?;
        Ok(Arc::new(Probed::trained_on(state, found.name, found.weights)))
    }

    fn opened(&self, name: &str, progress: Progress) -> Result<LoadedProbe> {
        let opened = self.find(name)?.probe(None, &Options::default(), progress)?;
        opened.notes.iter().for_each(|note| progress(note));
        Ok(opened)
    }

    fn checkpoints(&self, name: &str, progress: Progress) -> Result<Vec<(u64, Arc<dyn Learner>)>> {
        checkpoints::of(&self.checked(name)?, progress)
    }
}

const PLAN: &str = "plan.toml";
const CHECKPOINT: &str = "checkpoint.safetensors";
fn read_plan(dir: &Path) -> Result<Experiment> {
    Experiment::read(&dir.join(PLAN))
}

/// Every file of a folder and of the folders in it.
fn files_under(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files_under(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn check_task(named: &PaperNetwork, experiment: &Experiment, dir: &Path) -> Result<()> {
    let task = &experiment.task;
    let found = (task.function.as_str(), task.inputs.as_str(), task.dim, task.points);
    if found == (named.function, named.inputs, named.dim, named.points) {
        return Ok(());
    }
    let why = format!(
        "task {} of {} inputs, d={}, {} points; accepted for {} ({}): {} of {} inputs, d={}, {} points",
        found.0,
        found.1,
        found.2,
        found.3,
        named.name,
        named.about,
        named.function,
        named.inputs,
        named.dim,
        named.points
    );
    Err(Error::Content { path: dir.join(PLAN), why })
}
