//! Maps on a CUDA device: every place of every prompt is a prompt of its own, and many of them go through the layers together.
//!
//! Prompts and donors run once and stay there; for each layer their residual streams are put together row by row on the device, so that
//! only numbers of rows travel there and answers back.

use std::sync::Arc;

use engine::cuda::{self, CudaRunner, Precision};
use engine::model::hooks::{Site, SiteKind};
use engine::model::networks::Mode;

use super::maps::check;
use super::{Part, Patched, Place};
use crate::data::prompts::Prompts;
use crate::error::Result;
use crate::interrupt;
use crate::networks::Weights;
use crate::networks::devices::Device;
use crate::streams::up_to_query;

/// Prompts that run together with their donors.
const GROUP: usize = 256;
/// Most patched prompts that run together: beyond, a device is busy anyway.
const MOST: usize = 2048;

impl Patched {
    /// The same on a device.
    pub fn on(
        device: &Device,
        weights: &Weights,
        pair: [&Prompts; 2],
        part: Part,
        places: &[Place],
    ) -> Result<Patched> {
        let Device::Cuda(device, precision) = device else { return Patched::of(weights, pair, part, places) };
        check(weights, pair[0], pair[1], places)?;
        let mut all = Patched::empty(weights.network.layers(), places.len());
        let mut runners = Runners::new(device, *precision, weights, pair[0], part, places.len())?;
        for first in (0..pair[0].count()).step_by(GROUP) {
            all.extend(runners.group(pair.map(|of| of.part(first, GROUP)), part, places)?);
        }
        Ok(all)
    }
}

struct Runners<'a> {
    weights: &'a Weights,
    base: CudaRunner,
    donor: CudaRunner,
    /// Patched prompts.
    many: CudaRunner,
    /// Tokens of a prompt, up to the query.
    rows: usize,
}

impl<'a> Runners<'a> {
    fn new(
        device: &Arc<cuda::Device>,
        precision: Precision,
        weights: &'a Weights,
        prompts: &Prompts,
        part: Part,
        places: usize,
    ) -> Result<Runners<'a>> {
        let (network, rows) = (&weights.network, 2 * prompts.points() - 1);
        let runner = |batch: usize, mode: Mode| -> Result<CudaRunner> {
            let mut runner = CudaRunner::new(device, network, precision, [batch, rows], mode)?;
            runner.set_params(weights.params())?;
            Ok(runner)
        };
        let group = prompts.count().min(GROUP);
        // what is inside layers is kept in training
        let donors = if part == Part::Stream { Mode::Infer } else { Mode::Train };
        let (base, donor) = (runner(group, Mode::Infer)?, runner(group, donors)?);
        // streams, queries, keys and values of every layer, and what is inside one
        let prompt = 4 * rows * network.width() * (4 * network.layers() + 16);
        let fits = device.free_memory()? / 2 / prompt;
        let many = runner((places * group).min(MOST).min(fits).max(1), Mode::Infer)?;
        Ok(Runners { weights, base, donor, many, rows })
    }

    fn group(&mut self, pair: [Prompts; 2], part: Part, places: &[Place]) -> Result<Patched> {
        let (count, pairs) = (pair[0].count(), pair[0].points() - 1);
        for (runner, prompts) in [&mut self.base, &mut self.donor].into_iter().zip(&pair) {
            let mut tokens = up_to_query(prompts, self.weights.network.features());
            // the last group may be smaller
            tokens.resize(runner.graph().batch * self.rows * self.weights.network.features(), 0.0);
            runner.set_tokens(&tokens)?;
            runner.forward()?;
        }
        let mut found = Patched::empty(self.weights.network.layers(), places.len());
        found.base = answers(&self.base, count)?;
        found.donor = answers(&self.donor, count)?;
        let patched: Vec<(usize, usize)> =
            (0..places.len()).flat_map(|place| (0..count).map(move |prompt| (place, prompt))).collect();
        let tokens: Vec<Vec<usize>> = places.iter().map(|place| place.tokens(pairs)).collect();
        for (layer, all) in found.patched.iter_mut().enumerate() {
            for patched in patched.chunks(self.many.graph().batch) {
                interrupt::look();
                let answers = self.patched(layer + 1, part, patched, &tokens)?;
                patched.iter().zip(answers).for_each(|((place, _), answer)| all[*place].push(answer));
            }
        }
        Ok(found)
    }

    /// Answers of prompts, each patched at the tokens of its place.
    fn patched(
        &mut self,
        block: usize,
        part: Part,
        patched: &[(usize, usize)],
        tokens: &[Vec<usize>],
    ) -> Result<Vec<f64>> {
        let rows = self.rows;
        let all = |of: &dyn Fn(usize) -> Vec<usize>| -> Vec<[usize; 2]> {
            let pairs = patched.iter().enumerate().flat_map(|(at, (place, prompt))| {
                of(*place).into_iter().map(move |token| [at * rows + token, prompt * rows + token])
            });
            pairs.collect()
        };
        let (every, replaced) = (all(&|_| (0..rows).collect()), all(&|place| tokens[place].clone()));
        self.many.write_from(block, &self.base, every)?;
        self.many.patch(&[])?;
        match part {
            Part::Stream => self.many.write_from(block, &self.donor, replaced)?,
            Part::Attention | Part::Mlp => {
                let kind = if part == Part::Attention { SiteKind::Z(None) } else { SiteKind::MlpHidden };
                self.many.patch_from(Site { block, kind }, &self.donor, replaced)?;
            }
        }
        self.many.forward_from(block)?;
        answers(&self.many, patched.len())
    }
}

/// The answer to the query, the last point, of the first prompts.
fn answers(runner: &CudaRunner, count: usize) -> Result<Vec<f64>> {
    let (predictions, points) = (runner.predictions()?, runner.points());
    Ok(predictions.chunks_exact(points).take(count).map(|of| f64::from(of[points - 1])).collect())
}
