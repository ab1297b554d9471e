//! From streams and targets to gains: read-outs are fitted on some prompts and judged on others.

use ndarray::{Array2, Array3, Axis, s};

use super::targets::{Role, Spot, Target, Targets, spots};
use super::{Decoded, Options};
use crate::data::prompts::{Prompts, Task};
use crate::data::seed::Seed;
use crate::error::Result;
use crate::learners::Learner;
use crate::stats::{Estimate, bootstrap};
use crate::streams::{Sight, Streams};

/// Prompts of all kinds.
pub(super) struct Sets {
    sight: Sight,
    fitted: Prompts,
    judged: Prompts,
    other_inputs: Option<Prompts>,
}

impl Sets {
    pub fn sample(task: &Task, options: &Options, sight: Sight) -> Sets {
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
    pub fn look(
        &self,
        streams: &dyn Streams,
        algorithm: &dyn Learner,
        options: &Options,
    ) -> Result<Vec<Looked>> {
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
pub(super) struct Looked {
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

/// Read-outs of all targets, judged on each set of rows.
struct Judged {
    /// `[set][target]`
    gains: Vec<Vec<Estimate>>,
    /// What the mean leaves of each target on the first set.
    variances: Vec<f64>,
}

impl Looked {
    /// The sets that read-outs are judged on; the first is always there.
    fn asked(&self) -> Vec<&Rows> {
        let all = [Some(&self.judged), self.other_pairs.as_ref(), self.other_inputs.as_ref()];
        all.into_iter().flatten().collect()
    }

    /// How well each target is read from the stream of a layer.
    pub fn decode(&self, layer: usize, options: &Options) -> Result<Vec<Decoded>> {
        let values = |rows: &Rows, _: &str| rows.targets.values.clone();
        let others =
            |rows: &Rows, stream: &str| shuffle(&rows.targets.values, rows.spots.len(), options.seed, stream);
        let found = self.judge(layer, options, &values)?;
        let control = options.control.then(|| self.judge(layer, options, &others)).transpose()?;
        let list = &self.fitted.targets.list;
        let faint = |i: usize| {
            let first = list.iter().position(|target| target.quantity == list[i].quantity).unwrap_or(i);
            found.variances[i] < FAINT * found.variances[first]
        };
        // sets that are there follow each other
        let other_pairs = self.other_pairs.as_ref().map(|_| 1);
        let other_inputs = self.other_inputs.as_ref().map(|_| 1 + usize::from(other_pairs.is_some()));
        let decoded = |(i, target): (usize, &Target)| Decoded {
            layer,
            role: self.role,
            quantity: target.quantity,
            step: target.step,
            gain: found.gains[0][i],
            faint: faint(i),
            control: control.as_ref().map(|control| control.gains[0][i]),
            other_pairs: other_pairs.map(|set| found.gains[set][i]),
            other_inputs: other_inputs.map(|set| found.gains[set][i]),
        };
        Ok(list.iter().enumerate().map(decoded).collect())
    }

    /// Fits read-outs to targets and judges them: from the stream, from the token's own x and y, and from nothing but its place.
    fn judge(
        &self,
        layer: usize,
        options: &Options,
        targets: &dyn Fn(&Rows, &str) -> Array2<f64>,
    ) -> Result<Judged> {
        let (asked, spots) = (self.asked(), &self.fitted.spots);
        let fitted = targets(&self.fitted, "states/shuffle");
        let right: Vec<Array2<f64>> = asked.iter().map(|rows| targets(rows, "states/control")).collect();
        let errors = |features: &dyn Fn(&Rows) -> Array2<f64>| -> Result<Vec<Squares>> {
            let of_sets: Vec<Array2<f64>> = asked.iter().map(|rows| features(rows)).collect();
            let of_sets: Vec<&Array2<f64>> = of_sets.iter().collect();
            let found =
                options.kind.fit_and_predict(&features(&self.fitted), &fitted, &of_sets, options.seed)?;
            let sets = found.iter().zip(&right).zip(&asked);
            Ok(sets.map(|((found, right), rows)| self.squares(found, right, rows.spots.len())).collect())
        };
        let read = errors(&|rows| rows.features(layer))?;
        let own = errors(&|rows| rows.own(spots))?;
        let mean = errors(&|rows| rows.which(spots))?;
        let of_set = |set: usize| {
            let targets = 0..read[set].len();
            targets.map(|i| gain(&read[set][i], [&own[set][i], &mean[set][i]], options.seed)).collect()
        };
        Ok(Judged {
            gains: (0..asked.len()).map(of_set).collect(),
            variances: mean[0].iter().map(|of_prompts| of_prompts.iter().sum()).collect(),
        })
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
