//! Residual streams of a network on a CUDA device, and that they are those on the cores.

use std::sync::Arc;

use engine::cuda::checks::{Check, relative_distance, tolerance};
use engine::cuda::{self, CudaRunner, Precision};
use engine::model::networks::{Gpt2Config, Mode, Network};
use ndarray::{Array3, ArrayView3, Axis, s};

use super::{check_dimensions, up_to_query};
use crate::data::prompts::{Prompts, Task};
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::networks::Weights;

/// Prompts that go through the network together.
const GROUP: usize = 128;

impl Weights {
    /// As [`Streams::read`](super::Streams::read).
    pub(super) fn read_on(
        &self,
        device: &Arc<cuda::Device>,
        precision: Precision,
        prompts: &Prompts,
        tokens: &[usize],
    ) -> Result<Vec<Array3<f32>>> {
        let network = &self.network;
        check_dimensions(self, prompts)?;
        let (rows, width, batch) = (2 * prompts.points() - 1, network.width(), prompts.count().min(GROUP));
        let mut runner = CudaRunner::new(device, network, precision, [batch, rows], Mode::Infer)?;
        runner.set_params(self.params())?;
        let streams = Array3::zeros((prompts.count(), tokens.len(), width));
        let mut all = vec![streams; runner.hidden_count()];
        for first in (0..prompts.count()).step_by(batch) {
            interrupt::look();
            let part = prompts.part(first, batch);
            let mut read = up_to_query(&part, network.features());
            read.resize(batch * rows * network.features(), 0.0);
            runner.set_tokens(&read)?;
            runner.forward()?;
            for (layer, all) in all.iter_mut().enumerate() {
                let hidden = runner.hidden(layer)?;
                let hidden = ArrayView3::from_shape((batch, rows, width), &hidden);
                let hidden = hidden.map_err(|e| Error::BadData(e.to_string()))?;
                let part = hidden.slice(s![..part.count(), .., ..]).select(Axis(1), tokens);
                all.slice_mut(s![first..first + part.dim().0, .., ..]).assign(&part);
            }
        }
        Ok(all)
    }
}

/// Streams of more prompts than go together, at some tokens, against those read on the cores.
pub(crate) fn check(device: &Arc<cuda::Device>, precision: Precision) -> Result<Vec<Check>> {
    let config =
        Gpt2Config { features: 5, positions: 40, width: 64, layers: 2, heads: 2, ..Default::default() };
    let network = Network::Gpt2(config);
    let params = network.layout().initial(&Seed(4));
    let weights = Weights::new(network, params);
    let prompts = Task::new("linear", "gaussian", 5, 9)?.sample(Seed(4), "checks", 0, GROUP + 3);
    let tokens = [0, 3, 16];
    let found = weights.read_on(device, precision, &prompts, &tokens)?;
    let expected = weights.read_on_cores(&prompts, &tokens)?;
    let flat = |of: &Array3<f32>| of.iter().copied().map(f64::from).collect::<Vec<_>>();
    let check = |(layer, (found, expected)): (usize, (&Array3<f32>, &Array3<f32>))| Check {
        name: format!("stream {layer}"),
        error: relative_distance(&flat(found), &flat(expected), 0.0),
        tolerance: tolerance(precision),
    };
    Ok(found.iter().zip(&expected).enumerate().map(check).collect())
}
