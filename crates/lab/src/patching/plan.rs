//! Patching of a network by its name, with every default written out: the `plan.toml` of `iclab patch`.

use serde::{Deserialize, Serialize};

use super::{Donor, Maps, Part, Place};
use crate::Progress;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::findings::numbers::counted;
use crate::learners::planned::Sampled;
use crate::networks::devices::Device;
use crate::networks::experiment::TaskSpec;
use crate::networks::models::only_recorded;
use crate::probe::{NamedNetwork, load};

/// What is to be patched, as somebody asks for it; [`Plan::new`] writes out what is left open.
pub struct Wish {
    /// The network, by name.
    pub network: String,
    /// How donors differ.
    pub donor: Donor,
    /// What is patched.
    pub part: Part,
    /// Whether every token is patched by itself, not all of a role together.
    pub by_token: bool,
    /// Pairs before the query; 3d/2 when absent, or as many as the network can hold.
    pub pairs: Option<usize>,
    /// How many prompts.
    pub prompts: usize,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// What is patched, and on which prompts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// `patch`.
    pub command: String,
    /// The network, by its path.
    pub network: String,
    /// How donors differ.
    pub donor: Donor,
    /// What is patched.
    pub part: Part,
    /// Whether every token is patched by itself.
    pub by_token: bool,
    /// Pairs before the query.
    pub pairs: usize,
    /// How many prompts.
    pub prompts: usize,
    /// Where prompts are sampled from.
    pub task: Sampled,
}

/// What was found.
pub struct Found {
    /// The maps.
    pub maps: Maps,
    /// How donors differ.
    pub donor: Donor,
    /// What the network is called.
    pub network: String,
    /// Where it ran: `cpu`, `cuda float32`.
    pub device: String,
    /// What the user should know, in full sentences.
    pub notes: Vec<String>,
}

impl Plan {
    /// A plan with every default written out; also what the user should know of that, in full sentences.
    pub fn new(wish: Wish) -> Result<(Plan, Vec<String>)> {
        let Wish { network, donor, part, by_token, pairs, prompts, seed } = wish;
        let named = NamedNetwork::parse(network.strip_prefix("run:").unwrap_or(&network))?;
        if only_recorded(&named.found.path) {
            let why = "keeps what its network predicted, but no weights; accepted: a network with weights";
            return Err(Error::content(&named.found.path, why));
        }
        let loaded = load(&named.found.path)?;
        let known = loaded.known_task();
        let most = known.points - 1;
        let pairs = pairs.unwrap_or((3 * known.dim / 2).clamp(1, most));
        if !(1..=most).contains(&pairs) {
            return Err(Error::BadData(format!("{pairs} pairs; accepted: 1 to {most}")));
        }
        let task = Sampled::new(TaskSpec { points: pairs + 1, ..known }, seed);
        let network = named.found.path.display().to_string();
        let plan = Plan { command: "patch".into(), network, donor, part, by_token, pairs, prompts, task };
        Ok((plan, named.found.note.into_iter().collect()))
    }

    /// Patches on this machine's cores.
    pub fn run(&self, tell: Progress) -> Result<Found> {
        self.run_on(&Device::Cpu, tell)
    }

    /// Patches on a device.
    pub fn run_on(&self, device: &Device, tell: Progress) -> Result<Found> {
        let loaded = load(std::path::Path::new(&self.network))?;
        let notes = loaded.unfinished().iter().map(|run| run.to_string()).collect();
        let (prompts, donors) = self.donor.pairs(&self.task.task()?, Seed(self.task.seed), self.prompts);
        let places = match self.by_token {
            true => (0..=2 * self.pairs).map(Place::Token).collect(),
            false => Place::ROLES.to_vec(),
        };
        tell(&format!(
            "patching {} of {}",
            counted(places.len() * loaded.weights.network.layers(), "place", "places"),
            loaded.name
        ));
        let (pair, seed) = ([&prompts, &donors], Seed(self.task.seed));
        let maps = Maps::on(device, &loaded.weights, pair, self.part, places, seed)?;
        Ok(Found { maps, donor: self.donor, network: loaded.name, device: device.name(), notes })
    }
}
