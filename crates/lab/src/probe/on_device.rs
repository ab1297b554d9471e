//! Layers read on a CUDA device: many prompts, or many queries, go through the network together, and only predictions come back.

use std::sync::Arc;

use engine::cuda::{self, CudaError, CudaQueryRunner, CudaRunner, Precision, StateReader};
use engine::model::networks::Mode;
use ndarray::{Array3, Array4, s};

use super::Probed;
use super::read::ReadPoint;
use crate::data::prompts::{Prompts, Questions};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::learners::steps::Steps;
use crate::networks::tokens;
use crate::streams::up_to_query;

/// Tokens that go through the network together: enough to keep a large device busy.
const TOKENS: usize = 12_800;

/// How many prompts go together, where each has so many tokens; the last group may be smaller, and is filled up.
fn group(tokens: usize, count: usize) -> usize {
    (TOKENS / tokens.max(1)).clamp(1, count.max(1))
}

impl Probed {
    /// Predictions `[s, b, t]` as [`Learner::trajectory`](crate::learners::Learner::trajectory) has them.
    pub(super) fn trajectory_on(
        &self,
        device: &Arc<cuda::Device>,
        precision: Precision,
        prompts: &Prompts,
        steps: &Steps,
    ) -> Result<Array3<f64>> {
        let network = &self.weights.network;
        if network.sees_later_tokens() {
            return Err(
                CudaError::Unsupported("layers of a network whose tokens see later ones".into()).into()
            );
        }
        let (count, points, features) = (prompts.count(), prompts.points(), network.features());
        let rows = 2 * points - 1;
        let batch = group(rows, count);
        let mut runner = CudaRunner::new(device, network, precision, [batch, rows], Mode::Infer)?;
        runner.set_params(self.weights.params())?;
        runner.patch(&self.patches)?;
        self.with_readers(steps, |readers| runner.set_readers(readers))?;
        let mut values = Array3::zeros((steps.len(), count, points));
        for first in (0..count).step_by(batch) {
            interrupt::look();
            let part = prompts.part(first, batch);
            let mut tokens = up_to_query(&part, features);
            tokens.resize(batch * rows * features, 0.0);
            runner.set_tokens(&tokens)?;
            runner.forward()?;
            let read = shaped(runner.read()?, [steps.len(), batch, points])?;
            let count = part.count();
            values.slice_mut(s![.., first..first + count, ..]).assign(&read.slice(s![.., ..count, ..]));
        }
        Ok(values)
    }

    /// Answers `[s, b, l, q]` as [`Learner::answers`](crate::learners::Learner::answers) has them.
    pub(super) fn answers_on(
        &self,
        device: &Arc<cuda::Device>,
        precision: Precision,
        questions: &Questions,
        steps: &Steps,
    ) -> Result<Array4<f64>> {
        if !self.patches.is_empty() {
            return Err(CudaError::Unsupported("queries of patched networks".into()).into());
        }
        let (network, features) = (&self.weights.network, self.weights.network.features());
        let (count, asked, _) = questions.queries.dim();
        let length = 2 * questions.prompts.points();
        let batch = group(asked.max(length), count);
        let mut prefix = CudaRunner::new(device, network, precision, [batch, length], Mode::Infer)?;
        prefix.set_params(self.weights.params())?;
        let mut runner = CudaQueryRunner::new(device, network, prefix, asked)?;
        self.with_readers(steps, |readers| runner.set_readers(readers))?;
        let mut values = Array4::zeros((steps.len(), count, questions.lengths.len(), asked));
        for first in (0..count).step_by(batch) {
            let part = questions.prompts.part(first, batch);
            let mut read = tokens(&part, features);
            read.resize(batch * length * features, 0.0);
            runner.prefix().set_tokens(&read)?;
            runner.prefix().forward()?;
            let part = first..first + part.count();
            runner.set_queries(&queries(questions, part.clone(), [batch, features]))?;
            for (l, &pairs) in questions.lengths.iter().enumerate() {
                interrupt::look();
                runner.forward(pairs)?;
                let read = shaped(runner.read()?, [steps.len(), batch, asked])?;
                let read = read.slice(s![.., ..part.len(), ..]);
                values.slice_mut(s![.., part.clone(), l, ..]).assign(&read);
            }
        }
        Ok(values)
    }

    /// Hands on how the layers of these steps are read.
    fn with_readers(
        &self,
        steps: &Steps,
        set: impl FnOnce(&[StateReader]) -> std::result::Result<(), CudaError>,
    ) -> Result<()> {
        let read_outs =
            steps.as_slice().iter().map(|&layer| (layer as usize, &self.read_outs[layer as usize]));
        let maps: Vec<_> = read_outs.map(|(layer, of)| (layer, of.point(), of.affine())).collect();
        let readers = maps.iter().map(|(layer, point, affine)| StateReader {
            layer: (*point != ReadPoint::Final).then_some(*layer),
            affine,
            normalised: *point == ReadPoint::Normalised,
        });
        Ok(set(&readers.collect::<Vec<_>>())?)
    }
}

/// Query tokens `[batch, asked, features]` of some prompts; zeros of those that are not there.
fn queries(
    questions: &Questions,
    prompts: std::ops::Range<usize>,
    [batch, features]: [usize; 2],
) -> Vec<f32> {
    let asked = questions.queries.dim().1;
    let mut tokens = vec![0.0; batch * asked * features];
    let given = questions.queries.slice(s![prompts, .., ..]);
    for (token, x) in tokens.chunks_exact_mut(features).zip(given.rows()) {
        token.iter_mut().zip(x).for_each(|(t, x)| *t = *x as f32);
    }
    tokens
}

fn shaped(values: Vec<f64>, [a, b, c]: [usize; 3]) -> Result<Array3<f64>> {
    Array3::from_shape_vec((a, b, c), values).map_err(|e| Error::BadData(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_a_device_busy_and_are_no_larger_than_what_there_is() {
        assert_eq!(group(81, 1280), 158);
        assert_eq!(group(200, 10), 10);
        assert_eq!(group(1_000_000, 10), 1);
        assert_eq!(group(0, 0), 1);
    }
}
