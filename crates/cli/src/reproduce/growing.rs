//! A report that can be read while it is being made: written whole, again and again, as findings come in.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lab::analyses::reproduction::ReproductionPlan;
use lab::findings::Findings;
use report::{About, Drawn, Running};

use super::networks::stop_training;
use crate::error::{Error, Result};
use crate::output::{Directory, tidy};
use crate::plan;
use crate::signals::INTERRUPTED;

/// The first findings are shown after this long, or before an analysis that takes longer.
const FIRST: Duration = Duration::from_secs(5);
/// Time between two writes, at least; and at most this share of all time is spent on them.
const BETWEEN: Duration = Duration::from_secs(15);
const SHARE: u32 = 10;

/// Held while a report is written; a request to stop waits for it, so that nothing half-made is left.
static WRITING: Mutex<()> = Mutex::new(());

fn writing() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(|e| e.into_inner())
}

/// Ends the program on Ctrl-C between two writes; what was found by then is kept.
pub fn stop_between_writes() -> Result<()> {
    ctrlc::set_handler(|| {
        stop_training();
        let _nothing_half_made = writing();
        tidy();
        eprintln!("unfinished: the reproduction was interrupted; the same command goes on where it was");
        std::process::exit(INTERRUPTED.into());
    })
    .map_err(|e| Error::Usage(format!("cannot listen for Ctrl-C: {e}")))
}

/// The report of a run that goes on.
pub struct Growing<'a> {
    directory: Directory,
    plan: &'a ReproductionPlan,
    drawn: Drawn,
    start: Instant,
    next: Instant,
    /// How many findings are in what was written.
    shown: usize,
}

impl<'a> Growing<'a> {
    /// A report in a directory that nobody else writes to meanwhile.
    pub fn begin(directory: Directory, plan: &'a ReproductionPlan, start: Instant) -> Growing<'a> {
        Growing { directory, plan, drawn: Drawn::default(), start, next: Instant::now() + FIRST, shown: 0 }
    }

    /// Writes what there is, if it is time, or will be while the next analysis runs for about `expected` seconds: there is no
    /// other occasion before that is over.
    pub fn show(
        &mut self,
        findings: &[Findings],
        about: &About,
        running: Running,
        expected: f64,
    ) -> Result<()> {
        let wait = self.next.saturating_duration_since(Instant::now());
        if findings.len() == self.shown || wait.as_secs_f64() > expected {
            return Ok(());
        }
        self.shown = findings.len();
        let begun = Instant::now();
        self.write(findings, &About { running: Some(running), ..about.clone() })?;
        self.next = Instant::now() + BETWEEN.max(begun.elapsed() * SHARE);
        Ok(())
    }

    /// Writes the report as it stays.
    pub fn finish(mut self, findings: &[Findings], about: &About) -> Result<()> {
        self.write(findings, about)
    }

    fn write(&mut self, findings: &[Findings], about: &About) -> Result<()> {
        let _whole = writing();
        let about = About { seconds: self.start.elapsed().as_secs_f64(), ..about.clone() };
        let path = self.directory.path();
        report::write_drawn(findings, &about, &mut self.drawn, &path)?;
        plan::write(self.plan, &path)?;
        self.directory.publish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_there_before_the_run_is_over() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("report");
        let lab = lab::analyses::Lab::new(lab::Seed(0), 16);
        let row = lab::analyses::select(&["E3".to_string()]).unwrap()[0];
        let plan = lab::analyses::reproduction::Reproduction::default().plan(&[row]);
        let found = [lab::analyses::run(row, &lab).unwrap()];
        let page = || std::fs::read_to_string(out.join("index.html")).unwrap();
        let mut growing = Growing::begin(Directory::begin(&out).unwrap(), &plan, Instant::now());
        let running = Running { done: 1, of: 7 };
        growing.show(&found, &About::default(), running, 1.0).unwrap();
        assert!(!out.join("index.html").exists(), "not before its time");
        growing.show(&[], &About::default(), running, 60.0).unwrap();
        assert!(!out.join("index.html").exists(), "nothing to show");
        growing.show(&found, &About::default(), running, 60.0).unwrap();
        assert!(page().contains("Still running: 1 of 7") && page().contains("errata.html#a-E3"));
        assert!(growing.next > Instant::now());
        std::fs::remove_file(out.join("index.html")).unwrap();
        growing.show(&found, &About::default(), running, 60.0).unwrap();
        assert!(!out.join("index.html").exists(), "nothing new to show");
        growing.finish(&found, &About::default()).unwrap();
        assert!(!page().contains("Still running") && page().contains("errata.html#a-E3"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }
}
