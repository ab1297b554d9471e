//! Words and codes of the report, explained once, in a box at the top of every page.

use std::fmt::Write;

use lab::analyses::{Term, glossary as words};

use crate::text::escape;

/// What only a page has.
const PICTURES: (&str, &str) = (
    "Figure 3 of the paper, Picture 3",
    "figures and tables with a number are the paper’s own; pictures are ours, numbered through the report",
);

/// The box; closed, so that it is in nobody’s way.
pub fn glossary(out: &mut String) {
    out.push_str("<details class=\"glossary\" id=\"glossary\">\n<summary>Words and codes: <em>floor, SimE, SimW, error/d, R1…R9, F, T, TH, E, Q, N</em></summary>\n<dl>\n");
    let pictures = Term { word: PICTURES.0.into(), means: PICTURES.1.into() };
    for Term { word, means } in words().into_iter().chain([pictures]) {
        let _ = writeln!(out, "<div><dt>{}</dt><dd>{}.</dd></div>", escape(&word), escape(&means));
    }
    out.push_str("</dl>\n</details>\n");
}
