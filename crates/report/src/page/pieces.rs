//! What several parts of the page are made of: badges, values, links, lists of claims, drawings.

use std::collections::HashMap;
use std::fmt::Write;

use lab::findings::{Claim, Figure, Verdict};

use crate::draw::panel_svgs;
use crate::ledger::{interval_text, verdict_marks};
use crate::text::{escape, format_number};

/// Number of each figure by its id, in reading order.
pub type Numbers<'a> = HashMap<&'a str, usize>;

/// What explains a failure, as a paragraph.
pub fn why(claim: &Claim) -> String {
    if claim.why.is_empty() {
        return String::new();
    }
    format!("<p class=\"why\">{}</p>", escape(&claim.why))
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

/// A link to the figure that shows a claim, where the page has it.
pub fn figure_link(claim: &Claim, numbers: &Numbers<'_>) -> String {
    let found = claim.figure.as_deref().and_then(|id| numbers.get(id).map(|n| (id, n)));
    found.map_or_else(String::new, |(id, n)| format!("<a href=\"#{}\">Figure {n}</a>", slug("fig", id)))
}

/// An element id from a name: `c-F26-newton-gd`.
pub fn slug(prefix: &str, name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("{prefix}-{}", name.chars().map(plain).collect::<String>())
}

/// Claims in brief; with `figures`, each beside a link to its figure.
pub fn brief<'a>(
    out: &mut String,
    claims: impl IntoIterator<Item = &'a Claim>,
    figures: Option<&Numbers<'_>>,
) {
    out.push_str("<ul class=\"brief\">\n");
    for claim in claims {
        let shown = figures.map(|n| format!(" <span class=\"shown\">{}</span>", figure_link(claim, n)));
        let _ = writeln!(
            out,
            "<li>{}<span class=\"statement\"><a href=\"#{}\">{}</a>{}{}</span><span class=\"value\">{}</span></li>",
            badge(claim.verdict),
            slug("c", &claim.id),
            escape(&claim.statement),
            shown.unwrap_or_default(),
            why(claim),
            measured(claim)
        );
    }
    out.push_str("</ul>\n");
}

/// The panels of a figure, side by side where there is room.
pub fn panels(out: &mut String, figure: &Figure) {
    out.push_str("<div class=\"panels\">\n");
    for (width, panel) in panel_svgs(figure) {
        let _ = writeln!(out, "<div class=\"panel\" style=\"--width:{width:.0}\">{panel}</div>");
    }
    out.push_str("</div>\n");
}
