//! State probes: what a Transformer holds at its tokens, layer by layer, of what an algorithm would hold there.
//!
//! A read-out is fitted from the residual stream at x tokens or y tokens to a [`Quantity`], such as T_k x or the residual
//! y − x·w_k, computed from the pairs that the token sees. Much can be guessed from the token's own x and y, so that
//! what counts is the *gain*: the share of what a read-out from these alone leaves that the stream explains, on prompts it
//! was not fitted to. Shuffled targets are the control; other numbers of pairs and other inputs ask whether what was found is
//! the quantity or something that goes with it.
//!
//! ```text
//! Streams (a network, a construction) × Role × Quantity after k iterations → Decoded { gain, control, … }
//! ```

mod decode;
pub mod plan;
mod read_out;
mod shown;
mod targets;

pub use read_out::ReadOutKind;
pub use targets::{Quantity, Role};

use self::decode::Sets;
use crate::data::prompts::Task;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::parallel;
use crate::solvers;
use crate::stats::Estimate;
use crate::streams::{Sight, Streams};

/// What is asked of the states.
pub struct Options {
    /// The algorithm whose quantities are looked for; it must have a closed form in the eigen-directions of S.
    pub algorithm: String,
    /// After how many of its iterations.
    pub steps: Vec<u64>,
    /// What is looked for.
    pub quantities: Vec<Quantity>,
    /// What is fitted.
    pub kind: ReadOutKind,
    /// Prompts to fit to, and to judge on.
    pub prompts: [usize; 2],
    /// Pairs read before a token is looked at; where a token sees the whole prompt there is one number.
    pub pairs: Vec<usize>,
    /// Other numbers of pairs, judged but not fitted; none where all is seen.
    pub other_pairs: Vec<usize>,
    /// Other inputs, judged but not fitted.
    pub other_inputs: Option<Task>,
    /// Whether shuffled targets are read as well.
    pub control: bool,
    /// Seed of prompts, shuffles and read-outs.
    pub seed: Seed,
}

impl Options {
    /// Refuses what cannot be asked on prompts of a task.
    pub fn check(&self, task: &Task) -> Result<()> {
        let refuse = |what: String| Err(Error::BadData(what));
        let most = task.points - 1;
        if let Some(pairs) = self.pairs.iter().chain(&self.other_pairs).find(|n| !(1..=most).contains(*n)) {
            return refuse(format!("{pairs} pairs; accepted: 1 to {most}"));
        }
        if self.pairs.is_empty() {
            return refuse("no number of pairs; accepted: at least one".into());
        }
        if let Some(few) = self.prompts.iter().find(|&&count| count < 2) {
            return refuse(format!("{few} prompts to fit to or to judge on; accepted: at least 2"));
        }
        solvers::build(&self.algorithm).map(drop)
    }
}

/// How well one quantity can be read at one layer.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// Layers before the stream: 0 is what the first layer reads.
    pub layer: usize,
    /// At which tokens.
    pub role: Role,
    /// What.
    pub quantity: Quantity,
    /// After how many iterations, where that matters.
    pub step: Option<u64>,
    /// Share of what the token's own x and y leave that the stream explains.
    pub gain: Estimate,
    /// Whether hardly anything is left of it: a residual after many iterations.
    pub faint: bool,
    /// The same for shuffled targets: what a read-out makes of nothing.
    pub control: Option<Estimate>,
    /// The gain after other numbers of pairs than it was fitted to.
    pub other_pairs: Option<Estimate>,
    /// The gain on other inputs than it was fitted to.
    pub other_inputs: Option<Estimate>,
}

impl Decoded {
    /// The gain that nothing explains but the stream: what it is above the control.
    pub fn selectivity(&self) -> f64 {
        self.gain.value - self.control.map_or(0.0, |control| control.value)
    }
}

/// What was decoded from a Transformer.
#[derive(Clone, Debug)]
pub struct States {
    /// Everything, by layer, role, quantity and step.
    pub all: Vec<Decoded>,
    /// Layers of the Transformer.
    pub layers: usize,
}

impl States {
    /// Reads the states of a Transformer on prompts of a task.
    pub fn of(streams: &dyn Streams, task: &Task, options: &Options) -> Result<States> {
        options.check(task)?;
        let algorithm = solvers::build(&options.algorithm)?;
        if streams.sight() == Sight::All && options.pairs.len() > 1 {
            let given = options.pairs.len();
            return Err(Error::BadData(format!(
                "{given} numbers of pairs, but every token sees the whole prompt; accepted: one"
            )));
        }
        let sets = Sets::sample(task, options, streams.sight());
        let looked = sets.look(streams, &*algorithm, options)?;
        let places =
            looked.iter().flat_map(|looked| (0..=streams.layers()).map(move |layer| (looked, layer)));
        let places: Vec<_> = places.collect();
        let decoded = parallel::map_items(&places, |(of, layer)| of.decode(*layer, options));
        let all = decoded.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        Ok(States { all, layers: streams.layers() })
    }

    /// A quantity at the tokens of a role, by layer and step.
    pub fn of_quantity(&self, role: Role, quantity: Quantity) -> impl Iterator<Item = &Decoded> {
        self.all.iter().filter(move |d| d.role == role && d.quantity == quantity)
    }

    /// What is read best of a quantity at a layer, over steps after which there is something left to read; the fewest steps where
    /// several are equal to three digits.
    pub fn best(&self, layer: usize, role: Role, quantity: Quantity) -> Option<&Decoded> {
        let at_layer = || self.of_quantity(role, quantity).filter(move |d| d.layer == layer && !d.faint);
        let most = at_layer().map(|d| d.gain.value).fold(f64::NEG_INFINITY, f64::max);
        at_layer().find(|d| d.gain.value >= most - 5e-4)
    }
}
