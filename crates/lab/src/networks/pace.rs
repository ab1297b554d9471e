//! How fast work goes and how long it takes yet: measured over the last while, on what this process itself has done.

use std::collections::VecDeque;

use crate::findings::numbers::grouped;
use crate::networks::experiment::Experiment;

/// Seconds that a pace is measured over.
const SPAN: f64 = 30.0;
/// Seconds before a pace is known.
const KNOWN: f64 = 3.0;
/// Seconds between two points that are remembered.
const BETWEEN: f64 = 0.1;

/// Steps that the work of many is measured on.
const SAMPLE: u64 = 10_000;

/// What a step on a GPU costs however few prompts it has, in points of prompts: the way through all kernels, one after the
/// other. On an H200 R1 and R5 at batch 64 take as long for 44 points as for what does not depend on points.
const GPU_STEP: f64 = 44.0 * 64.0;

/// Work per second over the last half minute. The first report begins the measurement: what a process does before, reading a
/// checkpoint or compiling kernels, and what another one did before it, does not count.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Seconds, and work done by then.
    points: VecDeque<(f64, f64)>,
}

impl Pace {
    /// So much work is done by now.
    pub fn note(&mut self, seconds: f64, done: f64) {
        if self.points.back().is_some_and(|(last, _)| seconds - last < BETWEEN) {
            return;
        }
        self.points.push_back((seconds, done));
        while self.points.get(1).is_some_and(|(second, _)| seconds - second >= SPAN) {
            self.points.pop_front();
        }
    }

    /// Work per second, once it is known.
    pub fn per_second(&self) -> Option<f64> {
        let ((first, before), (last, done)) = self.points.front().zip(self.points.back())?;
        (last - first >= KNOWN && done > before).then(|| (done - before) / (last - first))
    }

    /// Seconds that so much work takes at this pace, once it is known.
    pub fn seconds_for(&self, work: f64) -> Option<f64> {
        Some(work.max(0.0) / self.per_second()?)
    }
}

/// What the steps of an experiment cost, in operations up to a factor: a curriculum makes later steps dearer.
#[derive(Clone, Debug)]
pub struct Work {
    experiment: Experiment,
    parameters: f64,
    /// What a step costs beside its points, in points.
    fixed: f64,
}

impl Work {
    /// Of an experiment whose parts fit together, on a device by its recorded name: `cpu`, `cuda bf16`.
    pub fn of(experiment: &Experiment, device: &str) -> Work {
        let network = experiment.network.build(experiment.task.dim, experiment.task.points);
        let parameters = network.map_or(1, |network| network.layout().len()) as f64;
        let fixed = if device.starts_with("cuda") { GPU_STEP } else { 0.0 };
        Work { experiment: experiment.clone(), parameters, fixed }
    }

    /// The work of the steps after `done`, up to step `until`.
    pub fn between(&self, done: u64, until: u64) -> f64 {
        let spec = &self.experiment.training;
        let points = |step| spec.points.map_or(self.experiment.task.points, |ramp| ramp.at(step, spec.steps));
        // Of many steps a sample stands for all: an estimate needs no more.
        let count = until.saturating_sub(done);
        let asked = count.min(SAMPLE);
        let step = |i: u64| done + (u128::from(i) * u128::from(count) / u128::from(asked)) as u64;
        let batch = spec.batch as f64;
        let sum: f64 = (0..asked).map(|i| self.fixed + batch * points(step(i)) as f64).sum();
        sum * (count as f64 / asked.max(1) as f64) * self.parameters
    }

    /// The work of all steps after `done`.
    pub fn after(&self, done: u64) -> f64 {
        self.between(done, self.experiment.training.steps)
    }
}

/// A pace in words: `4,500 steps/s`, `2.3 steps/s`, `40 s/step`.
pub fn rate_words(steps_per_second: f64) -> String {
    match steps_per_second {
        rate if rate < 0.1 => format!("{} s/step", grouped(two_digits(1.0 / rate.max(1e-9)) as u64)),
        rate if rate < 9.95 => format!("{} steps/s", two_digits(rate)),
        rate => format!("{} steps/s", grouped(two_digits(rate) as u64)),
    }
}

/// A duration as one would say it: `about 40 s`, `about 3 min`, `about 2.5 h`, `about 4 days`.
pub fn duration_words(seconds: f64) -> String {
    let to = |value: f64, unit: f64| (value / unit).round() * unit;
    let (minutes, hours, days) = (seconds / 60.0, seconds / 3600.0, seconds / 86_400.0);
    if seconds < 7.5 {
        "a few seconds".into()
    } else if seconds < 57.5 {
        format!("about {} s", to(seconds, 5.0))
    } else if minutes < 9.5 {
        format!("about {} min", to(minutes, 1.0).max(1.0))
    } else if minutes < 57.5 {
        format!("about {} min", to(minutes, 5.0))
    } else if hours < 9.75 {
        format!("about {} h", to(hours, 0.5).max(1.0))
    } else if hours < 35.5 {
        format!("about {} h", to(hours, 1.0))
    } else {
        format!("about {} days", to(days, 0.5))
    }
}

/// Rounded to two significant digits.
fn two_digits(value: f64) -> f64 {
    format!("{value:.1e}").parse().expect("a number was written")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_pace_is_known_after_a_while_and_follows_the_last_half_minute() {
        let mut pace = Pace::default();
        // A resumed process: what was done before it is no work of its own, and its first step is slow.
        pace.note(40.0, 90_000.0);
        assert_eq!(pace.per_second(), None);
        pace.note(41.0, 90_100.0);
        assert_eq!(pace.seconds_for(1e6), None, "not after a second");
        pace.note(43.0, 90_300.0);
        assert_eq!((pace.per_second(), pace.seconds_for(1000.0)), (Some(100.0), Some(10.0)));
        // It becomes four times as slow: half a minute later that is all that counts.
        (1..=40).for_each(|i| pace.note(43.0 + f64::from(i), 90_300.0 + 25.0 * f64::from(i)));
        assert_eq!(pace.per_second(), Some(25.0));
        assert!(pace.points.len() < 40);
        (0..100_000).for_each(|i| pace.note(83.0 + 1e-5 * f64::from(i), 91_300.0));
        assert!(pace.points.len() < 50, "many steps a second are not all remembered");
        assert_eq!(pace.seconds_for(0.0), Some(0.0));
    }

    #[test]
    fn work_follows_the_curriculum() {
        let text = include_str!("../../../../experiments/miniature.toml");
        let mut experiment = Experiment::parse(text, Path::new("miniature.toml")).unwrap();
        let flat = Work::of(&experiment, "cpu");
        assert_eq!(flat.between(0, 10) * 2.0, flat.between(0, 20), "without a ramp all steps cost the same");
        let steps = experiment.training.steps;
        assert_eq!(flat.after(steps), 0.0);
        let (all, endless) = (flat.after(0), flat.between(0, u64::MAX));
        assert!((endless / all - u64::MAX as f64 / steps as f64).abs() < 1e-6 * endless / all);
        let ramp = "{ start = 4, end = 16, over = 1.0 }";
        let table: toml::Table = format!("ramp = {ramp}").parse().unwrap();
        experiment.training.points = Some(table["ramp"].clone().try_into().unwrap());
        let ramped = Work::of(&experiment, "cpu");
        assert!(ramped.after(0) > 2.0 * ramped.between(0, steps / 2), "the second half is dearer");
    }

    /// Milliseconds of a step of R5 on an H200 by its points, from its metrics: what the first steps take tells how long all
    /// do.
    #[test]
    fn the_first_steps_on_a_gpu_tell_how_long_all_take() {
        let text = include_str!("../../../../experiments/r5.toml");
        let work = Work::of(&Experiment::parse(text, Path::new("r5.toml")).unwrap(), "cuda bf16");
        let at = |step| work.between(step, step + 1);
        for (step, milliseconds) in [(1, 1.92), (12_000, 2.49), (24_000, 2.79), (100_000, 2.94)] {
            let expected = milliseconds / 1.92 * at(1);
            assert!((at(step) / expected - 1.0).abs() < 0.1, "step {step}: {} of {expected}", at(step));
        }
    }

    #[test]
    fn words_round_as_people_do() {
        let rates = [4499.9956, 123.4, 12.34, 9.96, 2.345, 0.1234, 0.0123].map(rate_words);
        let expected = [
            "4,500 steps/s",
            "120 steps/s",
            "12 steps/s",
            "10 steps/s",
            "2.3 steps/s",
            "0.12 steps/s",
            "81 s/step",
        ];
        assert_eq!(rates, expected);
        let times =
            [0.2, 12.0, 58.0, 90.0, 170.0, 59.0 * 60.0, 9_000.0, 97_200.0, 400_000.0].map(duration_words);
        let expected = [
            "a few seconds",
            "about 10 s",
            "about 1 min",
            "about 2 min",
            "about 3 min",
            "about 1 h",
            "about 2.5 h",
            "about 27 h",
            "about 4.5 days",
        ];
        assert_eq!(times, expected);
    }
}
