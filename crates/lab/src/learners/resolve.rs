//! Learners by name: an algorithm of the registry, constructed weights, a trained network, or recorded predictions.

use std::path::Path;

use super::Learner;
use super::recorded::Recorded;
use crate::Progress;
use crate::constructions::{Constructed, file};
use crate::error::Result;
use crate::{probe, solvers};

/// A learner that was found by its name.
pub struct Resolved {
    /// The learner.
    pub learner: Box<dyn Learner>,
    /// What the user should know about how it was made, in full sentences.
    pub notes: Vec<String>,
}

/// The kinds of learners that are read from files, with what follows their colon.
const KINDS: [&str; 3] = ["file:", "construct:", "run:"];

/// Builds the learner of a name; `progress` hears what is going on.
///
/// | name | learner |
/// |---|---|
/// | `newton`, `gd:eta=0.01` | an algorithm, with settings |
/// | `construct:w.safetensors` | weights that are an algorithm |
/// | `run:DIRECTORY`, `run:DIRECTORY,ablate=…` | a trained network with a read-out per layer: those saved beside it, or fresh ones |
/// | `file:o.npz`, `file:predictions.safetensors` | predictions that were made before |
///
/// ```
/// let gd = lab::learners::build("gd:eta=lmax", &|_| ())?.learner;
/// assert_eq!(gd.id().to_string(), "gd:eta=lmax");
/// let Err(error) = lab::learners::build("newtn", &|_| ()) else { unreachable!() };
/// assert!(error.to_string().contains("did you mean newton"));
/// # Ok::<(), lab::Error>(())
/// ```
pub fn build(name: &str, progress: Progress) -> Result<Resolved> {
    let alone = |learner: Box<dyn Learner>| Resolved { learner, notes: Vec::new() };
    Ok(match name.split_once(':') {
        Some(("file", path)) => alone(Box::new(Recorded::open(Path::new(path))?)),
        Some(("construct", path)) => alone(Box::new(Constructed::new(name, file::read(Path::new(path))?))),
        Some(("run", text)) => {
            let (probed, notes) = probe::build(text, progress)?;
            Resolved { learner: Box::new(probed), notes }
        }
        _ => alone(solvers::build(name)?),
    })
}

/// The name with every default written out, for plans.
pub fn resolve(name: &str) -> Result<String> {
    if KINDS.iter().any(|kind| name.starts_with(kind)) { Ok(name.into()) } else { solvers::resolve(name) }
}
