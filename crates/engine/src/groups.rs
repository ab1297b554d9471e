//! A training batch in groups of prompts, each carried by one thread from the tokens to its gradients.
//!
//! A small network spends its time between operations: threads wait for each other after every one, and meanwhile what
//! they computed leaves the near caches. Groups wait once a step. How a batch is cut follows its shape alone and
//! gradients are added in the order of the groups, so the bits do not depend on the number of threads.

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::EngineError;
use crate::error::check_len;
use crate::networks::{Mode, Network};
use crate::runner::Runner;

/// A network ready to train on batches of one shape.
pub struct GroupRunner {
    groups: Vec<Group>,
    /// One thread each; operations inside a group then run on that thread alone.
    pools: Vec<ThreadPool>,
}

struct Group {
    runner: Runner,
    /// Gradients of the group's mean loss; empty when there is one group only.
    grads: Vec<f32>,
}

/// Networks with more parameters are run as one group: their operations are long, and a copy of the gradients per
/// group would not be small.
const MOST_PARAMS: usize = 1 << 20;
/// Groups of a batch, and the fewest prompts in each.
const GROUPS: usize = 4;
const FEWEST_PROMPTS: usize = 8;

/// Groups that a batch is cut into; all have the same number of prompts.
fn groups_of(batch: usize, params: usize) -> usize {
    let fits = |groups: &usize| batch.is_multiple_of(*groups) && batch / groups >= FEWEST_PROMPTS;
    if params > MOST_PARAMS { 1 } else { [GROUPS, GROUPS / 2].into_iter().find(fits).unwrap_or(1) }
}

impl GroupRunner {
    /// Plans a network for `batch` prompts of `tokens` tokens.
    pub fn new(network: &Network, batch: usize, tokens: usize) -> Result<GroupRunner, EngineError> {
        let params = network.layout().len();
        let count = groups_of(batch, params);
        let group = |_| {
            let runner = network.runner(batch / count, tokens, Mode::Train)?;
            let grads = vec![0.0; if count > 1 { params } else { 0 }];
            Ok(Group { runner, grads })
        };
        let threads = if count > 1 { rayon::current_num_threads().min(count) } else { 0 };
        let pool = |_| {
            let built = ThreadPoolBuilder::new().num_threads(1).build();
            built.map_err(|e| EngineError::Unsupported(format!("no thread could be started: {e}")))
        };
        Ok(GroupRunner {
            groups: (0..count).map(group).collect::<Result<_, EngineError>>()?,
            pools: (0..threads).map(pool).collect::<Result<_, EngineError>>()?,
        })
    }

    /// Predictions per prompt.
    pub fn points(&self) -> usize {
        self.groups[0].runner.points()
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> usize {
        self.groups.iter().map(|group| group.runner.bytes() + 4 * group.grads.len()).sum()
    }

    /// Feeds tokens `[batch, tokens, features]` and targets `[batch, points]`.
    pub fn feed(&mut self, tokens: &[f32], targets: &[f32]) -> Result<(), EngineError> {
        let graph = self.groups[0].runner.graph();
        let count = self.groups.len();
        let (each, all) = (graph.batch * graph.tokens * graph.features, graph.batch * self.points());
        check_len("tokens", tokens.len(), count * each, || "one token after the other".into())?;
        check_len("targets", targets.len(), count * all, || "one number per point".into())?;
        for (group, (tokens, targets)) in
            self.groups.iter_mut().zip(tokens.chunks_exact(each).zip(targets.chunks_exact(all)))
        {
            group.runner.set_tokens(tokens)?;
            group.runner.set_targets(targets)?;
        }
        Ok(())
    }

    /// Writes the gradients of the batch's mean loss to `dparams` and returns the loss.
    ///
    /// # Panics
    /// If a buffer has not the length of the network's parameters.
    pub fn gradients(&mut self, params: &[f32], dparams: &mut [f32]) -> f32 {
        if let [group] = &mut self.groups[..] {
            dparams.fill(0.0);
            group.runner.forward(params);
            group.runner.backward(params, dparams);
            return group.runner.loss();
        }
        let share = self.groups.len().div_ceil(self.pools.len());
        let pools = &self.pools;
        rayon::scope(|scope| {
            for (groups, pool) in self.groups.chunks_mut(share).zip(pools) {
                scope.spawn(move |_| pool.install(|| groups.iter_mut().for_each(|group| group.run(params))));
            }
        });
        let scale = 1.0 / self.groups.len() as f32;
        const PIECE: usize = 1 << 14;
        let groups = &self.groups;
        dparams.par_chunks_mut(PIECE).enumerate().for_each(|(piece, dparams)| {
            dparams.fill(0.0);
            for group in groups {
                let grads = &group.grads[piece * PIECE..];
                dparams.iter_mut().zip(grads).for_each(|(d, g)| *d += g);
            }
            dparams.iter_mut().for_each(|d| *d *= scale);
        });
        self.groups.iter().map(|group| group.runner.loss()).sum::<f32>() * scale
    }
}

impl Group {
    fn run(&mut self, params: &[f32]) {
        self.grads.fill(0.0);
        self.runner.forward(params);
        self.runner.backward(params, &mut self.grads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::Gpt2Config;
    use crate::params::{RandomSource, SplitMix};

    #[test]
    fn groups_add_up_to_the_batch_and_threads_do_not_matter() {
        let config =
            Gpt2Config { features: 3, positions: 12, width: 16, layers: 2, heads: 2, ..Default::default() };
        let network = Network::Gpt2(config);
        let layout = network.layout();
        let params = layout.initial(&SplitMix::new(1));
        let (batch, tokens) = (32, 10);
        let random = SplitMix::new(2);
        let values = |stream: &str, n: usize| -> Vec<f32> {
            (0..n as u64).map(|i| random.normal(stream, i)).collect()
        };
        let (x, y) = (values("x", batch * tokens * 3), values("y", batch * tokens / 2));

        let mut whole = network.runner(batch, tokens, Mode::Train).unwrap();
        whole.set_tokens(&x).unwrap();
        whole.set_targets(&y).unwrap();
        let mut expected = vec![0.0; layout.len()];
        whole.forward(&params);
        whole.backward(&params, &mut expected);

        let grouped = |threads| {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut runner = GroupRunner::new(&network, batch, tokens).unwrap();
                assert_eq!(runner.groups.len(), GROUPS);
                runner.feed(&x, &y).unwrap();
                let mut grads = vec![f32::NAN; layout.len()];
                let loss = runner.gradients(&params, &mut grads);
                (loss, grads)
            })
        };
        let (loss, grads) = grouped(2);
        assert!((loss - whole.loss()).abs() < 1e-5 * whole.loss());
        let scale = expected.iter().fold(0.0f32, |m, g| m.max(g.abs()));
        assert!(grads.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5 * scale));
        for threads in [1, 3, 4] {
            assert_eq!(grouped(threads), (loss, grads.clone()), "{threads} threads");
        }
    }

    #[test]
    fn odd_batches_and_large_networks_stay_whole() {
        assert_eq!([64, 16, 9, 1].map(|batch| groups_of(batch, 1000)), [4, 2, 1, 1]);
        assert_eq!(groups_of(64, MOST_PARAMS + 1), 1);
    }
}
