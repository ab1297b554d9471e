//! A network to be shared: its weights by any of its names, and the model card that the Hugging Face hub shows.
//!
//! card: the text; gpt2.py, lstm.py, example.py: the Python that the card prints.

mod card;

use std::path::{Path, PathBuf};

use engine::interchange::{Imported, load_model};
use engine::model::checkpoint;

use super::experiment::Experiment;
use super::find;
use super::models::{Card, only_recorded};
use super::runs::{CHECKPOINT, PLAN, RunResult, Unfinished, finished, unfinished};
use crate::error::{Error, Result};

/// A network and what is known of it.
pub struct Shared {
    /// The weights.
    pub model: Imported,
    /// What it is called.
    pub name: String,
    /// Which network a name stands for, a sentence; `None` where a path was given.
    pub note: Option<String>,
    /// How far its training is, unless it is over.
    pub unfinished: Option<Unfinished>,
    card: Option<Card>,
    experiment: Option<Experiment>,
    result: Option<RunResult>,
}

impl Shared {
    /// Reads a network: a checkpoint, the directory of a run or of a shipped network, or its name. The files of a network
    /// with a card must be what the card says.
    pub fn open(given: &Path) -> Result<Shared> {
        let found = if given.exists() { None } else { Some(find(&given.to_string_lossy())?) };
        let note = found.as_ref().and_then(|found| found.note.clone());
        let path = found.map_or_else(|| given.to_path_buf(), |found| found.path);
        let dir = directory(&path);
        let weights = if path.is_dir() { weights_of(&path)? } else { path.clone() };
        let card = dir.filter(|dir| dir.join(Card::FILE).is_file()).map(|dir| {
            let card = Card::read(dir)?;
            card.verify(dir).map(|()| card)
        });
        let card = card.transpose()?;
        let model = load_model(&weights).map_err(|error| Error::BadData(error.to_string()))?;
        let experiment = match dir {
            Some(dir) => Some(Experiment::read(&dir.join(PLAN))?),
            None => trained_by(&weights),
        };
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let named = card.as_ref().map(|card| card.name.clone());
        let name = named.or_else(|| Some(experiment.as_ref()?.name.clone())).unwrap_or_else(stem);
        let result = dir.and_then(finished);
        Ok(Shared { model, name, note, unfinished: unfinished(&path), card, experiment, result })
    }
}

/// The directory of the run or shipped network that a path is, or whose newest checkpoint it is.
fn directory(path: &Path) -> Option<&Path> {
    let newest = path.file_name().is_some_and(|name| name == CHECKPOINT);
    let dir = if newest { path.parent()? } else { path };
    dir.join(PLAN).is_file().then_some(dir)
}

fn weights_of(dir: &Path) -> Result<PathBuf> {
    let accepted =
        "accepted: a directory made by iclab train, a checkpoint, or the name of a network that is here";
    if !dir.join(PLAN).is_file() {
        return Err(Error::content(dir, format!("is a directory without {PLAN}; {accepted}")));
    }
    if only_recorded(dir) {
        return Err(Error::content(
            dir,
            format!("keeps what its network predicted, but no weights; {accepted}"),
        ));
    }
    let weights = dir.join(CHECKPOINT);
    if !weights.is_file() {
        return Err(Error::content(dir, format!("has no {CHECKPOINT} yet; {accepted}")));
    }
    Ok(weights)
}

/// The experiment that a checkpoint names, if it does.
fn trained_by(weights: &Path) -> Option<Experiment> {
    Experiment::parse(checkpoint::metadata(weights).ok()?.get("experiment")?, weights).ok()
}
