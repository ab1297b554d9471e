//! What several parts of a page are made of: badges, values, links, drawings.

use std::fmt::Write;

use lab::findings::{Claim, Figure, Findings, Reading, Verdict};

use crate::draw::panel_svgs;
use crate::ledger::{Counts, each_verdict, interval_text, reading_text, verdict_marks, why_text};
use crate::text::{escape, format_number};

/// What a failure is laid to and the evidence, or why a claim is unsettled, as a paragraph.
pub fn why(claim: &Claim) -> String {
    match why_text(claim).as_str() {
        "" => String::new(),
        why => format!("<p class=\"why {}\">{}</p>", claim.verdict.word(), escape(why)),
    }
}

/// The same measured other ways, a line each; one that gives another verdict stands out.
pub fn readings(claim: &Claim) -> String {
    let line = |reading: &Reading| {
        let turns = if reading.verdict == claim.verdict { "" } else { " turns" };
        format!("<span class=\"reading{turns}\">{}</span>", escape(&reading_text(claim, reading)))
    };
    claim.readings.iter().map(line).collect()
}

/// The measured value with its interval.
pub fn measured(claim: &Claim) -> String {
    let interval = claim.interval.map(|i| format!(" <span class=\"interval\">{}</span>", interval_text(i)));
    format!("<b class=\"num\">{}</b>{}", format_number(claim.measured), interval.unwrap_or_default())
}

/// A verdict as a coloured word with a sign.
pub fn badge(verdict: Verdict) -> String {
    let (word, sign, _) = verdict_marks(verdict);
    format!("<span class=\"badge {word}\"><span aria-hidden=\"true\">{sign}</span> {word}</span>")
}

/// How many claims hold, fail, are unsettled and are measured, as badges; those that do not occur are left out.
pub fn tally(counts: Counts) -> String {
    let badges =
        each_verdict(counts).into_iter().filter(|(_, count, _)| *count > 0).map(|(verdict, count, word)| {
            let (class, sign, _) = verdict_marks(verdict);
            format!(
                "<span class=\"badge {class}\"><span aria-hidden=\"true\">{sign}</span> {count} {word}</span>"
            )
        });
    badges.collect::<Vec<_>>().join(" ")
}

/// The verdicts of an analysis; and, where one fails or there are none, what was found in words.
pub fn answer(out: &mut String, found: &Findings) {
    let counts = Counts::of(&found.claims);
    if counts.total() > 0 {
        let _ = writeln!(out, "<p class=\"answer\">{}</p>", tally(counts));
    }
    if !found.answer.is_empty() && (counts.fails > 0 || counts.total() == 0) {
        let _ = writeln!(out, "<p class=\"found\">{}</p>", escape(&found.answer));
    }
}

/// What a reader must know before believing it, each note once.
pub fn notes<'a>(out: &mut String, notes: impl IntoIterator<Item = &'a String>) {
    let mut said: Vec<&str> = Vec::new();
    for note in notes {
        if !said.contains(&note.as_str()) {
            said.push(note);
        }
    }
    if said.is_empty() {
        return;
    }
    out.push_str("<ul class=\"notes\" aria-label=\"Notes\">\n");
    for note in said {
        let _ = writeln!(out, "<li>{}</li>", escape(note));
    }
    out.push_str("</ul>\n");
}

/// An element id from a name: `c-F26-newton-gd`.
pub fn slug(prefix: &str, name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("{prefix}-{}", name.chars().map(plain).collect::<String>())
}

/// A headline as the first sentence of a caption.
pub fn sentence(title: &str) -> String {
    let closed = title.ends_with(['.', '?', '!']);
    format!("{}{}", escape(title), if closed { "" } else { "." })
}

/// The first `most` panels of a figure, side by side where there is room.
pub fn panels(out: &mut String, figure: &Figure, most: usize) {
    out.push_str("<div class=\"panels\">\n");
    for (width, panel) in panel_svgs(figure).into_iter().take(most) {
        let _ = writeln!(out, "<div class=\"panel\" style=\"--width:{width:.0}\">{panel}</div>");
    }
    out.push_str("</div>\n");
}

/// Links to the files of a figure.
pub fn figure_files(figure: &Figure) -> String {
    let file = escape(&figure.id);
    format!(
        "<span class=\"files\"><a href=\"figures/{file}.svg\">SVG</a> <a href=\"figures/{file}.png\">PNG</a> \
         <a href=\"figures/{file}.csv\">CSV</a></span>"
    )
}
