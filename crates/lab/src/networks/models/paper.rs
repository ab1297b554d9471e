//! The networks of the paper by name: what each is, what it was trained on, and by which experiment.

use std::path::Path;

use crate::data::prompts::{Prompts, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result, hint};
use crate::networks::experiment::{Experiment, TaskSpec};
use crate::networks::runs::PLAN;

/// A network of the paper: analyses ask for it by name.
#[derive(Debug)]
pub struct PaperNetwork {
    /// `r1`, …
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Function class it must have been trained on.
    pub function: &'static str,
    /// Input distribution it must have been trained on.
    pub inputs: &'static str,
    /// Dimension of its inputs.
    pub dim: usize,
    /// Points per prompt.
    pub points: usize,
}

/// A network of our own, small enough to be trained in about a minute on two cores.
pub const MINIATURE: &str = "miniature";
/// How the names of fast experiments end, and of networks by them that lie beside the paper's own.
const FAST: &str = "-fast";

/// Whether a network of this name is another or a variant of it: `r1-relu` of `r1`.
pub fn is_kin(name: &str, of: &str) -> bool {
    name.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

impl PaperNetwork {
    /// The experiment that trains it, in minutes where there is such a recipe: what `--from-scratch` runs.
    pub fn experiment(&self) -> String {
        match self.name.ends_with(FAST) || self.name == MINIATURE {
            true => self.name.to_string(),
            false => format!("{}{FAST}", self.name),
        }
    }

    /// The command that trains it.
    pub fn recipe(&self) -> String {
        format!("iclab train experiments/{}.toml", self.experiment())
    }

    /// Prompts on which it is evaluated.
    pub fn evaluation(&self, seed: Seed, count: usize) -> Result<Prompts> {
        Ok(Task::new(self.function, self.inputs, self.dim, self.points)?.sample(seed, "eval", 0, count))
    }

    /// Refuses a run that was trained on another task.
    pub(super) fn check_task(&self, experiment: &Experiment, dir: &Path) -> Result<()> {
        let TaskSpec { function, inputs, dim, points } = &experiment.task;
        if (&**function, &**inputs, *dim, *points) == (self.function, self.inputs, self.dim, self.points) {
            return Ok(());
        }
        let why = format!(
            "task {function} of {inputs} inputs, d={dim}, {points} points; accepted for {} ({}): {} of {} inputs, d={}, \
             {} points",
            self.name, self.about, self.function, self.inputs, self.dim, self.points
        );
        Err(Error::content(dir.join(PLAN), why))
    }
}

const fn isotropic(name: &'static str, about: &'static str) -> PaperNetwork {
    PaperNetwork { name, about, function: "linear", inputs: "gaussian", dim: 20, points: 41 }
}

/// Every network that an analysis may need.
pub const NETWORKS: &[PaperNetwork] = &[
    isotropic("r1", "Transformer of 12 layers and 8 heads"),
    isotropic("r1-fast", "r1 by the fast recipe, with Muon"),
    isotropic("r1-seed1", "r1 from another seed"),
    isotropic("r1-seed2", "r1 from another seed"),
    isotropic("r1-seed3", "r1 from another seed"),
    isotropic("r1-seed4", "r1 from another seed"),
    isotropic("r1-along", "r1 at twenty checkpoints of its training"),
    isotropic("r1-relu", "r1 with ReLU in place of softmax"),
    PaperNetwork { inputs: "skewed:kappa=100", ..isotropic("r2", "r1 on ill-conditioned data") },
    PaperNetwork { inputs: "skewed:kappa=100", ..isotropic("r2-fast", "r2 by the fast recipe, with Muon") },
    PaperNetwork { function: "noisy-linear:sigma=0.1", ..isotropic("r3", "r1 on noisy labels") },
    PaperNetwork {
        function: "noisy-linear:sigma=0.1",
        ..isotropic("r3-fast", "r3 by the fast recipe, with Muon")
    },
    isotropic("r4", "Transformer of 12 layers and 1 head"),
    isotropic("r4-fast", "r4 by the fast recipe, with Muon"),
    isotropic("r5", "Transformer of 24 layers and 8 heads"),
    isotropic("r5-fast", "r5 by the fast recipe, with Muon"),
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

/// Networks whose induced weights the paper's figures compare; `models add` keeps them.
pub const ASKED_FOR_WEIGHTS: [&str; 3] = ["r1", "r2", "r4"];

/// Finds a network's row by name.
pub fn named(name: &str) -> Result<&'static PaperNetwork> {
    NETWORKS.iter().find(|n| n.name == name).ok_or_else(|| Error::UnknownName {
        kind: "network",
        name: name.to_string(),
        hint: hint(name, NETWORKS.iter().map(|n| n.name)),
    })
}
