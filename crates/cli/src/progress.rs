//! Progress bars: on anything over a second, on standard error, silent when that is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};

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
