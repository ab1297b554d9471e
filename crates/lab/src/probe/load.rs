//! From a run, or any checkpoint, to a network with read-outs: those saved beside it, or fresh ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::interchange;
use engine::model::networks::Network;

use super::saved::{SavedReadOuts, beside, hash};
use super::{Options, Probed};
use crate::Progress;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::networks::Weights;
use crate::networks::experiment::{Experiment, TaskSpec};
use crate::networks::models::Card;
use crate::networks::runs::{self, CHECKPOINT, PLAN, Unfinished};

/// A network that was found, and what is known about it.
#[derive(Clone)]
pub struct LoadedNetwork {
    /// For tables and legends.
    pub name: String,
    /// The network.
    pub weights: Arc<Weights>,
    /// What it was trained on, if a file says.
    pub task: Option<TaskSpec>,
    /// Seed of its training, if a file says.
    pub seed: Option<u64>,
    /// Where its weights came from.
    pub checkpoint: PathBuf,
}

/// A network with read-outs.
pub struct LoadedProbe {
    /// The learner.
    pub probed: Probed,
    /// The prompts its read-outs were fitted to.
    pub task: TaskSpec,
    /// Seed of those prompts.
    pub seed: u64,
    /// Where read-outs were found that were fitted before, if they were.
    pub saved: Option<PathBuf>,
    /// How far its training is, if that is not over.
    pub unfinished: Option<Unfinished>,
    /// What the user should know, in full sentences.
    pub notes: Vec<String>,
}

/// The paper's task, for networks that do not say theirs.
pub fn usual_task(features: usize) -> TaskSpec {
    TaskSpec { function: "linear".into(), inputs: "gaussian".into(), dim: features, points: 41 }
}

/// Finds the network of a run directory, a checkpoint of iclab, or a network of another program.
pub fn load(path: &Path) -> Result<LoadedNetwork> {
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if path.join(PLAN).is_file() {
        let experiment = Experiment::read(&path.join(PLAN))?;
        let network = experiment.network.build(experiment.task.dim, experiment.task.points)?;
        let checkpoint = path.join(CHECKPOINT);
        let weights = Arc::new(Weights::read(&checkpoint, network)?);
        return Ok(LoadedNetwork {
            // A shipped network goes by the name that analyses and users have for it.
            name: Card::read(path).map_or(experiment.name, |card| card.name),
            weights,
            task: Some(experiment.task),
            seed: Some(experiment.training.seed),
            checkpoint,
        });
    }
    if !path.exists() {
        let why = "there is no such run; accepted: a directory made by iclab train, or a checkpoint";
        return Err(Error::content(path, why));
    }
    let own =
        path.is_file().then(|| engine::model::checkpoint::metadata(path).ok()).flatten().unwrap_or_default();
    let failed = |e: interchange::InterchangeError| Error::BadData(e.to_string());
    let model = if own.contains_key(interchange::NETWORK) {
        interchange::load_model(path).map_err(failed)?
    } else {
        interchange::import(path, None).map_err(failed)?
    };
    let experiment = own.get("experiment").and_then(|text| Experiment::parse(text, path).ok());
    let weights = Weights::new(model.network, model.params);
    Ok(LoadedNetwork {
        name: experiment.as_ref().map_or_else(|| stem(path), |e| e.name.clone()),
        weights: Arc::new(weights),
        task: experiment.as_ref().map(|e| e.task.clone()),
        seed: experiment.map(|e| e.training.seed),
        checkpoint: if path.is_dir() { path.join("model.safetensors") } else { path.to_path_buf() },
    })
}

/// Points per prompt that a network can hold.
fn most_points(network: &Network) -> usize {
    match network {
        Network::Gpt2(config) => config.positions / 2,
        Network::Lstm(_) => usize::MAX,
    }
}

/// Refuses prompts that do not fit into a network.
pub(super) fn check_size(weights: &Weights, name: &str, dim: usize, points: usize) -> Result<()> {
    let refuse = |what: String, accepted: String| {
        Err(Error::BadData(format!("prompts of {what} for {name}; accepted: {accepted}")))
    };
    let (features, most) = (weights.network.features(), most_points(&weights.network));
    if dim > features {
        return refuse(format!("{dim} dimensions"), format!("at most {features}"));
    }
    if points > most {
        return refuse(format!("{points} points"), format!("at most {most}, two of its positions each"));
    }
    Ok(())
}

impl LoadedNetwork {
    /// What it was trained on; else what read-outs beside it were fitted to; else the paper's task, as far as it can hold it.
    pub fn known_task(&self) -> TaskSpec {
        self.task.clone().or_else(|| self.saved_task()).unwrap_or_else(|| self.usual_task())
    }

    /// The paper's task in as many dimensions as it reads, and at most as many points as it can hold.
    pub fn usual_task(&self) -> TaskSpec {
        let usual = usual_task(self.weights.network.features());
        TaskSpec { points: usual.points.min(most_points(&self.weights.network)), ..usual }
    }

    /// What saved read-outs of these weights were fitted to.
    fn saved_task(&self) -> Option<TaskSpec> {
        let saved = SavedReadOuts::read(&beside(&self.checkpoint)).ok()?;
        (saved.checkpoint == hash(&self.weights) && saved.fits(&self.weights)).then_some(saved.task)
    }

    /// The task to fit read-outs to when prompts of `asked` will come: none where the network or saved read-outs say theirs.
    pub(super) fn task_to_fit(&self, asked: Option<&TaskSpec>) -> Option<TaskSpec> {
        let fresh = self.task.is_none() && self.saved_task().is_none();
        asked.filter(|_| fresh).cloned()
    }

    /// Refuses prompts that do not fit into the network.
    pub fn check_size(&self, asked: &TaskSpec) -> Result<()> {
        check_size(&self.weights, &self.name, asked.dim, asked.points)
    }

    /// Seed of its training, or else 0.
    pub fn seed_or_zero(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    /// How far its training is, if that is not over.
    pub fn unfinished(&self) -> Option<Unfinished> {
        runs::unfinished(&self.checkpoint)
    }

    /// Gives every layer a read-out: the saved ones where they belong to these weights and were fitted as asked, else
    /// fresh ones. Those fitted the usual way are saved. `task` is for networks that do not say theirs.
    pub fn probe(self, task: Option<TaskSpec>, options: &Options, progress: Progress) -> Result<LoadedProbe> {
        if let Some(own) = self.task.as_ref().filter(|own| task.as_ref().is_some_and(|given| given != *own)) {
            let TaskSpec { function, inputs, dim, points } = own;
            let why = format!(
                "was trained on {function} of {inputs} inputs, {dim} dimensions, {points} points; accepted: no other task"
            );
            return Err(Error::content(&self.checkpoint, why));
        }
        let path = beside(&self.checkpoint);
        let usual = *options == Options::default();
        let hash = hash(&self.weights);
        let unfinished = self.unfinished();
        let mut notes: Vec<String> = unfinished.iter().map(|run| run.to_string()).collect();
        let asked = self.task.clone().or(task);
        // Other wishes neither use nor replace what is saved.
        match (usual && path.is_file()).then(|| SavedReadOuts::read(&path)) {
            Some(Ok(saved)) if saved.checkpoint != hash => {
                notes.push(format!("{} belongs to other weights and is replaced", path.display()));
            }
            Some(Ok(saved))
                if saved.fits(&self.weights) && asked.as_ref().is_none_or(|task| *task == saved.task) =>
            {
                let SavedReadOuts { read_outs, fit, task, seed, .. } = saved;
                let probed = Probed::new(self.name, self.weights, read_outs, Some(fit));
                return Ok(LoadedProbe { probed, task, seed, saved: Some(path), unfinished, notes });
            }
            Some(Err(why)) => {
                notes.push(format!("{} cannot be used ({why}) and is replaced", path.display()))
            }
            _ => {}
        }
        let spec = asked.unwrap_or_else(|| self.usual_task());
        self.check_size(&spec)?;
        let task = spec.build()?;
        let seed = self.seed_or_zero();
        let probed = Probed::fit_with(self.name, self.weights, &task, Seed(seed), options, progress)?;
        if usual {
            let fit = probed.fit.clone().expect("just fitted");
            let read_outs = probed.read_outs.clone();
            let saved = SavedReadOuts { checkpoint: hash, task: spec.clone(), seed, fit, read_outs };
            if let Err(error) = saved.write(&path) {
                notes.push(format!(
                    "the read-outs are not saved, so the next command fits them again: {error}"
                ));
            }
        }
        Ok(LoadedProbe { probed, task: spec, seed, saved: None, unfinished, notes })
    }
}
