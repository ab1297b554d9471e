//! What standard output is: a terminal of some width that may want colours, or a file.

use std::io::IsTerminal;

use terminal_size::{Width, terminal_size};

/// Columns of a table where nothing says how many there are, and the most that are used.
const WIDEST: usize = 100;
/// Fewer columns hold no word.
const NARROWEST: usize = 20;

/// Columns to write: COLUMNS where it is set, else those of the terminal, within bounds.
pub fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|said| said.parse().ok()).filter(|said| *said > 0);
    let terminal = || terminal_size().map(|(Width(columns), _)| usize::from(columns));
    said.or_else(terminal).unwrap_or(WIDEST).clamp(NARROWEST, WIDEST)
}

/// Whether to colour: on a terminal, unless NO_COLOR is set (<https://no-color.org>) or the terminal is dumb.
pub fn colour() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb
}
