//! The page of all claims, with filters by verdict and by whose claims they are.

use std::fmt::Write;

use lab::findings::Findings;

use super::outline::{LEDGER, Outline};
use super::{claims, glossary, shell};
use crate::About;
use crate::ledger::{Counts, each_verdict, verdict_marks};

/// All claims, grouped by analysis.
pub fn page(findings: &[Findings], outline: &Outline<'_>, about: &About) -> String {
    let mut out = String::new();
    shell::open(&mut out, "All claims", about);
    shell::sidebar(&mut out, Some(outline), LEDGER, &[]);
    out.push_str(
        "<header class=\"masthead\">\n<p class=\"kicker\">iclab · reproduction report</p>\n<h1>All claims</h1>\n\
         <p class=\"lede\">Every claim with what the paper says, what is required, what was measured, and the verdict that \
         follows.</p>\n</header>\n",
    );
    glossary::glossary(&mut out);
    out.push_str("<section id=\"ledger\">\n");
    filters(&mut out, findings);
    claims::groups(&mut out, findings, |found| outline.file(found));
    out.push_str("</section>\n");
    shell::ways_on(&mut out, outline, LEDGER);
    shell::close(&mut out, about, "{}");
    out
}

fn filters(out: &mut String, findings: &[Findings]) {
    let counts = Counts::of(findings.iter().flat_map(|f| &f.claims));
    out.push_str("<div class=\"filters\" hidden>\n");
    let verdicts = each_verdict(counts).map(|(verdict, count, _)| {
        let word = verdict_marks(verdict).0;
        (word, word, count)
    });
    buttons(out, "verdict", "Verdict", counts.total(), verdicts);
    let kinds = Counts::by_kind(findings.iter().flat_map(|f| &f.claims));
    let kinds = kinds.into_iter().map(|(kind, counts)| (kind.word(), kind.title(), counts.total()));
    buttons(out, "kind", "Whose claims", counts.total(), kinds);
    let _ = writeln!(out, "<output>{} claims</output>\n</div>", counts.total());
}

/// One group of filters: everything, and each value of `field`.
fn buttons(
    out: &mut String,
    field: &str,
    label: &str,
    total: usize,
    values: impl IntoIterator<Item = (&'static str, &'static str, usize)>,
) {
    let _ = writeln!(out, "<div role=\"group\" aria-label=\"{label}\" data-field=\"{field}\">");
    for (key, word, count) in std::iter::once(("", "all", total)).chain(values) {
        let off = if count == 0 { " disabled" } else { "" };
        let _ = writeln!(
            out,
            "<button type=\"button\" data-show=\"{key}\" aria-pressed=\"{}\"{off}>{word} <span>{count}</span></button>",
            key.is_empty()
        );
    }
    out.push_str("</div>\n");
}
