//! A network along its training: the checkpoints that a run kept, or what they predicted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Progress;
use crate::data::seed::Seed;
use crate::error::{Error, Result};
use crate::learners::Learner;
use crate::learners::recorded::Recorded;
use crate::networks::runs;
use crate::probe::{self, Options, Probed};

/// Prompts that the read-outs of one checkpoint are fitted to, and evaluated on: fewer than for a finished network, of which
/// there is one.
pub const FITTED: usize = 512;
const HELD_OUT: usize = 256;
/// Prompts that each checkpoint answers once where only predictions are kept.
pub const RECORDED: usize = 256;

/// Every kept checkpoint as a learner. `progress` hears what is going on.
pub fn of(dir: &Path, progress: Progress) -> Result<Vec<(u64, Arc<dyn Learner>)>> {
    let kept = runs::kept(dir);
    if kept.len() < 2 {
        let why =
            "holds no checkpoints along the way; accepted: a run trained with `keep = 20` under [training]";
        return Err(Error::content(dir.join(runs::KEPT), why));
    }
    let count = kept.len();
    let open = |(i, (step, path)): (usize, (u64, PathBuf))| -> Result<(u64, Arc<dyn Learner>)> {
        if Recorded::is(&path) {
            return Ok((step, Arc::new(Recorded::read(&path, &format!("step {step}"))?)));
        }
        progress(&format!("read-outs for step {step}, checkpoint {} of {count}", i + 1));
        Ok((step, Arc::new(probed(&path)?)))
    };
    kept.into_iter().enumerate().map(open).collect()
}

/// A kept checkpoint with a read-out for every layer.
pub fn probed(checkpoint: &Path) -> Result<Probed> {
    let network = probe::load(checkpoint)?;
    let (task, seed) = (network.known_task().build()?, Seed(network.seed_or_zero()));
    let options = Options { prompts: Some(FITTED), held_out: HELD_OUT, ..Options::default() };
    Probed::fit_with(network.name, network.weights, &task, seed, &options, &|_| ())
}
