//! Progress on standard error: bars where that is a terminal, a plain line now and then for what takes minutes where it is
//! not. Standard output has results alone.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Seconds beyond which a user is told beforehand how long a command takes.
pub const LONG: f64 = 600.0;
/// Seconds between plain lines, where `ICLAB_PROGRESS` does not say.
const USUAL: f64 = 30.0;

/// Whether bars are seen.
pub fn on_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// When plain lines are due: every half minute, or every so many seconds as `ICLAB_PROGRESS` says.
pub struct PlainLines {
    every: Duration,
    next: Instant,
}

impl PlainLines {
    /// The first is due after that time.
    pub fn begin() -> PlainLines {
        let every = seconds_between(std::env::var("ICLAB_PROGRESS").ok().as_deref());
        PlainLines { every, next: Instant::now() + every }
    }

    /// Whether one is due now.
    pub fn due(&mut self) -> bool {
        let due = Instant::now() >= self.next;
        if due {
            self.next = Instant::now() + self.every;
        }
        due
    }
}

/// The time that a text says, within a day.
fn seconds_between(text: Option<&str>) -> Duration {
    let given = text.and_then(|text| text.trim().parse().ok());
    Duration::from_secs_f64(given.filter(|seconds| (0.0..=86_400.0).contains(seconds)).unwrap_or(USUAL))
}

/// A bar over `length` named pieces of work.
pub fn bar(length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:28.cyan/dim} {pos}/{len} {prefix} {msg} {elapsed:.dim}")
        .expect("a valid template");
    let bar = ProgressBar::new(length as u64).with_style(style);
    bar.enable_steady_tick(std::time::Duration::from_millis(120));
    bar
}

/// A spinner for one piece of work of unknown length.
pub fn spinner(message: &str) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{spinner:.cyan} {msg} {elapsed:.dim}").expect("a valid template");
    let bar = ProgressBar::new_spinner().with_style(style).with_message(message.to_string());
    bar.enable_steady_tick(std::time::Duration::from_millis(120));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_that_makes_no_sense_is_the_usual_time() {
        let seconds = |text| seconds_between(text).as_secs_f64();
        assert_eq!([seconds(Some("5")), seconds(Some(" 0.5 "))], [5.0, 0.5]);
        assert_eq!([None, Some("x"), Some("-1"), Some("NaN"), Some("1e9")].map(seconds), [USUAL; 5]);
    }
}
