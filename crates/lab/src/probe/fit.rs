//! Read-outs for all layers at once, from one streamed pass over prompts.
//!
//! A read-out should predict labels, but much of a label nobody can know: after t < d pairs its error is at least d − t. Where
//! the best prediction from a prompt is known, read-outs are fitted to that prediction instead. Its expectation given the
//! prompt is the label's, and hidden states are functions of the prompt, so the optimum is the same; what remains of the noise
//! is a few hundredths, and so is the number of prompts that it takes.

use std::ops::Range;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::adam;
use super::gram::Gram;
use super::outside::add_last;
use super::pass::{GROUP, LANES, PromptRunner, per_thread};
use super::read::{ReadOut, ReadPoint};
use crate::Progress;
use crate::data::prompts::{Prompts, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::learners::steps::Steps;
use crate::networks::Weights;
use crate::solvers;

/// Prompts that read-outs are judged on, never fitted to.
pub const HELD_OUT: usize = 1280;
/// Prompts of a first fit; doubled until the fit is good.
pub const FIRST: usize = 2048;
/// Prompts beyond which nobody waits.
pub const MOST: usize = 32_768;
/// A last layer's read-out counts as good when it is no worse than the trained one by more than this share.
pub const TOLERANCE: f64 = 0.02;
/// Doubling counts as help when it removes at least this share of the error.
const HELP: f64 = 0.01;

/// How read-outs are fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Prompts to fit to; chosen by held-out error when absent.
    pub prompts: Option<usize>,
    /// Closed form or gradient steps.
    pub method: Method,
    /// Reads the last layer from the raw residual stream like the others, not after the final LayerNorm.
    pub raw: bool,
    /// Prompts to judge on.
    pub held_out: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { prompts: None, method: Method::default(), raw: false, held_out: HELD_OUT }
    }
}

/// How the best read-out is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// In closed form.
    #[default]
    LeastSquares,
    /// By Adam on minibatches, as in the paper.
    Adam,
}

/// How the read-outs of a network were fitted, and how good they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Closed form or gradient steps.
    pub method: Method,
    /// Whether the last layer was read from the raw residual stream.
    pub raw: bool,
    /// What they were fitted to: `labels`, or the algorithm that predicts labels best.
    pub targets: String,
    /// Prompts they were fitted to.
    pub prompts: usize,
    /// Why so many.
    pub why: String,
    /// Prompts they were judged on.
    pub held_out: usize,
    /// How good each layer's read-out is there, from the read-in on.
    pub layers: Vec<HeldOut>,
    /// How good the read-out that was trained with the network is there.
    pub trained: HeldOut,
}

/// How good a read-out is on prompts it was not fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Mean squared error over all positions.
    pub mean_loss: f64,
    /// Mean squared error over d after all pairs.
    pub last_error: f64,
}

impl HeldOut {
    /// Whether this is worse than another by less than a share of it.
    fn within(self, share: f64, other: HeldOut) -> bool {
        self.mean_loss <= other.mean_loss * (1.0 + share)
            && self.last_error <= other.last_error * (1.0 + share)
    }
}

/// Sums over prompts, one per layer: what read-outs are solved from and judged by.
pub(super) struct LayerSums {
    pub all: Vec<Gram>,
    /// Over the last position of each prompt; only where read-outs are judged.
    pub last: Vec<Gram>,
    /// Squared errors of the trained read-out, all positions and last positions.
    trained: [f64; 2],
}

impl LayerSums {
    /// No prompts yet, of layers so wide.
    pub fn new(widths: &[usize], judging: bool) -> LayerSums {
        let grams = || widths.iter().map(|width| Gram::new(*width)).collect();
        LayerSums { all: grams(), last: if judging { grams() } else { Vec::new() }, trained: [0.0; 2] }
    }

    /// How good a read-out of a layer is on these prompts.
    pub fn judge(&self, layer: usize, affine: &[f64], dim: usize) -> HeldOut {
        HeldOut {
            mean_loss: self.all[layer].loss(affine),
            last_error: self.last[layer].loss(affine) / dim as f64,
        }
    }

    fn merge(&mut self, other: &LayerSums) {
        let add = |to: &mut [Gram], from: &[Gram]| to.iter_mut().zip(from).for_each(|(a, b)| a.merge(b));
        add(&mut self.all, &other.all);
        add(&mut self.last, &other.last);
        (0..2).for_each(|i| self.trained[i] += other.trained[i]);
    }
}

/// A network whose read-outs are being fitted.
struct Fitter<'a> {
    weights: &'a Weights,
    task: &'a Task,
    seed: Seed,
    points: Vec<ReadPoint>,
    /// The Bayes-optimal algorithm, where it is known.
    best: Option<String>,
}

/// Fits a read-out to every layer, the read-in being layer 0. `progress` hears what is going on.
pub fn fit(
    weights: &Weights,
    task: &Task,
    seed: Seed,
    options: &Options,
    progress: Progress,
) -> Result<(Vec<ReadOut>, Fit)> {
    let layers = weights.network.layers();
    if task.dim > weights.network.features() {
        return Err(Error::BadData(format!(
            "a task of {} dimensions for a network that reads {}; accepted: at most as many",
            task.dim,
            weights.network.features()
        )));
    }
    let points = (0..=layers).map(|layer| ReadPoint::of_layer(layer, layers, options.raw)).collect();
    let fitter = Fitter { weights, task, seed, points, best: task.best_learner() };
    progress(&format!("reading {} held-out prompts", options.held_out));
    let held_out = fitter.sums("probe/held-out", 0..options.held_out, LANES, true)?;
    let held_out = merged(held_out);
    let judge = |layer: usize, affine: &[f64]| held_out.judge(layer, affine, task.dim);
    let trained = HeldOut {
        mean_loss: held_out.trained[0] / held_out.all[0].count() as f64,
        last_error: held_out.trained[1] / held_out.last[0].count() as f64 / task.dim as f64,
    };
    let (affine, prompts, why) = match options.method {
        Method::LeastSquares => {
            let more = |prompts: Range<usize>| Ok(merged(fitter.sums("probe", prompts, LANES, false)?));
            choose(&more, options.prompts, Some(trained), layers, &judge, progress)?
        }
        Method::Adam => {
            let prompts = options.prompts.unwrap_or(FIRST);
            progress(&format!("fitting to {prompts} prompts"));
            let batches = prompts.div_ceil(adam::BATCH).min(adam::MOST_BATCHES);
            let batches = fitter.sums("probe", 0..prompts, batches, false)?;
            progress("taking gradient steps");
            let of = |layer: usize| batches.iter().map(|batch| &batch.all[layer]).collect();
            let why = match options.prompts {
                Some(_) => "as asked".into(),
                None => format!("{} minibatches, again and again", batches.len()),
            };
            (adam::minimise((0..=layers).map(of).collect(), seed), prompts, why)
        }
    };
    let found = affine.iter().enumerate().map(|(layer, affine)| judge(layer, affine)).collect();
    let read_outs =
        affine.into_iter().zip(&fitter.points).map(|(a, point)| ReadOut::new(a, *point)).collect();
    let fit = Fit {
        method: options.method,
        raw: options.raw,
        targets: fitter.best.clone().unwrap_or("labels".into()),
        prompts,
        why,
        held_out: options.held_out,
        layers: found,
        trained,
    };
    Ok((read_outs, fit))
}

fn merged(sums: Vec<LayerSums>) -> LayerSums {
    let mut sums = sums.into_iter();
    let mut all = sums.next().expect("at least one piece");
    sums.for_each(|part| all.merge(&part));
    all
}

/// Least-squares read-outs of all layers.
pub(super) fn solve_all(grams: &[Gram]) -> Result<Vec<Vec<f64>>> {
    let solve = |(layer, gram): (usize, &Gram)| {
        gram.solve().ok_or_else(|| {
            Error::BadData(format!(
                "the states of layer {layer} are not finite, so nothing can be read from them"
            ))
        })
    };
    grams.iter().enumerate().map(solve).collect()
}

/// Least-squares read-outs, the number of prompts behind them, and why so many: as many as are asked for, or doubled until
/// that of the `last` layer is as good as the trained one, where there is one, or doubling no longer helps.
pub(super) fn choose(
    sums: &dyn Fn(Range<usize>) -> Result<LayerSums>,
    asked: Option<usize>,
    trained: Option<HeldOut>,
    last: usize,
    judge: &dyn Fn(usize, &[f64]) -> HeldOut,
    progress: Progress,
) -> Result<(Vec<Vec<f64>>, usize, String)> {
    let mut count = asked.unwrap_or(FIRST);
    let mut before: Option<HeldOut> = None;
    progress(&format!("fitting to {count} prompts"));
    let mut all = sums(0..count)?;
    loop {
        let affine = solve_all(&all.all)?;
        let now = judge(last, &affine[last]);
        let percent = TOLERANCE * 100.0;
        let why = if asked.is_some() {
            Some("as asked".into())
        } else if trained.is_some_and(|trained| now.within(TOLERANCE, trained)) {
            Some(format!(
                "the last layer's read-out is within {percent} % of the trained one on held-out prompts"
            ))
        } else if before.is_some_and(|before| before.within(HELP, now)) {
            Some("the last doubling no longer helped".into())
        } else if 2 * count > MOST {
            Some("the most that are tried".into())
        } else {
            None
        };
        if let Some(why) = why {
            return Ok((affine, count, why));
        }
        before = Some(now);
        progress(&format!("fitting to {} prompts", 2 * count));
        all.merge(&sums(count..2 * count)?);
        count *= 2;
    }
}

/// What read-outs should predict `[b, t]`: the predictions of the best algorithm where it is known, else the labels.
pub(super) fn best_predictions(best: Option<&str>, prompts: &Prompts) -> Result<Array2<f64>> {
    let Some(best) = best else { return Ok(prompts.ys.clone()) };
    let found = solvers::build(best)?.trajectory(prompts, &Steps::single(1))?;
    Ok(found.values.index_axis_move(ndarray::Axis(0), 0))
}

impl Fitter<'_> {
    /// Sums over prompts of a stream, in `pieces` of about the same size.
    fn sums(
        &self,
        stream: &str,
        prompts: Range<usize>,
        pieces: usize,
        judging: bool,
    ) -> Result<Vec<LayerSums>> {
        let size = prompts.len().div_ceil(pieces).next_multiple_of(GROUP);
        let pieces = prompts.len().div_ceil(size);
        let widths = vec![self.weights.network.width(); self.points.len()];
        per_thread(
            pieces,
            || (PromptRunner::new(self.weights, &[]), Vec::new()),
            |(reader, rows), piece| {
                let mut sums = LayerSums::new(&widths, judging);
                let first = prompts.start + piece * size;
                for first in (first..(first + size).min(prompts.end)).step_by(GROUP) {
                    let count = GROUP.min(prompts.end - first);
                    let group = self.task.sample(self.seed, stream, first as u64, count);
                    self.add(&mut sums, &group, reader, rows, judging)?;
                }
                Ok(sums)
            },
        )
    }

    fn add(
        &self,
        sums: &mut LayerSums,
        prompts: &Prompts,
        reader: &mut PromptRunner,
        rows: &mut Vec<f64>,
        judging: bool,
    ) -> Result<()> {
        let targets =
            if judging { prompts.ys.clone() } else { best_predictions(self.best.as_deref(), prompts)? };
        let width = self.weights.network.width();
        let (size, points) = (width + 2, prompts.points());
        let runner = reader.run(prompts)?;
        for (layer, point) in self.points.iter().enumerate() {
            rows.clear();
            for (hidden, target) in point.of(runner, layer).zip(&targets) {
                rows.extend(hidden.iter().map(|h| f64::from(*h)));
                rows.extend([1.0, *target]);
            }
            sums.all[layer].add(rows);
            if judging {
                add_last(&mut sums.last[layer], rows, points, size);
            }
        }
        for (i, (p, y)) in runner.predictions().iter().zip(&prompts.ys).enumerate() {
            let square = (f64::from(*p) - y).powi(2);
            sums.trained[0] += square;
            if i % points == points - 1 {
                sums.trained[1] += square;
            }
        }
        Ok(())
    }
}
