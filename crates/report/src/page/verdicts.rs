//! The verdicts on the summary: how many of each, by which networks, what fails and to what that is laid, what depends on the
//! protocol.

use std::collections::BTreeMap;
use std::fmt::Write;

use lab::findings::{Cause, Claim, Findings, Kind, Reading, Verdict};

use super::outline::{LEDGER, Outline};
use super::pieces::{measured, slug, why};
use crate::About;
use crate::found::{by_cause, judged_by};
use crate::ledger::{Counts, each_verdict, verdict_marks};
use crate::text::{escape, format_number};

/// Three answers and the table of counts.
pub fn asked(out: &mut String, findings: &[Findings], about: &About, left_out: usize) {
    let claims = findings.iter().flat_map(|found| &found.claims);
    let (counts, kinds) = (Counts::of(claims.clone()), Counts::by_kind(claims));
    let prompts = match about.prompts {
        0 => String::new(),
        count => format!(", on {} prompts", format_number(count as f64)),
    };
    let missing = match about.not_run.len() + left_out {
        0 => String::new(),
        1 => " <a href=\"#not-run\">One more analysis was not run.</a>".into(),
        n => format!(" <a href=\"#not-run\">{n} more analyses were not run.</a>"),
    };
    let found: Vec<String> = kinds.iter().map(|(kind, counts)| found_of(*kind, *counts)).collect();
    let failed = match counts.fails {
        0 => "Nothing fails.".to_string(),
        1 => "<a href=\"#fails\">One claim fails</a>, with its reason.".into(),
        n => format!("<a href=\"#fails\">{n} claims fail</a>, each with its reason."),
    };
    let open = match counts.unsettled {
        0 => String::new(),
        1 => format!(
            " <a href=\"{LEDGER}#show=unsettled\">One is unsettled</a>: its interval reaches across what is required."
        ),
        n => format!(
            " <a href=\"{LEDGER}#show=unsettled\">{n} are unsettled</a>: their intervals reach across what is required."
        ),
    };
    let apart = match counts.measured {
        0 => String::new(),
        n => format!(
            " <a href=\"{LEDGER}#show=measured\">{n} more</a> are measured only and not counted: nothing is required of them."
        ),
    };
    let _ = write!(
        out,
        "<section id=\"tally\">\n<h2>Asked, found, not found</h2>\n<div class=\"three\">\n\
         <div><h3>Asked</h3><p>{} judged claims in {} analyses{prompts}.{apart}{missing}</p></div>\n\
         <div><h3>Found</h3><p>{}.</p></div>\n<div><h3>Not found</h3><p>{failed}{open}</p></div>\n</div>\n",
        counts.judged(),
        findings.len(),
        found.join("; "),
    );
    match judged_by(findings, &about.recipes).as_str() {
        "" => {}
        words => {
            let _ = writeln!(
                out,
                "<p class=\"recipes\">Of the paper’s judged statements {}{}</p>",
                escape(words),
                recipes(about)
            );
        }
    }
    out.push_str(
        "<table class=\"tally\">\n<thead><tr><th scope=\"col\">Whose claims</th><th class=\"share\"></th>\
         <th scope=\"col\">hold</th><th scope=\"col\">fail</th><th scope=\"col\">unsettled</th><th scope=\"col\">judged</th>\
         <th scope=\"col\">not counted: measured</th></tr></thead>\n<tbody>\n",
    );
    let most = kinds.iter().map(|(_, counts)| counts.judged()).max().unwrap_or(1);
    kinds.iter().for_each(|(kind, counts)| tally_row(out, *kind, *counts, most));
    out.push_str("</tbody>\n</table>\n</section>\n");
}

/// What came of the claims of one kind, as part of a sentence.
fn found_of(kind: Kind, counts: Counts) -> String {
    let of = match kind {
        Kind::Paper => "of the paper’s statements",
        Kind::Erratum => "of the claims about errata",
        Kind::Reference => "of the reference values",
        Kind::Beyond => "of the claims beyond the paper",
    };
    format!("<b>{} of {}</b> {of} hold", counts.holds, counts.judged())
}

fn tally_row(out: &mut String, kind: Kind, counts: Counts, most: usize) {
    let _ = write!(
        out,
        "<tr><th scope=\"row\"><a href=\"{LEDGER}#show={}\">{}</a></th><td class=\"share\" aria-hidden=\"true\">\
         <div class=\"bar\" style=\"--share:{:.1}%\">",
        kind.word(),
        kind.title(),
        100.0 * counts.judged() as f64 / most.max(1) as f64
    );
    let judged = each_verdict(counts).into_iter().filter(|(verdict, ..)| *verdict != Verdict::Measured);
    for (verdict, count, _) in judged.clone().filter(|(_, count, _)| *count > 0) {
        let _ = write!(out, "<i class=\"{}\" style=\"flex:{count}\"></i>", verdict_marks(verdict).0);
    }
    out.push_str("</div></td>");
    for (verdict, count, word) in judged {
        let class = if count == 0 { "none" } else { verdict_marks(verdict).0 };
        let _ = write!(out, "<td class=\"{class}\" data-label=\"{word}\">{count}</td>");
    }
    let _ = writeln!(
        out,
        "<td data-label=\"judged\">{}</td><td class=\"{}\" data-label=\"measured\">{}</td></tr>",
        counts.judged(),
        if counts.measured == 0 { "none" } else { "measured" },
        counts.measured
    );
}

/// How networks were trained that are not of the paper's recipe.
fn recipes(about: &About) -> String {
    let others = about.recipes.iter().filter_map(|recipe| Some((&recipe.network, recipe.other.as_ref()?)));
    let mut ways: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (network, how) in others {
        ways.entry(how).or_default().push(network);
    }
    if ways.is_empty() {
        return String::new();
    }
    let ways: Vec<String> =
        ways.iter().map(|(how, networks)| format!("{} by {how}", networks.join(", "))).collect();
    format!(" <small>Not the paper’s recipe: {}.</small>", escape(&ways.join("; ")))
}

/// The claims that fail, by what that is laid to, each with the evidence.
pub fn fails(out: &mut String, findings: &[Findings], outline: &Outline<'_>) {
    let claims = findings.iter().flat_map(|found| &found.claims);
    let groups = by_cause(claims.filter(|claim| claim.verdict == Verdict::Fails));
    if groups.is_empty() {
        return;
    }
    out.push_str("<section id=\"fails\">\n<h2>What fails, and why</h2>\n");
    for (cause, claims) in groups {
        let _ = writeln!(
            out,
            "<h3>{} <small>{}</small></h3>\n<ul class=\"failures\">",
            heading(cause),
            claims.len()
        );
        for claim in claims {
            let _ = writeln!(
                out,
                "<li><a href=\"{}\"><code>{}</code></a><p>{}</p><span class=\"value\">{} <span class=\"required\">required {}</span></span>{}</li>",
                place(claim, findings, outline),
                escape(&claim.id),
                escape(&claim.statement),
                measured(claim),
                escape(&crate::bound_text(claim.bound)),
                evidence(claim)
            );
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</section>\n");
}

fn heading(cause: Option<Cause>) -> &'static str {
    match cause {
        Some(Cause::Network) => "(a) The network: it was trained otherwise than the paper’s",
        Some(Cause::Protocol) => "(b) The protocol: by the authors’ choices it holds",
        Some(Cause::Paper) => "(c) The paper: its network and its protocol say otherwise",
        None => "Claims that are not the paper’s",
    }
}

/// Why a claim fails, without the cause that the heading says.
fn evidence(claim: &Claim) -> String {
    why(&Claim { cause: None, ..claim.clone() })
}

/// The address of a claim.
fn place(claim: &Claim, findings: &[Findings], outline: &Outline<'_>) -> String {
    let of = findings.iter().find(|found| found.claims.iter().any(|other| other.id == claim.id));
    format!("{}#{}", of.map_or(LEDGER, |found| outline.file(found)), slug("c", &claim.id))
}

/// Claims of which another reading gives another verdict, by that reading.
pub fn turning(findings: &[Findings]) -> BTreeMap<&str, Vec<(&Findings, &Claim, &Reading)>> {
    let mut found: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for of in findings {
        for claim in &of.claims {
            for reading in claim.readings.iter().filter(|reading| reading.verdict != claim.verdict) {
                found.entry(&reading.by).or_default().push((of, claim, reading));
            }
        }
    }
    found
}

/// Which verdicts change, and into what.
pub fn depends(
    out: &mut String,
    turning: &BTreeMap<&str, Vec<(&Findings, &Claim, &Reading)>>,
    outline: &Outline<'_>,
) {
    if turning.is_empty() {
        return;
    }
    out.push_str("<section id=\"depends\">\n<h2>What depends on the protocol</h2>\n");
    for (by, claims) in turning {
        let change = |(of, claim, reading): &(&Findings, &Claim, &Reading)| {
            let (id, from, to) = (slug("c", &claim.id), claim.verdict.word(), reading.verdict.word());
            format!("<a href=\"{}#{id}\">{}</a> ({from} → {to})", outline.file(of), escape(&claim.id))
        };
        let changes: Vec<String> = claims.iter().map(change).collect();
        let _ = writeln!(
            out,
            "<p class=\"summary\"><b>By {}</b> {} {}: {}.</p>",
            escape(by),
            claims.len(),
            if claims.len() == 1 { "verdict changes" } else { "verdicts change" },
            changes.join(", ")
        );
    }
    out.push_str("</section>\n");
}
