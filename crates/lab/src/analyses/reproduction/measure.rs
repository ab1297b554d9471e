//! Analyses one after the other: remembered where nothing has changed, run where something has.

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

impl Measuring {
    /// Findings of all analyses: those that are kept at once, then cheap ones, then the others.
    ///
    /// Before each that is run, `next` sees what there is by then and which one comes; its error ends the run.
    pub fn run<E: From<Error>>(
        &mut self,
        selected: &[&Analysis],
        mut next: impl FnMut(&Measured, &Analysis) -> Result<(), E>,
    ) -> Result<Measured, E> {
        let (seed, count) = (self.lab.seed.0, self.lab.count);
        let mut measured = Measured::default();
        let place = |id: &str| selected.iter().position(|a| a.id == id).expect("one of them");
        let mut left = Vec::new();
        for analysis in selected {
            let cache = self.cache.as_ref().filter(|_| !self.fresh);
            match cache.and_then(|cache| cache.get(&self.digests.question(analysis, seed, count))) {
                Some(found) => {
                    measured.kept.push(found.analysis.clone());
                    measured.insert(place(analysis.id), found);
                }
                None => left.push(*analysis),
            }
        }
        for analysis in analyses::cheap_first(left) {
            next(&measured, analysis)?;
            let found = analyses::run(analysis, &self.lab)?;
            if let Some(cache) = &self.cache {
                self.digests.forget();
                cache.put(&self.digests.question(analysis, seed, count), &found);
            }
            measured.insert(place(analysis.id), found);
        }
        Ok(measured)
    }
}
