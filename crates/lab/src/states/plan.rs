//! State probes of a network or construction by its name, with every default written out: the `plan.toml` of
//! `iclab probe --state`.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Options, Quantity, ReadOutKind, States};
use crate::Progress;
use crate::constructions::{Constructed, Construction, file};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::learners::planned::Sampled;
use crate::learners::steps::Steps;
use crate::networks::experiment::TaskSpec;
use crate::networks::models::only_recorded;
use crate::probe::{LoadedNetwork, NamedNetwork, load};
use crate::streams::{Sight, Streams};

/// The algorithm whose quantities are looked for when nobody says which.
pub const ALGORITHM: &str = "newton:start=identity";

/// What is to be read, as somebody asks for it; [`Plan::new`] writes out what is left open.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The network by name, or `construct:FILE`.
    pub network: String,
    /// The algorithm whose quantities are looked for; a construction's own, or Newton from ηI, when absent.
    pub algorithm: Option<String>,
    /// After how many of its iterations; 0 to 12, or those of a construction, when absent.
    pub steps: Option<String>,
    /// What is fitted.
    pub kind: ReadOutKind,
    /// Prompts to fit to.
    pub prompts: usize,
    /// Inputs that are judged but not fitted.
    pub other_inputs: Option<String>,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// What is read, and on which prompts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// `probe --state`.
    pub command: String,
    /// The network by its path, or `construct:FILE`.
    pub network: String,
    /// The algorithm whose quantities are looked for.
    pub algorithm: String,
    /// After how many of its iterations.
    pub steps: String,
    /// What is fitted.
    pub read_out: ReadOutKind,
    /// Prompts to fit to, and to judge on.
    pub prompts: [usize; 2],
    /// Pairs read before a token is looked at.
    pub pairs: Vec<usize>,
    /// Other numbers of pairs, judged but not fitted.
    pub other_pairs: Vec<usize>,
    /// Other inputs, judged but not fitted.
    pub other_inputs: Option<String>,
    /// Where prompts are sampled from.
    pub task: Sampled,
}

/// What was found.
pub struct Found {
    /// Everything that was decoded.
    pub states: States,
    /// What the network is called.
    pub network: String,
    /// What the user should know, in full sentences.
    pub notes: Vec<String>,
}

/// Whose states are read.
enum Subject {
    Network(Box<LoadedNetwork>),
    Construction(Box<Construction>),
}

impl Subject {
    fn load(name: &str) -> Result<Subject> {
        match name.strip_prefix("construct:") {
            Some(path) => Ok(Subject::Construction(Box::new(file::read(Path::new(path))?))),
            None => Ok(Subject::Network(Box::new(load(Path::new(name))?))),
        }
    }

    fn streams(&self) -> &dyn Streams {
        match self {
            Subject::Network(loaded) => &*loaded.weights,
            Subject::Construction(construction) => &**construction,
        }
    }
}

/// Numbers of pairs, spread from `first` to `last`, and those half-way between them.
fn spread(first: usize, last: usize) -> (Vec<usize>, Vec<usize>) {
    let parts = 5.min(last - first).max(1);
    let mut pairs: Vec<usize> = (0..=parts).map(|i| first + i * (last - first) / parts).collect();
    pairs.dedup();
    let between = pairs.windows(2).map(|w| (w[0] + w[1]) / 2);
    let others = between.filter(|n| !pairs.contains(n)).collect();
    (pairs, others)
}

impl Plan {
    /// A plan with every default written out; also what the user should know of that, in full sentences.
    pub fn new(wish: Wish) -> Result<(Plan, Vec<String>)> {
        let mut notes = Vec::new();
        let network = match wish.network.starts_with("construct:") {
            true => wish.network.clone(),
            false => {
                let named = NamedNetwork::parse(wish.network.strip_prefix("run:").unwrap_or(&wish.network))?;
                if only_recorded(&named.found.path) {
                    let why =
                        "keeps what its network predicted, but no weights; accepted: a network with weights";
                    return Err(Error::content(&named.found.path, why));
                }
                notes.extend(named.found.note);
                named.found.path.display().to_string()
            }
        };
        let subject = Subject::load(&network)?;
        let sight = subject.streams().sight();
        let (known, algorithm, steps) = match subject {
            Subject::Network(loaded) => (loaded.known_task(), ALGORITHM.to_string(), "0..=12".to_string()),
            Subject::Construction(construction) => {
                let recipe = &construction.recipe;
                let known = TaskSpec {
                    function: "linear".into(),
                    inputs: "gaussian".into(),
                    dim: recipe.dim,
                    points: recipe.pairs + 1,
                };
                let steps = format!("0..={}", recipe.iterations);
                let pairs = recipe.pairs;
                (known, Constructed::new(&*network, *construction).solver(pairs), steps)
            }
        };
        let most = known.points - 1;
        if most == 0 {
            return Err(Error::BadData(
                "prompts of 1 point have no pair; accepted: at least 2 points".into(),
            ));
        }
        let (pairs, other_pairs) = match sight {
            // with hardly more pairs than dimensions, T_k is all but singular in a few prompts that would decide everything
            Sight::Past if 5 * known.dim / 4 < most => spread(5 * known.dim / 4, most),
            Sight::Past => spread(most.div_ceil(2), most),
            Sight::All => (vec![most], Vec::new()),
        };
        // whatever the network was trained on, the other inputs are stretched otherwise
        let other = if known.inputs == "skewed:kappa=10" { "gaussian" } else { "skewed:kappa=10" };
        let stretchable = known.dim > 1;
        let plan = Plan {
            command: COMMAND.into(),
            algorithm: wish.algorithm.unwrap_or(algorithm),
            steps: wish.steps.unwrap_or(steps),
            read_out: wish.kind,
            prompts: [wish.prompts, (wish.prompts / 4).max(2)],
            pairs,
            other_pairs,
            other_inputs: wish.other_inputs.or_else(|| stretchable.then(|| other.into())),
            task: Sampled::new(known, wish.seed),
            network,
        };
        plan.options()?; // whatever is wrong is said before anything runs
        Ok((plan, notes))
    }

    fn options(&self) -> Result<Options> {
        let task = self.task.task()?;
        let other = |inputs: &String| TaskSpec { inputs: inputs.clone(), ..self.task.spec() }.build();
        let other_inputs = self.other_inputs.as_ref().map(other).transpose()?;
        let options = Options {
            algorithm: self.algorithm.clone(),
            steps: Steps::parse(&self.steps)?.as_slice().to_vec(),
            quantities: Quantity::every(),
            kind: self.read_out,
            prompts: self.prompts,
            pairs: self.pairs.clone(),
            other_pairs: self.other_pairs.clone(),
            other_inputs,
            control: true,
            seed: Seed(self.task.seed),
        };
        options.check(&task)?;
        Ok(options)
    }

    /// Reads the states.
    pub fn run(&self, tell: Progress) -> Result<Found> {
        let subject = Subject::load(&self.network)?;
        let (name, notes) = match &subject {
            Subject::Network(loaded) => {
                (loaded.name.clone(), loaded.unfinished().iter().map(|run| run.to_string()).collect())
            }
            Subject::Construction(construction) => {
                (construction.recipe.variant.name().to_string(), Vec::new())
            }
        };
        tell(&format!("reading the states of {name}"));
        let states = States::of(subject.streams(), &self.task.task()?, &self.options()?)?;
        Ok(Found { states, network: name, notes })
    }
}

/// What plans of it say.
pub const COMMAND: &str = "probe --state";
