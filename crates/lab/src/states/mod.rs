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
        let decoded = places.collect::<Vec<_>>().into_par_iter().map(|(of, layer)| of.decode(layer, options));
        let all = decoded.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
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

    /// Reads streams and computes targets, at the tokens of each role; prompts pass through the network once for all roles.
    fn look(&self, streams: &dyn Streams, algorithm: &dyn Learner, options: &Options) -> Result<Vec<Looked>> {
        let look = |prompts: &Prompts, pairs: &[usize]| -> Result<Vec<Rows>> {
            let spots = Role::ALL.map(|role| spots(role, self.sight, pairs));
            let tokens: Vec<usize> = spots.iter().flatten().map(|spot| spot.token).collect();
            let read = streams.read(prompts, &tokens)?;
            let mut first = 0;
            let rows = Role::ALL.into_iter().zip(spots).map(|(role, spots)| {
                let own = first..first + spots.len();
                first = own.end;
                let targets = Targets::of(algorithm, options, role, self.sight, &spots, prompts)?;
                let streams =
                    read.iter().map(|layer| layer.slice(s![.., own.clone(), ..]).to_owned()).collect();
                Ok(Rows { streams, targets, spots })
            });
            rows.collect()
        };
        let others = self.sight == Sight::Past && !options.other_pairs.is_empty();
        let fitted = look(&self.fitted, &options.pairs)?;
        let mut judged = look(&self.judged, &options.pairs)?.into_iter();
        let mut pairs =
            others.then(|| look(&self.judged, &options.other_pairs)).transpose()?.map(Vec::into_iter);
        let inputs = self.other_inputs.as_ref().map(|prompts| look(prompts, &options.pairs));
        let mut inputs = inputs.transpose()?.map(Vec::into_iter);
        let looked = Role::ALL.into_iter().zip(fitted).map(|(role, fitted)| Looked {
            role,
            fitted,
            judged: judged.next().expect("one for each role"),
            other_pairs: pairs.as_mut().and_then(Iterator::next),
            other_inputs: inputs.as_mut().and_then(Iterator::next),
        });
        Ok(looked.collect())
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

    /// Which of the spots of the fit each row is.
    fn which(&self, fitted: &[Spot]) -> Array2<f64> {
        let own = self.own(fitted);
        let given = own.ncols() - fitted.len();
        own.slice(s![.., given..]).to_owned()
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

/// Of the first iteration's variance: a quantity that has less is faint.
const FAINT: f64 = 0.01;

/// Squared errors `[target][prompt]`.
type Squares = Vec<Vec<f64>>;

impl Looked {
    fn decode(&self, layer: usize, options: &Options) -> Result<Vec<Decoded>> {
        let targets = &self.fitted.targets;
        let asked = [Some(&self.judged), self.other_pairs.as_ref(), self.other_inputs.as_ref()];
        let asked: Vec<&Rows> = asked.into_iter().flatten().collect();
        let spots = &self.fitted.spots;
        let errors = |targets: &Array2<f64>,
                      right: &[&Array2<f64>],
                      features: &dyn Fn(&Rows) -> Array2<f64>|
         -> Result<Vec<Squares>> {
            let asked_of: Vec<Array2<f64>> = asked.iter().map(|rows| features(rows)).collect();
            let asked_of: Vec<&Array2<f64>> = asked_of.iter().collect();
            let fitted = features(&self.fitted);
            let found = options.kind.fit_and_predict(&fitted, targets, &asked_of, options.seed)?;
            let squares = found.iter().zip(right).zip(&asked);
            Ok(squares.map(|((found, right), rows)| self.squares(found, right, rows.spots.len())).collect())
        };
        let all_errors = |targets: &Array2<f64>, right: &[&Array2<f64>]| -> Result<[Vec<Squares>; 3]> {
            Ok([
                errors(targets, right, &|rows| rows.features(layer))?,
                errors(targets, right, &|rows| rows.own(spots))?,
                errors(targets, right, &|rows| rows.which(spots))?,
            ])
        };
        let gains = |[read, own, mean]: &[Vec<Squares>; 3]| -> Vec<Vec<Estimate>> {
            let sets = read.iter().zip(own.iter().zip(mean));
            let of_set = |(read, (own, mean)): (&Squares, (&Squares, &Squares))| {
                let targets = read.iter().zip(own.iter().zip(mean));
                targets.map(|(read, (own, mean))| gain(read, [own, mean], options.seed)).collect()
            };
            sets.map(of_set).collect()
        };
        let right: Vec<&Array2<f64>> = asked.iter().map(|rows| &rows.targets.values).collect();
        let squares = all_errors(&targets.values, &right)?;
        let found = gains(&squares);
        let size = |i: usize| squares[2][0][i].iter().sum::<f64>();
        let faint = |i: usize| {
            let first = targets.list.iter().position(|t| t.quantity == targets.list[i].quantity);
            size(i) < FAINT * size(first.unwrap_or(i))
        };
        let control = match options.control {
            true => {
                let shuffled = |rows: &Rows, stream| {
                    shuffle(&rows.targets.values, rows.spots.len(), options.seed, stream)
                };
                let right: Vec<Array2<f64>> =
                    asked.iter().map(|rows| shuffled(rows, "states/control")).collect();
                let right: Vec<&Array2<f64>> = right.iter().collect();
                Some(gains(&all_errors(&shuffled(&self.fitted, "states/shuffle"), &right)?).remove(0))
            }
            false => None,
        };
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
            faint: faint(i),
            control: control.as_ref().map(|control| control[i]),
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

/// 1 − (what the stream leaves) / (what the token's own x and y leave, or the mean if that is less), resampled over prompts.
fn gain(read: &[f64], guesses: [&Vec<f64>; 2], seed: Seed) -> Estimate {
    bootstrap(seed, read.len(), |chosen| {
        let sum = |of: &[f64]| chosen.iter().map(|&b| of[b]).sum::<f64>();
        let whole = sum(guesses[0]).min(sum(guesses[1]));
        // what follows from the token's own x and y to round-off leaves nothing to gain
        if whole <= 1e-18 * read.len() as f64 { 0.0 } else { 1.0 - sum(read) / whole }
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
