//! The analyses of a reproduction on a terminal: a bar that says which one runs and how far they are.

use std::path::Path;
use std::time::Instant;

use indicatif::ProgressBar;
use lab::analyses::reproduction::{
    Cache, Digests, Measured, Measuring, Reproduction, Trained, missing_networks, seconds_left,
};
use lab::analyses::{Analysis, Lab, NotRun};
use lab::networks::pace::duration_words;

use super::networks::Training;
use crate::error::{Error, Result};
use crate::progress::{self, LONG, PlainLines};

/// What is still to be measured, and for how long.
struct Remaining<'a> {
    selected: &'a [&'static Analysis],
    /// Analyses that were kept: no work of this process.
    kept: Vec<String>,
    start: Option<Instant>,
    lines: PlainLines,
    /// Whether the user knows that it takes long.
    told: bool,
}

impl<'a> Remaining<'a> {
    fn new(selected: &'a [&'static Analysis]) -> Remaining<'a> {
        Remaining { selected, kept: Vec::new(), start: None, lines: PlainLines::begin(), told: false }
    }

    /// Seconds that are left, once they are known; a plain line where there is no terminal.
    fn look(&mut self, measured: &Measured, next: &Analysis) -> Option<f64> {
        let found = |id: &str| measured.findings.iter().any(|f| f.analysis == id);
        let start = *self.start.get_or_insert_with(|| {
            self.kept = measured.kept.clone();
            Instant::now()
        });
        let own = measured.findings.iter().map(|f| f.analysis.as_str());
        let own = own.filter(|id| !self.kept.iter().any(|kept| kept == id));
        let unfound = self.selected.iter().copied().filter(|analysis| !found(analysis.id));
        let left = seconds_left(own, start.elapsed().as_secs_f64(), unfound);
        if !progress::on_terminal() && self.lines.due() {
            let words = left.map_or(String::new(), |left| format!(", {} left", duration_words(left)));
            let (done, of) = (measured.findings.len(), self.selected.len());
            eprintln!("{done} of {of} analyses{words}; now {}: {}", next.id, next.title);
        }
        left
    }
}

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

    /// By which recipes the networks that they ask were trained.
    pub fn recipes(&self) -> Vec<Trained> {
        Trained::of_all(&self.selected, &self.lab)
    }

    /// Runs them, or remembers, each once its networks are trained; `show` sees what there is whenever there is more, and how
    /// many seconds the next analysis takes, about.
    pub fn measure(
        self,
        cache: &Path,
        fresh: bool,
        training: &mut Training,
        mut show: impl FnMut(&Measured, f64) -> Result<()>,
    ) -> Result<Measured> {
        let Selection { reproduction, lab, bar, selected, .. } = self;
        bar.set_length(selected.len() as u64);
        let digests = Digests::of(reproduction.models()?);
        let mut measuring = Measuring { lab, cache: Cache::under(cache), fresh, digests };
        let mut remaining = Remaining::new(&selected);
        training.tell(&bar);
        let ready = |analysis: &Analysis| reproduction.is_ready(analysis);
        let measured = measuring.run(&selected, ready, |measured, next| {
            bar.set_position(measured.findings.len() as u64);
            let Some(next) = next else {
                bar.set_prefix("");
                bar.set_message("waiting for networks that are being trained");
                show(measured, f64::INFINITY)?;
                // What ends between two looks is trained.
                return training.goes_on(reproduction).map(|_| ());
            };
            show(measured, next.seconds)?;
            let left = remaining.look(measured, next);
            if let Some(left) = left.filter(|left| *left > LONG && !std::mem::replace(&mut remaining.told, true)) {
                let time = duration_words(left);
                bar.suspend(|| {
                    eprintln!("note: the analyses that are left take {time} on this machine; Ctrl-C keeps what is found")
                });
            }
            bar.set_prefix(next.id);
            let left = left.map_or(String::new(), |left| format!(" ({} left)", duration_words(left)));
            bar.set_message(format!("{}{left}", next.title));
            Ok::<(), Error>(())
        })?;
        bar.finish_and_clear();
        Ok(measured)
    }
}
