//! Analyses one after the other: remembered where nothing has changed, run where something has.

use std::time::Duration;

use super::cache::{Cache, Digests};
use crate::analyses::{self, Analysis, Lab};
use crate::error::Error;
use crate::findings::Findings;

/// Where analyses are run, or remembered.
pub struct Measuring {
    /// Where they are run.
    pub lab: Lab,
    /// Where they are remembered, if they can be.
    pub cache: Option<Cache>,
    /// Whether what is kept is measured again.
    pub fresh: bool,
    /// Of the networks of the bench.
    pub digests: Digests,
}

/// What was found so far, in the order of the report.
#[derive(Default)]
pub struct Measured {
    /// One for each analysis that is done.
    pub findings: Vec<Findings>,
    /// Places of the findings among the analyses that were asked for.
    places: Vec<usize>,
    /// Analyses whose findings were not measured now.
    pub kept: Vec<String>,
}

impl Measured {
    fn insert(&mut self, place: usize, found: Findings) {
        let at = self.places.partition_point(|other| *other < place);
        self.places.insert(at, place);
        self.findings.insert(at, found);
    }
}

/// Time between two looks for networks, where nothing can be measured without them.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl Measuring {
    /// Findings of all analyses: those that are kept at once, then cheap ones, then the others; each once it is `ready`,
    /// because networks may be trained meanwhile.
    ///
    /// Before each that is run, and again and again while there is nothing but waiting, `next` sees what there is by then and
    /// which one comes, or none; its error ends the run.
    pub fn run<E: From<Error>>(
        &mut self,
        selected: &[&Analysis],
        mut ready: impl FnMut(&Analysis) -> bool,
        mut next: impl FnMut(&Measured, Option<&Analysis>) -> Result<(), E>,
    ) -> Result<Measured, E> {
        let (seed, count) = (self.lab.seed.0, self.lab.count);
        let mut measured = Measured::default();
        let place = |id: &str| selected.iter().position(|a| a.id == id).expect("one of them");
        let mut left = analyses::cheap_first(selected.to_vec());
        let mut looked_up: Vec<&str> = Vec::new();
        while !left.is_empty() {
            let can_run: Vec<&Analysis> = left.iter().copied().filter(|analysis| ready(analysis)).collect();
            for analysis in &can_run {
                let cache = self.cache.as_ref().filter(|_| !self.fresh && !looked_up.contains(&analysis.id));
                looked_up.push(analysis.id);
                let kept = cache.and_then(|cache| cache.get(&self.digests.question(analysis, seed, count)));
                if let Some(found) = kept {
                    measured.kept.push(found.analysis.clone());
                    measured.insert(place(analysis.id), found);
                }
            }
            let found = |analysis: &Analysis| measured.findings.iter().any(|f| f.analysis == analysis.id);
            left.retain(|analysis| !found(analysis));
            let Some(analysis) = can_run.into_iter().find(|analysis| !found(analysis)) else {
                if !left.is_empty() {
                    next(&measured, None)?;
                    std::thread::sleep(LOOK_AGAIN);
                }
                continue;
            };
            next(&measured, Some(analysis))?;
            let found = analyses::run(analysis, &self.lab)?;
            // Read-outs are saved beside a network when it is first asked, and others may have been trained by now.
            self.digests.forget();
            if let Some(cache) = &self.cache {
                cache.put(&self.digests.question(analysis, seed, count), &found);
            }
            measured.insert(place(analysis.id), found);
            left.retain(|other| other.id != analysis.id);
        }
        Ok(measured)
    }
}
