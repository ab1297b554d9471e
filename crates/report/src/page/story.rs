//! The order in which a reader meets the findings: the main result, what fails and why, then chapter by chapter.

use std::fmt::Write;

use lab::analyses::NotRun;
use lab::findings::{Figure, Findings, Verdict};

use super::pieces::{Numbers, brief, panels, slug};
use crate::text::escape;

/// The main result, on the first screen: of the analyses that offer one, the headline of the lowest rank.
pub fn main_result(out: &mut String, findings: &[Findings], numbers: &Numbers<'_>) {
    let offered = findings.iter().filter_map(|found| {
        let headline = found.headline.as_ref()?;
        let figure = found.figures.iter().find(|figure| figure.id == headline.figure)?;
        Some((found, headline, figure))
    });
    let best = offered.min_by_key(|(_, headline, _)| headline.rank);
    let Some((found, headline, figure)) = best else { return };
    let _ = write!(
        out,
        "<section class=\"main-result\" aria-label=\"Main result\">\n<div>\n<h2><a href=\"#{}\">{}</a></h2>\n",
        slug("a", &found.analysis),
        escape(&found.title)
    );
    let told = found.claims.iter().filter(|claim| headline.claims.contains(&claim.id));
    brief(out, told, Some(numbers));
    out.push_str("</div>\n");
    // drawn a second time further down: ids within a drawing must not be the same
    panels(out, &Figure { id: format!("{}-main", figure.id), ..figure.clone() });
    out.push_str("</section>\n");
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
            "Statements that these networks and these prompts do not bear out. Each has its reason beside it and \
             a figure that shows it.",
        ),
        Verdict::Undefined => (
            "undefined",
            "What the paper leaves open",
            "Values for which the paper names no number that could be met or missed, or does not say how its \
             number was taken. They are measured as each section describes, and decide nothing.",
        ),
        Verdict::Holds => return,
    };
    let _ = write!(out, "<section id=\"{id}\">\n<h2>{title}</h2>\n<p class=\"summary\">{words}</p>\n");
    brief(out, claims(), Some(numbers));
    out.push_str("</section>\n");
}

/// What was left out for want of a network.
pub fn not_run(out: &mut String, not_run: &[NotRun]) {
    if not_run.is_empty() {
        return;
    }
    out.push_str(
        "<section id=\"not-run\">\n<h2>Not run</h2>\n<p class=\"summary\">These analyses ask a trained network \
         that was not there.</p>\n<ul class=\"left-out\">\n",
    );
    for analysis in not_run {
        let _ = writeln!(
            out,
            "<li><b>{}</b> {} <small>{}</small></li>",
            escape(&analysis.analysis),
            escape(&analysis.title),
            escape(&analysis.why)
        );
    }
    out.push_str("</ul>\n</section>\n");
}

/// The heading of the chapter that begins with the analysis at `index`; a page of one analysis has no chapters.
pub fn begins(findings: &[Findings], index: usize) -> Option<&'static str> {
    let chapter = |i: usize| findings[i].chapter;
    let new = findings.len() > 1 && (index == 0 || chapter(index) != chapter(index - 1));
    new.then(|| chapter(index).title())
}
