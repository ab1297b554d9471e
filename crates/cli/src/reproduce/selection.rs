//! The analyses of a reproduction on a terminal: a bar that says which one runs and how far they are.

use std::path::Path;

use indicatif::ProgressBar;
use lab::analyses::reproduction::{Cache, Fingerprints, Measured, Measuring, Reproduction, missing_networks};
use lab::analyses::{Analysis, Lab, NotRun};

use crate::error::{Error, Result};
use crate::progress;

/// Analyses that can be run, and a bar that says how far they are.
pub struct Selection<'a> {
    reproduction: &'a Reproduction,
    lab: Lab,
    bar: ProgressBar,
    /// Those that can be run, in the order of the report.
    pub selected: Vec<&'static Analysis>,
    /// Those that cannot, and why.
    pub not_run: Vec<NotRun>,
}

impl<'a> Selection<'a> {
    /// Takes the analyses that can be run; when they were `named`, each must be.
    pub fn open(of: &'a Reproduction, wanted: Vec<&'static Analysis>, named: bool) -> Result<Selection<'a>> {
        let bar = progress::bar(0);
        let said = bar.clone();
        let lab = of.lab(move |what| said.set_message(what.to_string()))?;
        let (selected, not_run) = of.runnable(wanted, named, &lab)?;
        if !of.quick && !not_run.is_empty() {
            let ids: Vec<&str> = not_run.iter().map(|left_out| left_out.analysis.as_str()).collect();
            let (ids, why) = (ids.join(", "), missing_networks());
            bar.suspend(|| eprintln!("note: not run for want of trained networks: {ids}; {why}"));
        }
        Ok(Selection { reproduction: of, lab, bar, selected, not_run })
    }

    /// Runs them, or remembers; `show` sees what there is whenever there is more.
    pub fn measure(
        self,
        cache: &Path,
        fresh: bool,
        mut show: impl FnMut(&Measured) -> Result<()>,
    ) -> Result<Measured> {
        let Selection { reproduction, lab, bar, selected, .. } = self;
        bar.set_length(selected.len() as u64);
        let prints = Fingerprints::of(reproduction.models()?);
        let mut measuring = Measuring { lab, cache: Cache::under(cache), fresh, prints };
        let measured = measuring.run(&selected, |measured, next| {
            show(measured)?;
            bar.set_position(measured.findings.len() as u64);
            bar.set_prefix(next.id);
            bar.set_message(next.title);
            Ok::<(), Error>(())
        })?;
        bar.finish_and_clear();
        Ok(measured)
    }
}
