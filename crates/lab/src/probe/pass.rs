//! Prompts through a network: whole groups of prompts per thread, so that threads wait for each other once, at the end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::cpu::Runner;
use engine::model::hooks::Patch;
use engine::model::networks::{Mode, Scope};
use rayon::ThreadPoolBuilder;

use crate::data::prompts::Prompts;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::networks::{Weights, tokens};

/// Prompts that a thread carries through the network together: few enough that states stay in its caches from one
/// operation to the next, many enough to pay for packing the weights.
pub const GROUP: usize = 8;

/// Pieces that prompts are cut into where sums over all of them are taken, each summed by itself: sums then have the same
/// bits on any number of threads.
pub const LANES: usize = 8;

/// Does pieces of work `0..pieces` on as many threads as there are, each with its own `worker`; results in order.
///
/// Operations of a network inside a piece run on that piece's thread alone.
pub fn per_thread<W, T: Send>(
    pieces: usize,
    worker: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let results: Vec<Mutex<Option<Result<T>>>> = (0..pieces).map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let run = || {
        let mut worker = worker();
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = results.get(piece) else { break };
            interrupt::look();
            let result = work(&mut worker, piece);
            if result.is_err() {
                next.store(pieces, Ordering::Relaxed); // nobody needs the rest
            }
            *place.lock().unwrap_or_else(|e| e.into_inner()) = Some(result);
        }
    };
    let threads = rayon::current_num_threads().min(pieces);
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    let pool = ThreadPoolBuilder::new().num_threads(1).build();
                    let pool =
                        pool.map_err(|e| Error::Training(format!("no thread could be started: {e}")))?;
                    pool.install(run);
                    Ok(())
                })
            })
            .collect();
        started
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    // What was left out after an error has no result; the error has.
    results.into_iter().filter_map(|result| result.into_inner().unwrap_or_else(|e| e.into_inner())).collect()
}

/// A network that a thread runs on prompts; the buffers stay while the shape does.
pub struct PromptRunner<'a> {
    weights: &'a Weights,
    patches: &'a [Patch],
    mode: Mode,
    scope: Scope,
    runner: Option<Runner>,
}

impl<'a> PromptRunner<'a> {
    /// For hidden states at the x tokens.
    pub fn new(weights: &'a Weights, patches: &'a [Patch]) -> PromptRunner<'a> {
        PromptRunner { weights, patches, mode: Mode::Infer, scope: Scope::Predictions, runner: None }
    }

    /// Reads every token, the last label too: queries may come after it.
    pub fn over_all_tokens(weights: &'a Weights, patches: &'a [Patch]) -> PromptRunner<'a> {
        PromptRunner { scope: Scope::Everything, ..PromptRunner::new(weights, patches) }
    }

    /// Reads every token, and saves the activations inside the layers.
    pub fn saving_activations(weights: &'a Weights) -> PromptRunner<'a> {
        PromptRunner { mode: Mode::Train, ..PromptRunner::over_all_tokens(weights, &[]) }
    }

    /// Runs prompts; the runner holds their hidden states.
    pub fn run(&mut self, prompts: &Prompts) -> Result<&Runner> {
        let network = &self.weights.network;
        let (count, points) = (prompts.count(), prompts.points());
        if self.runner.as_ref().is_none_or(|r| (r.graph().batch, r.points()) != (count, points)) {
            let mut runner = match self.scope {
                Scope::Everything => network.runner(count, 2 * points, self.mode)?,
                Scope::Predictions => network.predictor(count, points, self.mode)?,
            };
            runner.patch(self.patches)?;
            self.runner = Some(runner);
        }
        let runner = self.runner.as_mut().expect("made above");
        runner.set_tokens(&tokens(prompts, network.features()))?;
        runner.forward(self.weights.for_passes());
        Ok(runner)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn results_are_in_order_and_a_worker_is_one_threads_own() {
        let count = |own: &mut usize, piece: usize| {
            *own += 1;
            Ok((piece, *own))
        };
        for pieces in [0, 1, 5, 2000] {
            let results = per_thread(pieces, || 0, count).unwrap();
            assert!(results.iter().map(|(piece, _)| *piece).eq(0..pieces));
            // Each of them counts its own from one.
            let workers = results.iter().filter(|(_, own)| *own == 1).count();
            assert!(workers <= rayon::current_num_threads().min(pieces), "{workers} workers");
        }
    }

    #[test]
    fn an_error_ends_the_work_and_a_panic_reaches_the_caller() {
        let failing = |_: &mut (), piece: usize| match piece {
            100 => Err(Error::Training("on purpose".into())),
            piece => Ok(piece),
        };
        let error = per_thread(2000, || (), failing).unwrap_err();
        assert!(error.to_string().contains("on purpose"), "{error}");

        let panicking = |_: &mut (), piece: usize| match piece {
            100 => std::panic::resume_unwind(Box::new(piece)),
            piece => Ok(piece),
        };
        let caught = catch_unwind(AssertUnwindSafe(|| per_thread(2000, || (), panicking)));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&100usize));
    }
}
