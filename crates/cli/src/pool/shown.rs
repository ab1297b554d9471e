//! Runs in training as their user sees them: a bar each on a terminal, a line now and then elsewhere; and early on a warning
//! of how long they take, where that is long.

use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use lab::findings::numbers::grouped;
use lab::networks::devices::Device;
use lab::networks::pace::{Pace, Work, duration_words, rate_words};
use lab::networks::pool::{Job, JobOutcome, Watch};
use lab::networks::runs::Metrics;

use crate::device::Chosen;
use crate::progress::{self, LONG, PlainLines};
use crate::signals;

/// All runs of a pool.
pub struct Shown<'a> {
    jobs: &'a [&'a Job],
    works: Vec<Work>,
    all: MultiProgress,
    runs: Vec<Mutex<Option<RunShown>>>,
    together: Mutex<Together>,
    start: Instant,
    /// Whether the run is named, because there are several.
    several: bool,
    printing: bool,
}

/// One that is being trained.
struct RunShown {
    /// On a terminal.
    bar: Option<ProgressBar>,
    /// Elsewhere.
    lines: PlainLines,
    work: Work,
    step: u64,
    /// Work done by this process, and what is left of all.
    done: f64,
    left: f64,
    steps_pace: Pace,
    work_pace: Pace,
    loss: String,
}

/// All of them together, for the warning.
struct Together {
    pace: Pace,
    done: f64,
    left: f64,
    told: bool,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|e| e.into_inner())
}

impl<'a> Shown<'a> {
    /// Nothing is begun yet.
    pub fn new(jobs: &'a [&'a Job], chosen: &[Chosen], several: bool, printing: bool) -> Shown<'a> {
        let work = |(job, chosen): (&&Job, &Chosen)| Work::of(&job.experiment, &chosen.device.name());
        let works: Vec<Work> = jobs.iter().zip(chosen).map(work).collect();
        let left = works.iter().map(|work| work.after(0)).sum();
        Shown {
            jobs,
            works,
            all: MultiProgress::new(),
            runs: jobs.iter().map(|_| Mutex::new(None)).collect(),
            together: Mutex::new(Together { pace: Pace::default(), done: 0.0, left, told: false }),
            start: Instant::now(),
            several,
            printing,
        }
    }

    fn bar(&self, job: usize, done: u64) -> ProgressBar {
        let style =
            ProgressStyle::with_template("{prefix}{bar:24.cyan/dim} {msg}").expect("a valid template");
        let steps = self.jobs[job].experiment.training.steps;
        let bar = self.all.add(ProgressBar::new(steps).with_style(style).with_position(done));
        if self.several {
            let width = self.jobs.iter().map(|job| job.label.chars().count()).max().unwrap_or(0);
            bar.set_prefix(format!("{:<width$} ", self.jobs[job].label));
        }
        bar
    }

    /// A warning, once, when it is known that all of it takes long.
    fn warn(&self, seconds: f64, work: f64) {
        let mut together = locked(&self.together);
        together.done += work;
        together.left -= work;
        let (done, left) = (together.done, together.left);
        together.pace.note(seconds, done);
        if together.told {
            return;
        }
        let Some(needed) = together.pace.seconds_for(left) else { return };
        together.told = true;
        if let Some(warning) = warning(self.jobs.len(), needed) {
            self.all.suspend(|| eprintln!("{warning}"));
        }
    }
}

/// What is said of runs that take so many seconds, if that is long.
fn warning(runs: usize, seconds: f64) -> Option<String> {
    let (what, them) =
        if runs == 1 { ("this run takes".into(), "it") } else { (format!("these {runs} runs take"), "them") };
    let time = duration_words(seconds);
    (seconds > LONG).then(|| {
        format!("note: {what} {time} on this machine; Ctrl-C saves {them}, and the same command goes on")
    })
}

impl RunShown {
    /// `340 of 2,000, loss 1.2345, 52 steps/s, about 3 min left`, as far as it is known.
    fn words(&self, steps: u64) -> String {
        let mut words = format!("{} of {}{}", grouped(self.step), grouped(steps), self.loss);
        if let (Some(rate), Some(left)) =
            (self.steps_pace.per_second(), self.work_pace.seconds_for(self.left))
        {
            words += &format!(", {}, {} left", rate_words(rate), duration_words(left));
        }
        words
    }
}

impl Watch for Shown<'_> {
    fn stop(&self) -> bool {
        signals::asked()
    }

    fn begun(&self, job: usize, done: u64) {
        let work = self.works[job].clone();
        let left = work.after(done);
        locked(&self.together).left -= work.between(0, done);
        *locked(&self.runs[job]) = Some(RunShown {
            bar: progress::on_terminal().then(|| self.bar(job, done)),
            lines: PlainLines::begin(),
            work,
            step: done,
            done: 0.0,
            left,
            steps_pace: Pace::default(),
            work_pace: Pace::default(),
            loss: String::new(),
        });
    }

    fn stepped(&self, job: usize, step: u64, row: Option<&Metrics>) {
        let seconds = self.start.elapsed().as_secs_f64();
        let mut slot = locked(&self.runs[job]);
        let Some(run) = slot.as_mut() else { return };
        let work = run.work.between(run.step, step);
        (run.step, run.done, run.left) = (step, run.done + work, run.left - work);
        run.steps_pace.note(seconds, step as f64);
        run.work_pace.note(seconds, run.done);
        if let Some(row) = row {
            let excess = row.excess.map_or(String::new(), |e| format!(" ({e:.4} above the Bayes loss)"));
            run.loss = format!(", loss {:.4}{excess}", row.loss);
        }
        let (label, steps) = (&self.jobs[job].label, self.jobs[job].experiment.training.steps);
        match &run.bar {
            Some(bar) => {
                bar.set_position(step);
                if row.is_some() {
                    bar.set_message(run.words(steps));
                }
            }
            None if run.lines.due() => eprintln!("{label}: step {}", run.words(steps)),
            None => {}
        }
        drop(slot);
        self.warn(seconds, work);
    }

    fn fell_back(&self, _: usize, why: &str) {
        let note = Some(format!("no CUDA for this network: {why}"));
        let chosen = Chosen { device: Device::Cpu, note };
        self.all.suspend(|| eprintln!("{}", chosen.line()));
    }

    fn ended(&self, job: usize, outcome: &JobOutcome) {
        if let Some(RunShown { bar: Some(bar), .. }) = locked(&self.runs[job]).take() {
            bar.finish_and_clear();
        }
        if self.printing && !matches!(outcome, JobOutcome::Failed(_)) {
            self.all.suspend(|| println!("{}", outcome.sentence(self.jobs[job])));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_over_ten_minutes_is_warned_of() {
        assert_eq!(warning(1, 590.0), None);
        let expected =
            "note: this run takes about 3 h on this machine; Ctrl-C saves it, and the same command goes on";
        assert_eq!(warning(1, 10_800.0).unwrap(), expected);
        assert!(
            warning(12, 700.0).unwrap().starts_with("note: these 12 runs take about 10 min on this machine")
        );
    }
}
