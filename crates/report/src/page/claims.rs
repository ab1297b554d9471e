//! Claims as rows: id, network, what is quoted and whose words those are, what is required, what was measured, also by other
//! readings, the verdict and its reason. The same in sections and in the ledger; on a phone a row becomes lines.

use std::fmt::Write;

use lab::findings::{Bound, Claim, Findings, Kind};

use super::pieces::{badge, measured, readings, slug, why};
use crate::ledger::{bound_text, quoted_text};
use crate::text::escape;

const HEAD: &str = "<thead><tr><th scope=\"col\">Claim</th><th scope=\"col\">Quoted</th><th scope=\"col\">Required</th>\
                    <th scope=\"col\">Measured <small>95 % interval</small></th><th scope=\"col\">Verdict</th></tr></thead>\n";

/// Some claims of an analysis, under column heads.
pub fn table<'a>(out: &mut String, claims: impl IntoIterator<Item = &'a Claim>, caption: &str) {
    let mut claims = claims.into_iter().peekable();
    if claims.peek().is_none() {
        return;
    }
    let caption = if caption.is_empty() { String::new() } else { format!("<caption>{caption}</caption>\n") };
    let _ = write!(out, "<table class=\"claims\">\n{caption}{HEAD}<tbody>\n");
    claims.for_each(|claim| row(out, claim, None));
    out.push_str("</tbody>\n</table>\n");
}

/// All claims of all analyses, a group for each.
pub fn groups<'a>(out: &mut String, findings: &'a [Findings], file: impl Fn(&'a Findings) -> &'static str) {
    let _ = write!(out, "<table class=\"claims\">\n{HEAD}");
    for found in findings.iter().filter(|f| !f.claims.is_empty()) {
        let page = file(found);
        let _ = writeln!(
            out,
            "<tbody>\n<tr class=\"group\"><th colspan=\"5\" scope=\"rowgroup\"><a href=\"{page}#{}\"><b>{}</b> {}</a></th></tr>",
            slug("a", &found.analysis),
            escape(&found.analysis),
            escape(&found.title)
        );
        found.claims.iter().for_each(|claim| row(out, claim, Some(page)));
        out.push_str("</tbody>\n");
    }
    out.push_str("</table>\n");
}

/// One claim; in the ledger its id leads to `page`. The link is for the pointer: by keyboard the heading above leads there.
fn row(out: &mut String, claim: &Claim, page: Option<&str>) {
    let id = slug("c", &claim.id);
    let name = format!("<code>{}</code>", escape(&claim.id));
    let name = match page {
        Some(page) => format!("<a href=\"{page}#{id}\" tabindex=\"-1\">{name}</a>"),
        None => name,
    };
    let required = if claim.bound == Bound::None { "–".into() } else { bound_text(claim.bound) };
    let quoted = Some(quoted_text(claim)).filter(|words| !words.is_empty());
    let _ = writeln!(
        out,
        "<tr id=\"{id}\" data-verdict=\"{}\" data-kind=\"{}\"><th scope=\"row\">{name}{}{}<p>{}</p>{}</th>\
         <td data-label=\"Quoted\">{}</td><td data-label=\"Required\" class=\"num\">{}</td><td data-label=\"Measured\">{}{}</td>\
         <td class=\"verdict\">{}</td></tr>",
        claim.verdict.word(),
        claim.kind.word(),
        network(claim),
        kind(claim.kind),
        escape(&claim.statement),
        why(claim),
        escape(quoted.as_deref().unwrap_or("–")),
        escape(&required),
        measured(claim),
        readings(claim),
        badge(claim.verdict),
    );
}

/// The network that was asked, where there is one.
fn network(claim: &Claim) -> String {
    match claim.network.as_str() {
        "" => String::new(),
        name => format!(" <span class=\"network\">{}</span>", escape(name)),
    }
}

/// Says so where a claim is not the paper's statement.
fn kind(kind: Kind) -> String {
    match kind {
        Kind::Paper => String::new(),
        kind => format!(" <span class=\"kind\">{}</span>", kind.word()),
    }
}
