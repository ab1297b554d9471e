//! Splices: a layer reads what another layer would have read, so that layers in between are left out, or run twice.
//!
//! Where layers are iterations, leaving out m of them takes the answer back by as many steps of the algorithm, wherever
//! they are taken from.

use crate::data::prompts::{Prompts, Questions};
use crate::data::seed::Seed;
use crate::error::Result;
use crate::learners::steps::Steps;
use crate::solvers;
use crate::stats::{Estimate, bootstrap};
use crate::streams::Streams;

/// What became of the answers when layers were left out or run again.
#[derive(Clone, Debug)]
pub struct Splice {
    /// Layer `to` read what layer `from` read; layers count from 1.
    pub from: usize,
    /// See `from`.
    pub to: usize,
    /// The step of the algorithm whose answers are closest.
    pub step: Estimate,
    /// What that step leaves of the answers: squared distance over the answers' squares.
    pub left: f64,
}

impl Splice {
    /// Layers left out; below 0, layers run again.
    pub fn skipped(&self) -> i64 {
        self.to as i64 - self.from as i64
    }
}

/// Splices a Transformer at every layer, leaving out each of `skips` layers, and finds the steps of an algorithm that answer
/// most alike. The first is no splice at all.
pub fn splices(
    streams: &dyn Streams,
    prompts: &Prompts,
    (algorithm, steps): (&str, &Steps),
    skips: &[i64],
    seed: Seed,
) -> Result<Vec<Splice>> {
    let layers = streams.layers() as i64;
    let places = skips.iter().flat_map(|&skip| {
        let there = move |from: &i64| (1..=layers).contains(&(from + skip));
        (1..=layers).filter(there).map(move |from| (from as usize, (from + skip) as usize))
    });
    let places: Vec<(usize, usize)> = std::iter::once((1, 1)).chain(places).collect();
    let answers = streams.spliced(prompts, &places)?;
    let pairs = prompts.points() - 1;
    let queries = prompts.xs.slice(ndarray::s![.., pairs.., ..]).to_owned();
    let questions = Questions { prompts: prompts.clone(), lengths: vec![pairs], queries };
    let known = solvers::build(algorithm)?.answers(&questions, steps)?;
    let distance = |answers: &[f64], s: usize, chosen: &[usize]| -> f64 {
        chosen.iter().map(|&b| (answers[b] - known[[s, b, 0, 0]]).powi(2)).sum()
    };
    let closest = |answers: &[f64], chosen: &[usize]| -> usize {
        let all = (0..steps.len()).map(|s| distance(answers, s, chosen)).enumerate();
        all.min_by(|x, y| x.1.total_cmp(&y.1)).map_or(0, |(s, _)| s)
    };
    let spliced = |(&(from, to), answers): (&(usize, usize), &Vec<f64>)| {
        let everyone: Vec<usize> = (0..answers.len()).collect();
        let step = bootstrap(seed, answers.len(), |chosen| steps.as_slice()[closest(answers, chosen)] as f64);
        let whole: f64 = answers.iter().map(|a| a * a).sum();
        let left = distance(answers, closest(answers, &everyone), &everyone) / whole;
        Splice { from, to, step, left }
    };
    Ok(places.iter().zip(&answers).map(spliced).collect())
}
