//! The page: one file, no request to anywhere, readable on a phone, in the dark and on paper.

mod ledger;
mod pieces;
mod section;
mod story;

use std::fmt::Write;

use lab::findings::{Findings, Verdict};

use crate::About;
use crate::ledger::{Counts, verdict_marks};
use crate::text::{escape, format_number, format_seconds};
use pieces::{Numbers, slug};

const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
/// Forbids the page every request, so that it cannot depend on a network by accident.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The whole report as one self-contained page; only the links to `figures/` and `tables/` point beside it.
pub fn index_html(findings: &[Findings], about: &About) -> String {
    let figures = findings.iter().flat_map(|f| &f.figures).enumerate();
    let numbers: Numbers<'_> = figures.map(|(i, figure)| (figure.id.as_str(), i + 1)).collect();
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#ledger\">Skip to the ledger</a>\n",
        escape(&about.title)
    );
    still_running(&mut out, about);
    masthead(&mut out, findings, about, &numbers);
    out.push_str("<div class=\"page-grid\">\n");
    contents(&mut out, findings);
    out.push_str("<main>\n");
    story::gathered(&mut out, findings, Verdict::Fails, &numbers);
    let mut tables = 0;
    for (i, found) in findings.iter().enumerate() {
        if let Some(chapter) = story::begins(findings, i) {
            let _ = writeln!(out, "<h2 class=\"chapter\">{chapter}</h2>");
        }
        section::section(&mut out, found, about, &numbers, &mut tables);
    }
    story::gathered(&mut out, findings, Verdict::Undefined, &numbers);
    story::not_run(&mut out, &about.not_run);
    ledger::ledger(&mut out, findings, &numbers);
    out.push_str("</main>\n</div>\n");
    footer(&mut out, findings, about);
    let _ = write!(out, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    out
}

/// Says that there is more to come; the script reloads the page while its reader is still at the top.
fn still_running(out: &mut String, about: &About) {
    let Some(running) = about.running else { return };
    let (done, of) = (running.done, running.of);
    let _ = writeln!(
        out,
        "<p class=\"running\" role=\"status\" style=\"--share:{:.1}%\"><b>Still running: {done} of {of} analyses.</b> \
         <span>What is measured is below, the rest follows. <a href=\"\">Reload</a> for more; if the run was stopped, the same \
         command goes on where it was.</span></p>",
        100.0 * done as f64 / of.max(1) as f64
    );
}

fn masthead(out: &mut String, findings: &[Findings], about: &About, numbers: &Numbers<'_>) {
    let counts = Counts::of(findings.iter().flat_map(|f| &f.claims));
    let _ = write!(
        out,
        "<header class=\"masthead\">\n<p class=\"kicker\">iclab · reproduction report</p>\n<h1>{}</h1>\n\
         <p class=\"lede\">{}</p>\n<ul class=\"tally\" aria-label=\"Summary of verdicts\">\n",
        escape(&about.title),
        escape(&about.purpose)
    );
    let tiles = [
        (Verdict::Holds, counts.holds, if counts.holds == 1 { "claim holds" } else { "claims hold" }),
        (Verdict::Fails, counts.fails, if counts.fails == 1 { "claim fails" } else { "claims fail" }),
        (Verdict::Undefined, counts.undefined, "undefined in the paper"),
    ];
    for (verdict, count, words) in tiles {
        let (word, sign, _) = verdict_marks(verdict);
        let _ = writeln!(
            out,
            "<li class=\"{word}\" style=\"--share:{count}\"><span class=\"count\"><span aria-hidden=\"true\" \
             class=\"sign\">{sign}</span>{count}</span> <span class=\"words\">{words}</span></li>"
        );
    }
    out.push_str("</ul>\n");
    story::main_result(out, findings, numbers);
    out.push_str("<dl class=\"facts\">\n");
    let mut facts = vec![("seed", about.seed.to_string())];
    if about.prompts > 0 {
        facts.insert(0, ("prompts", format_number(about.prompts as f64)));
    }
    facts.push(("time", format_seconds(about.seconds)));
    facts.push(("version", about.version.clone()));
    facts.push(("plan", about.plan_hash.clone()));
    facts.push(("machine", about.machine.clone()));
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(value));
    }
    out.push_str("</dl>\n</header>\n");
}

fn contents(out: &mut String, findings: &[Findings]) {
    out.push_str("<nav class=\"contents\" aria-label=\"Contents\">\n<ul>\n");
    for (i, found) in findings.iter().enumerate() {
        if let Some(chapter) = story::begins(findings, i) {
            let _ = writeln!(out, "<li class=\"chapter\">{chapter}</li>");
        }
        let counts = Counts::of(&found.claims);
        let state = if counts.fails > 0 { "fails" } else { "ok" };
        let _ = writeln!(
            out,
            "<li><a class=\"{state}\" href=\"#{}\"><b>{}</b> <span>{}</span></a></li>",
            slug("a", &found.analysis),
            escape(&found.analysis),
            escape(&found.title)
        );
    }
    out.push_str("<li class=\"chapter\"><a href=\"#ledger\">Ledger of all claims</a></li>\n</ul>\n</nav>\n");
}

fn footer(out: &mut String, findings: &[Findings], about: &About) {
    let example = findings.first().map_or("F26", |f| f.analysis.as_str());
    let _ = write!(
        out,
        "<footer>\n<div><h2>Run it again</h2>\n<p>This page was made by <code>{}</code>; one analysis alone by \
         <code>iclab reproduce --only {}</code>. The same seed gives the same numbers on any number of threads. \
         All claims are in <a href=\"ledger.json\">ledger.json</a>, the numbers behind each figure in its CSV file.</p></div>\n\
         <div><h2>Cite the paper</h2>\n<p>Deqing Fu, Tian-Qi Chen, Robin Jia, Vatsal Sharan. <cite>Transformers Learn to \
         Achieve Second-Order Convergence Rates for In-Context Linear Regression.</cite> Advances in Neural Information \
         Processing Systems 37 (NeurIPS 2024). <a href=\"https://arxiv.org/abs/2310.17086\" rel=\"noreferrer\">arXiv:2310.17086</a></p></div>\n\
         <div><h2>How to read</h2>\n<p>A claim <em>holds</em> when its measured value meets the required bound; nothing \
         else decides. <em>Undefined</em> marks values for which the paper fixes no bound. An <em>erratum</em> is a \
         statement the paper prints wrongly; its claims show how, and what is right.</p>\n<p>iclab {}</p></div>\n</footer>\n",
        escape(&about.command),
        escape(example),
        escape(&about.version)
    );
}
