//! The networks of the paper by name, and where their weights are: shipped under `models/`, or a run directory.

mod add;
mod card;
pub mod checkpoints;
mod digest;
mod paper;
mod place;
mod shelf;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Progress;
use crate::compare::recorded_weights::RecordedWeights;
use crate::compare::similarity::InducedWeights;
use crate::data::prompts::{Prompts, Questions};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::files::is_remnant;
use crate::findings::numbers::grouped;
use crate::learners::Learner;
use crate::learners::recorded::Recorded;
use crate::learners::steps::Steps;
use crate::networks::devices::Device;
use crate::networks::evaluation;
use crate::networks::experiment::Experiment;
use crate::networks::runs::{CHECKPOINT, PLAN};
use crate::patching::{Part, Patched, Place, RecordedPatches};
use crate::probe::{self, LoadedNetwork, LoadedProbe, Options, Probed, ReadPoint};

pub use add::{Added, Form, Source, add};
pub(super) use card::result_text;
pub use card::{Card, Evaluation, FileRecord};
pub use paper::{MINIATURE, NETWORKS, PaperNetwork, is_kin, named};
pub use place::{VARIABLE, folder, how_to_get, looked_in};
pub use shelf::{Shelved, card, shelf, shelved};

/// The name of a folder of networks.
pub const FOLDER: &str = "models";
/// Prompts of seed 0 that networks answer once where only their predictions are kept.
pub const RECORDED: usize = 1280;

/// How a network was trained that was not trained as the paper's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// Another way, in words: `Muon at 1.5e-3 in 8,000 steps`.
    Other(String),
    /// The paper's way from another start, in words: ` from layers of unit gain`.
    Start(&'static str),
    /// The paper's way, but not to its end.
    Cut {
        /// Steps taken.
        steps: u64,
        /// Steps that the paper took.
        of: u64,
    },
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Recipe::Other(words) => f.write_str(words),
            Recipe::Start(words) => write!(f, "the paper's recipe{words}"),
            Recipe::Cut { steps, of } => {
                write!(f, "{} of the {} steps of the paper's recipe", grouped(*steps), grouped(*of))
            }
        }
    }
}

/// Where analyses get networks from.
pub trait Networks: Send + Sync {
    /// Whether the network of this name is there, and can be asked the first `count` prompts of a seed.
    fn has(&self, name: &str, seed: Seed, count: usize) -> bool;

    /// How the network was trained, where that is not the paper's way to its end.
    fn other_recipe(&self, name: &str) -> Option<Recipe>;

    /// The network with a read-out fitted for every layer; `progress` hears what is going on.
    fn probed(&self, name: &str, progress: Progress) -> Result<Arc<dyn Learner>>;

    /// The network with its own, trained read-out at every layer, on that state of the layers before the last.
    fn own_read_out(&self, name: &str, state: ReadPoint) -> Result<Arc<dyn Learner>>;

    /// The network itself, to take parts out of it.
    fn opened(&self, name: &str, progress: Progress) -> Result<LoadedProbe>;

    /// Weights that some layers' answers to questions imply, if they are kept; else the network itself must be asked.
    fn induced(&self, name: &str, questions: &Questions, layers: &Steps) -> Result<Option<InducedWeights>>;

    /// Its answers with the residual stream before each layer taken from donors, at each of [`Place::ROLES`].
    fn patched(&self, name: &str, pair: [&Prompts; 2], progress: Progress) -> Result<Patched>;

    /// The network at checkpoints of its training, with the steps taken by then; none when nothing was kept.
    fn checkpoints(&self, name: &str, progress: Progress) -> Result<Vec<(u64, Arc<dyn Learner>)>>;
}

/// Networks in directories: `plan.toml` and `checkpoint.safetensors` each.
#[derive(Default)]
pub struct Models {
    root: PathBuf,
    given: BTreeMap<String, PathBuf>,
    /// Whether networks with weights are asked and patched again, whatever they answered once.
    asked_again: bool,
}

impl Models {
    /// Networks in the folders of `root` that bear their names.
    pub fn under(root: impl Into<PathBuf>) -> Models {
        Models { root: root.into(), ..Models::default() }
    }

    /// The same, but networks whose weights are there are asked and patched again, whatever is kept of that.
    pub fn asked_again(self, asked_again: bool) -> Models {
        Models { asked_again, ..self }
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
        named.check_task(&read_plan(&dir)?, &dir)?;
        let weights = dir.join(CHECKPOINT);
        if !weights.is_file() {
            return Err(Error::file("read", weights)(std::io::ErrorKind::NotFound.into()));
        }
        self.given.insert(name.to_string(), dir);
        Ok(())
    }

    /// Takes one that is still being trained in a directory; it must be over before the network is asked.
    pub fn expect(&mut self, network: &PaperNetwork, dir: &Path) -> Result<()> {
        network.check_task(&read_plan(dir)?, dir)?;
        self.given.insert(network.name.to_string(), dir.to_path_buf());
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
        named(name)?.check_task(&read_plan(&dir)?, &dir)?;
        Ok(dir)
    }

    /// Whether a file of answers counts: it is there, and nobody wants a network that could be asked to be asked again.
    fn is_recorded(&self, dir: &Path, file: &Path) -> bool {
        file.is_file() && (only_recorded(dir) || !self.asked_again)
    }

    fn find(&self, name: &str) -> Result<LoadedNetwork> {
        probe::load(&self.checked(name)?)
    }
}

/// Whether predictions are all that is kept of a network.
pub fn only_recorded(dir: &Path) -> bool {
    dir.join(Recorded::FILE).is_file() && !dir.join(CHECKPOINT).is_file()
}

impl Networks for Models {
    fn has(&self, name: &str, seed: Seed, count: usize) -> bool {
        self.is_here(name) && (!only_recorded(&self.directory(name)) || seed == Seed(0) && count <= RECORDED)
    }

    fn other_recipe(&self, name: &str) -> Option<Recipe> {
        let dir = self.directory(name);
        let training = read_plan(&dir).ok()?.training;
        let start = training.other_start_than_the_papers().map(Recipe::Start);
        let other = start.or(training.other_than_the_papers().map(Recipe::Other));
        let card = Card::read(&dir).ok();
        let cut = card.and_then(|card| Some(Recipe::Cut { steps: card.steps, of: card.steps_asked? }));
        other.or(cut)
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

    fn induced(&self, name: &str, questions: &Questions, layers: &Steps) -> Result<Option<InducedWeights>> {
        let dir = self.checked(name)?;
        let file = dir.join(RecordedWeights::FILE);
        match self.is_recorded(&dir, &file) {
            true => Ok(RecordedWeights::read(&file)?.find(name, questions, layers)),
            false => Ok(None),
        }
    }

    fn patched(&self, name: &str, pair: [&Prompts; 2], progress: Progress) -> Result<Patched> {
        let dir = self.checked(name)?;
        let file = dir.join(RecordedPatches::FILE);
        if self.is_recorded(&dir, &file)
            && let Some(found) = RecordedPatches::read(&file)?.find(pair)
        {
            return Ok(found);
        }
        if only_recorded(&dir) {
            let why = "holds no answers to these prompts with these donors; accepted: those of seed 0, or a network with weights";
            return Err(Error::content(file, why));
        }
        progress(&format!("patching {name}"));
        let weights = self.find(name)?.weights;
        let found = evaluation::on_cuda(|device, precision| {
            Patched::on(&Device::Cuda(device.clone(), precision), &weights, pair, Part::Stream, &Place::ROLES)
        })?;
        found.map_or_else(|| Patched::of(&weights, pair, Part::Stream, &Place::ROLES), Ok)
    }

    fn checkpoints(&self, name: &str, progress: Progress) -> Result<Vec<(u64, Arc<dyn Learner>)>> {
        checkpoints::of(&self.checked(name)?, progress)
    }
}

fn read_plan(dir: &Path) -> Result<Experiment> {
    Experiment::read(&dir.join(PLAN))
}

/// Every file of a folder and of the folders in it, but for what NFS has not removed yet.
fn files_under(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files_under(&entry.path())?);
        } else if !is_remnant(&entry.file_name()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}
