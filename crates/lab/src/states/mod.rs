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

pub mod plan;
mod read_out;
mod shown;
mod targets;

pub use read_out::ReadOutKind;
pub use targets::{Quantity, Role};

use ndarray::{Array2, Array3, Axis, s};
use rayon::prelude::*;

use self::targets::{Spot, Target, Targets, spots};
use crate::data::prompts::{Prompts, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::learners::Learner;
use crate::solvers;
use crate::stats::{Estimate, bootstrap};
use crate::streams::{Sight, Streams};

/// What is asked of the states.
pub struct Options {
    /// The algorithm whose quantities are looked for; it must have a closed form in the eigen-directions of S.
    pub algorithm: String,
    /// After how many of its iterations.
    pub steps: Vec<u64>,
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
    /// The same for shuffled targets: what a read-out makes of nothing.
    pub control: Estimate,
    /// The gain after other numbers of pairs than it was fitted to.
    pub other_pairs: Option<Estimate>,
    /// The gain on other inputs than it was fitted to.
    pub other_inputs: Option<Estimate>,
}

impl Decoded {
    /// The gain that nothing explains but the stream: what it is above the control.
    pub fn selectivity(&self) -> f64 {
        self.gain.value - self.control.value
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
        let mut all = Vec::new();
        for role in Role::ALL {
            let looked = sets.look(streams, &*algorithm, role, options)?;
            let layers = 0..=streams.layers();
            let decoded: Vec<Vec<Decoded>> =
                layers.into_par_iter().map(|layer| looked.decode(layer, options)).collect::<Result<_>>()?;
            all.extend(decoded.into_iter().flatten());
        }
        Ok(States { all, layers: streams.layers() })
    }

    /// A quantity at the tokens of a role, by layer and step.
    pub fn of_quantity(&self, role: Role, quantity: Quantity) -> impl Iterator<Item = &Decoded> {
        self.all.iter().filter(move |d| d.role == role && d.quantity == quantity)
    }

    /// What is read best of a quantity at a layer, over steps; the fewest steps where several are equal to three digits.
    pub fn best(&self, layer: usize, role: Role, quantity: Quantity) -> Option<&Decoded> {
        let at_layer = || self.of_quantity(role, quantity).filter(move |d| d.layer == layer);
        let most = at_layer().map(|d| d.gain.value).fold(f64::NEG_INFINITY, f64::max);
        at_layer().find(|d| d.gain.value >= most - 5e-4)
    }
}

/// Prompts of all kinds.
struct Sets {
    sight: Sight,
    fitted: Prompts,
    judged: Prompts,
    other_inputs: Option<Prompts>,
}

impl Sets {
    fn sample(task: &Task, options: &Options, sight: Sight) -> Sets {
        let Options { seed, prompts: [fitted, judged], .. } = *options;
        // where all is seen, the numbers of pairs are the prompt's own
        let points = |prompts: Prompts| match sight {
            Sight::Past => prompts,
            Sight::All => prompts.head(usize::MAX, options.pairs[0] + 1),
        };
        Sets {
            sight,
            fitted: points(task.sample(seed, "states/fit", 0, fitted)),
            judged: points(task.sample(seed, "states/judge", 0, judged)),
            other_inputs: options
                .other_inputs
                .as_ref()
                .map(|task| points(task.sample(seed, "states/judge", 0, judged))),
        }
    }

    /// Reads streams and computes targets, at the tokens of one role.
    fn look(
        &self,
        streams: &dyn Streams,
        algorithm: &dyn Learner,
        role: Role,
        options: &Options,
    ) -> Result<Looked> {
        let look = |prompts: &Prompts, pairs: &[usize]| -> Result<Rows> {
            let spots = spots(role, self.sight, pairs);
            let tokens: Vec<usize> = spots.iter().map(|spot| spot.token).collect();
            let targets = Targets::of(algorithm, &options.steps, role, self.sight, &spots, prompts)?;
            Ok(Rows { streams: streams.read(prompts, &tokens)?, targets, spots })
        };
        let others = self.sight == Sight::Past && !options.other_pairs.is_empty();
        Ok(Looked {
            role,
            fitted: look(&self.fitted, &options.pairs)?,
            judged: look(&self.judged, &options.pairs)?,
            other_pairs: others.then(|| look(&self.judged, &options.other_pairs)).transpose()?,
            other_inputs: self.other_inputs.as_ref().map(|p| look(p, &options.pairs)).transpose()?,
        })
    }
}

/// Streams and targets of some prompts, a row for each prompt and spot.
struct Rows {
    streams: Vec<Array3<f32>>,
    targets: Targets,
    spots: Vec<Spot>,
}

impl Rows {
    /// The stream of a layer `[row, width]`.
    fn features(&self, layer: usize) -> Array2<f64> {
        let stream = &self.streams[layer];
        let (count, spots, width) = stream.dim();
        let rows = stream.mapv(f64::from).into_shape_with_order((count * spots, width));
        rows.expect("in standard layout")
    }

    /// x, y and, for as many spots as the fit has, which of them it is. Other numbers of pairs have no spot of their own: they
    /// take the shares of the two next to them.
    fn own(&self, fitted: &[Spot]) -> Array2<f64> {
        let given = self.targets.own.ncols() - self.spots.len();
        let mut own = Array2::zeros((self.targets.own.nrows(), given + fitted.len()));
        own.slice_mut(s![.., ..given]).assign(&self.targets.own.slice(s![.., ..given]));
        for (row, mut own) in own.outer_iter_mut().enumerate() {
            for (i, share) in shares(self.spots[row % self.spots.len()].token, fitted) {
                own[given + i] += share;
            }
        }
        own
    }
}

/// A token between those of the fit: which ones are next to it, and how near.
fn shares(token: usize, fitted: &[Spot]) -> Vec<(usize, f64)> {
    let Some(above) = fitted.iter().position(|spot| spot.token >= token) else {
        return vec![(fitted.len() - 1, 1.0)];
    };
    if above == 0 || fitted[above].token == token {
        return vec![(above, 1.0)];
    }
    let (low, high) = (fitted[above - 1].token, fitted[above].token);
    let share = (token - low) as f64 / (high - low) as f64;
    vec![(above - 1, 1.0 - share), (above, share)]
}

/// Everything that was read at the tokens of one role.
struct Looked {
    role: Role,
    fitted: Rows,
    judged: Rows,
    other_pairs: Option<Rows>,
    other_inputs: Option<Rows>,
}

/// Squared errors `[target][prompt]`.
type Squares = Vec<Vec<f64>>;

impl Looked {
    fn decode(&self, layer: usize, options: &Options) -> Result<Vec<Decoded>> {
        let targets = &self.fitted.targets;
        let asked = [Some(&self.judged), self.other_pairs.as_ref(), self.other_inputs.as_ref()];
        let asked: Vec<&Rows> = asked.into_iter().flatten().collect();
        let gains = |targets: &Array2<f64>, right: &[&Array2<f64>]| -> Result<Vec<Vec<Estimate>>> {
            let errors = |fitted: Array2<f64>, features: Vec<Array2<f64>>| -> Result<Vec<Squares>> {
                let features: Vec<&Array2<f64>> = features.iter().collect();
                let found = options.kind.fit_and_predict(&fitted, targets, &features, options.seed)?;
                let squares = found.iter().zip(right).zip(&asked);
                Ok(squares
                    .map(|((found, right), rows)| self.squares(found, right, rows.spots.len()))
                    .collect())
            };
            let spots = &self.fitted.spots;
            let read =
                errors(self.fitted.features(layer), asked.iter().map(|r| r.features(layer)).collect())?;
            let own = errors(self.fitted.own(spots), asked.iter().map(|r| r.own(spots)).collect())?;
            let of_set = |(read, own): (&Squares, &Squares)| {
                read.iter().zip(own).map(|(read, own)| gain(read, own, options.seed)).collect()
            };
            Ok(read.iter().zip(&own).map(of_set).collect())
        };
        let right: Vec<&Array2<f64>> = asked.iter().map(|rows| &rows.targets.values).collect();
        let found = gains(&targets.values, &right)?;
        let shuffled =
            |rows: &Rows, stream: &str| shuffle(&rows.targets.values, rows.spots.len(), options.seed, stream);
        let control_right: Vec<Array2<f64>> =
            asked.iter().map(|rows| shuffled(rows, "states/control")).collect();
        let control =
            gains(&shuffled(&self.fitted, "states/shuffle"), &control_right.iter().collect::<Vec<_>>())?;
        let (mut other_pairs, mut other_inputs) = (None, None);
        let mut others = found.iter().skip(1);
        if self.other_pairs.is_some() {
            other_pairs = others.next();
        }
        if self.other_inputs.is_some() {
            other_inputs = others.next();
        }
        let decoded = |(i, target): (usize, &Target)| Decoded {
            layer,
            role: self.role,
            quantity: target.quantity,
            step: target.step,
            gain: found[0][i],
            control: control[0][i],
            other_pairs: other_pairs.map(|of| of[i]),
            other_inputs: other_inputs.map(|of| of[i]),
        };
        Ok(targets.list.iter().enumerate().map(decoded).collect())
    }

    /// Squared errors of predictions, summed over the columns of each target and the spots of each prompt.
    fn squares(&self, found: &Array2<f64>, right: &Array2<f64>, spots: usize) -> Squares {
        let off = (found - right).mapv(|v| v * v);
        let of_target = |target: &Target| {
            let rows = off.slice(s![.., target.columns.clone()]).sum_axis(Axis(1));
            rows.to_vec().chunks_exact(spots).map(|of_prompt| of_prompt.iter().sum()).collect()
        };
        self.fitted.targets.list.iter().map(of_target).collect()
    }
}

/// 1 − (what the stream leaves) / (what the token's own x and y leave), resampled over prompts.
fn gain(read: &[f64], own: &[f64], seed: Seed) -> Estimate {
    bootstrap(seed, read.len(), |chosen| {
        let sum = |of: &[f64]| chosen.iter().map(|&b| of[b]).sum::<f64>();
        let (left, whole) = (sum(read), sum(own));
        // what follows from the token's own x and y to round-off leaves nothing to gain
        if whole <= 1e-18 * own.len() as f64 { 0.0 } else { 1.0 - left / whole }
    })
}

/// Targets `[row, column]` of other prompts at the same spots.
fn shuffle(values: &Array2<f64>, spots: usize, seed: Seed, stream: &str) -> Array2<f64> {
    let count = values.nrows() / spots;
    let mut order: Vec<usize> = (0..count).collect();
    let mut draws = seed.at(stream, 0);
    (1..count).rev().for_each(|i| order.swap(i, draws.below(i + 1)));
    let rows: Vec<usize> = order.iter().flat_map(|&b| (0..spots).map(move |s| b * spots + s)).collect();
    values.select(Axis(0), &rows)
}
