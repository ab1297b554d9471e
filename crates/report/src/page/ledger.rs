//! The ledger on the page: every claim as a row, with filters by verdict.

use std::fmt::Write;

use lab::findings::{Bound, Claim, Findings, Kind};

use super::pieces::{Numbers, badge, figure_link, measured, slug, why};
use crate::ledger::{Counts, bound_text, kind_word, verdict_marks};
use crate::text::escape;

/// All claims, grouped by analysis.
pub fn ledger(out: &mut String, findings: &[Findings], numbers: &Numbers<'_>) {
    let claims = || findings.iter().flat_map(|f| &f.claims);
    let counts = Counts::of(claims());
    let errata = claims().filter(|c| c.kind == Kind::Erratum).count();
    out.push_str("<section id=\"ledger\" data-filter=\"all\">\n<h2>Ledger of claims</h2>\n");
    out.push_str("<div class=\"filters\" role=\"group\" aria-label=\"Show claims\" hidden>\n");
    let filters = [
        ("all", "All", counts.total()),
        ("fails", "Fail", counts.fails),
        ("undefined", "Undefined", counts.undefined),
        ("erratum", "Errata", errata),
    ];
    for (key, word, count) in filters {
        let off = if count == 0 { " disabled" } else { "" };
        let _ = writeln!(
            out,
            "<button type=\"button\" data-show=\"{key}\" aria-pressed=\"{}\"{off}>{word} <span>{count}</span></button>",
            key == "all"
        );
    }
    out.push_str(
        "</div>\n<table class=\"ledger\">\n<thead><tr><th scope=\"col\">Claim</th><th scope=\"col\">Quoted</th>\
         <th scope=\"col\">Measured <small>95 % interval</small></th><th scope=\"col\">Required</th>\
         <th scope=\"col\">Verdict</th><th scope=\"col\">Figure</th></tr></thead>\n",
    );
    for found in findings.iter().filter(|f| !f.claims.is_empty()) {
        let _ = writeln!(
            out,
            "<tbody>\n<tr class=\"group\"><th colspan=\"6\" scope=\"rowgroup\"><a href=\"#{}\"><b>{}</b> {}</a></th></tr>",
            slug("a", &found.analysis),
            escape(&found.analysis),
            escape(&found.title)
        );
        for claim in &found.claims {
            ledger_row(out, claim, numbers);
        }
        out.push_str("</tbody>\n");
    }
    out.push_str("</table>\n</section>\n");
}

fn ledger_row(out: &mut String, claim: &Claim, numbers: &Numbers<'_>) {
    let tag = match claim.kind {
        Kind::Paper => String::new(),
        kind => format!(" <span class=\"kind {0}\">{0}</span>", kind_word(kind)),
    };
    let bound = if claim.bound == Bound::None { String::new() } else { bound_text(claim.bound) };
    let _ = writeln!(
        out,
        "<tr id=\"{}\" data-verdict=\"{}\" data-kind=\"{}\"><th scope=\"row\"><code>{}</code>{tag}<p>{}</p>{}</th>\
         <td data-label=\"Quoted\">{}</td><td data-label=\"Measured\">{}</td><td data-label=\"Required\" \
         class=\"num\">{}</td><td class=\"verdict\">{}</td><td class=\"link\">{}</td></tr>",
        slug("c", &claim.id),
        verdict_marks(claim.verdict).0,
        kind_word(claim.kind),
        escape(&claim.id),
        escape(&claim.statement),
        why(claim),
        escape(&claim.quoted),
        measured(claim),
        escape(&bound),
        badge(claim.verdict),
        figure_link(claim, numbers),
    );
}
