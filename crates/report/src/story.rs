//! The order in which a reader meets the findings: the main result, what fails and why, then chapter by chapter.

use std::fmt::Write;

use lab::findings::claims::{Claim, Findings, Verdict};
use lab::findings::figure::Figure;

use crate::html::{Numbers, badge, figure_link, measured, slug, why};
use crate::layout::panel_svgs;
use crate::text::escape;

/// Analyses that can give the main result, the best first: the figure and the claims that tell it.
const MAIN: [(&str, &str, &[&str]); 3] = [
    ("F3", "f3-best", &["F3.newton-linear", "F3.newton-slope", "F3.gd-exponential", "F3.last-layer"]),
    ("M1", "m1-best", &["M1.newton-linear", "M1.gd-exponential", "M1.last-layer"]),
    ("F26", "f26-newton-gd", &["F26.newton-gd-exponential", "F26.newton-gd-slope"]),
];

/// The main result, on the first screen.
pub fn main_result(out: &mut String, findings: &[Findings], numbers: &Numbers<'_>) {
    let found = |(analysis, figure, claims): &(&str, &str, &'static [&'static str])| {
        let found = findings.iter().find(|f| f.analysis == *analysis)?;
        let figure = found.figures.iter().find(|f| f.id == *figure)?;
        Some((found, figure, *claims))
    };
    let Some((found, figure, ids)) = MAIN.iter().find_map(found) else { return };
    let _ = write!(
        out,
        "<section class=\"main-result\" aria-label=\"Main result\">\n<div>\n<h2><a href=\"#{}\">{}</a></h2>\n",
        slug("a", &found.analysis),
        escape(&found.title)
    );
    list(out, found.claims.iter().filter(|claim| ids.contains(&claim.id.as_str())), numbers);
    out.push_str("</div>\n");
    drawings(out, figure);
    out.push_str("</section>\n");
}

fn drawings(out: &mut String, figure: &Figure) {
    // drawn a second time further down: ids within a drawing must not be the same
    let figure = Figure { id: format!("{}-main", figure.id), ..figure.clone() };
    out.push_str("<div class=\"panels\">\n");
    for (width, panel) in panel_svgs(&figure) {
        let _ = writeln!(out, "<div class=\"panel\" style=\"--width:{width:.0}\">{panel}</div>");
    }
    out.push_str("</div>\n");
}

/// The claims with one verdict, wherever they stand; nothing when there are none.
pub fn gathered(out: &mut String, findings: &[Findings], verdict: Verdict, numbers: &Numbers<'_>) {
    let claims = || findings.iter().flat_map(|f| &f.claims).filter(|claim| claim.verdict == verdict);
    if claims().next().is_none() || findings.len() < 2 {
        return;
    }
    let (id, title, words) = match verdict {
        Verdict::Fails => (
            "fails",
            "What fails, and why",
            "Statements that these networks and these prompts do not bear out. Each has its reason beside it and a figure that shows it.",
        ),
        Verdict::Undefined => (
            "undefined",
            "What the paper leaves open",
            "Values for which the paper names no number that could be met or missed, or does not say how its number was taken. They are \
             measured as each section describes, and decide nothing.",
        ),
        Verdict::Holds => return,
    };
    let _ = write!(out, "<section id=\"{id}\">\n<h2>{title}</h2>\n<p class=\"summary\">{words}</p>\n");
    list(out, claims(), numbers);
    out.push_str("</section>\n");
}

/// Claims in brief, each with its figure.
fn list<'a>(out: &mut String, claims: impl Iterator<Item = &'a Claim>, numbers: &Numbers<'_>) {
    out.push_str("<ul class=\"brief\">\n");
    for claim in claims {
        let _ = writeln!(
            out,
            "<li>{}<span class=\"statement\"><a href=\"#{}\">{}</a> <span class=\"shown\">{}</span>{}</span>\
             <span class=\"value\">{}</span></li>",
            badge(claim.verdict),
            slug("c", &claim.id),
            escape(&claim.statement),
            figure_link(claim, numbers),
            why(claim),
            measured(claim)
        );
    }
    out.push_str("</ul>\n");
}

/// The chapter that an analysis belongs to, by its id.
pub fn chapter(analysis: &str) -> &'static str {
    let letters: String = analysis.chars().take_while(char::is_ascii_alphabetic).collect();
    match letters.as_str() {
        "F" | "T" => "The paper's figures and its table",
        "E" => "Misprints, both ways",
        "TH" => "The theorem, as weights",
        "Q" => "Statements between the figures",
        _ => "Beyond the paper",
    }
}
