//! The page: one file, no request to anywhere, readable on a phone, in the dark and on paper.

use std::collections::HashMap;
use std::fmt::Write;

use lab::analyses::NotRun;
use lab::findings::claims::{Bound, Claim, Findings, Kind, Verdict};
use lab::findings::figure::{Figure, Table};

use crate::About;
use crate::layout::panel_svgs;
use crate::ledger::{Counts, bound_text, interval_text, kind_word, verdict_sign, verdict_word};
use crate::story;
use crate::text::{escape, format_number, format_seconds};

const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = include_str!("../assets/report.js");
/// Forbids the page every request, so that it cannot depend on a network by accident.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// Number of each figure by its id, in reading order.
pub type Numbers<'a> = HashMap<&'a str, usize>;

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
    let (mut table_number, mut chapter) = (0, "");
    for found in findings {
        if findings.len() > 1 && story::chapter(&found.analysis) != chapter {
            chapter = story::chapter(&found.analysis);
            let _ = writeln!(out, "<h2 class=\"chapter\">{chapter}</h2>");
        }
        section(&mut out, found, about, &numbers, &mut table_number);
    }
    story::gathered(&mut out, findings, Verdict::Undefined, &numbers);
    left_out(&mut out, &about.not_run);
    ledger(&mut out, findings, &numbers);
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
        let (word, sign) = (verdict_word(verdict), verdict_sign(verdict));
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
    let mut chapter = "";
    for found in findings {
        if findings.len() > 1 && story::chapter(&found.analysis) != chapter {
            chapter = story::chapter(&found.analysis);
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

fn ledger(out: &mut String, findings: &[Findings], numbers: &Numbers<'_>) {
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

fn left_out(out: &mut String, not_run: &[NotRun]) {
    if not_run.is_empty() {
        return;
    }
    out.push_str("<section id=\"not-run\">\n<h2>Not run</h2>\n<p class=\"summary\">These analyses ask a trained network that was not there.</p>\n<ul class=\"left-out\">\n");
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
        verdict_word(claim.verdict),
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

/// What explains a failure, as a paragraph.
pub fn why(claim: &Claim) -> String {
    if claim.why.is_empty() {
        return String::new();
    }
    format!("<p class=\"why\">{}</p>", escape(&claim.why))
}

pub fn measured(claim: &Claim) -> String {
    let interval = claim.interval.map(|i| format!(" <span class=\"interval\">{}</span>", interval_text(i)));
    format!("<b class=\"num\">{}</b>{}", format_number(claim.measured), interval.unwrap_or_default())
}

pub fn badge(verdict: Verdict) -> String {
    let (word, sign) = (verdict_word(verdict), verdict_sign(verdict));
    format!("<span class=\"badge {word}\"><span aria-hidden=\"true\">{sign}</span> {word}</span>")
}

pub fn figure_link(claim: &Claim, numbers: &Numbers<'_>) -> String {
    let found = claim.figure.as_deref().and_then(|id| numbers.get(id).map(|n| (id, n)));
    found.map_or_else(String::new, |(id, n)| format!("<a href=\"#{}\">Figure {n}</a>", slug("fig", id)))
}

fn section(
    out: &mut String,
    found: &Findings,
    about: &About,
    numbers: &Numbers<'_>,
    table_number: &mut usize,
) {
    let _ = write!(
        out,
        "<section class=\"analysis\" id=\"{}\">\n<h2><span class=\"id\">{}</span> {}</h2>\n<p class=\"summary\">{}</p>\n",
        slug("a", &found.analysis),
        escape(&found.analysis),
        escape(&found.title),
        escape(&found.summary)
    );
    if !found.claims.is_empty() {
        out.push_str("<ul class=\"brief\">\n");
        for claim in &found.claims {
            let _ = writeln!(
                out,
                "<li>{}<span class=\"statement\"><a href=\"#{}\">{}</a>{}</span><span class=\"value\">{}</span></li>",
                badge(claim.verdict),
                slug("c", &claim.id),
                escape(&claim.statement),
                why(claim),
                measured(claim)
            );
        }
        out.push_str("</ul>\n");
    }
    for figure in &found.figures {
        draw_figure(out, figure, numbers);
    }
    for table in &found.tables {
        *table_number += 1;
        draw_table(out, table, *table_number);
    }
    let kept = if about.kept.contains(&found.analysis) { ", kept from an earlier run" } else { "" };
    let _ = write!(
        out,
        "<p class=\"rerun\">Run again: <code>{}</code> <span>({}{kept})</span></p>\n</section>\n",
        escape(&about.rerun(&found.analysis)),
        format_seconds(found.seconds)
    );
}

fn draw_figure(out: &mut String, figure: &Figure, numbers: &Numbers<'_>) {
    let panels = panel_svgs(figure);
    let shape = if panels.len() == 1 { "single" } else { "several" };
    let _ = writeln!(
        out,
        "<figure class=\"{shape}\" id=\"{}\">\n<div class=\"panels\">",
        slug("fig", &figure.id)
    );
    for (width, panel) in panels {
        let _ = writeln!(out, "<div class=\"panel\" style=\"--width:{width:.0}\">{panel}</div>");
    }
    let file = escape(&figure.id);
    let number = numbers.get(figure.id.as_str()).copied().unwrap_or_default();
    let _ = write!(
        out,
        "</div>\n<figcaption><b>Figure {number}. {}</b> {} <span class=\"files\"><a href=\"figures/{file}.svg\">SVG</a> \
         <a href=\"figures/{file}.png\">PNG</a> <a href=\"figures/{file}.csv\">CSV</a></span></figcaption>\n</figure>\n",
        sentence(&figure.title),
        escape(&figure.caption)
    );
}

fn draw_table(out: &mut String, table: &Table, number: usize) {
    let title = escape(&table.title);
    let _ = write!(
        out,
        "<div class=\"table\" id=\"{}\">\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{title}\">\n\
         <table class=\"data\">\n<caption><b>Table {number}. {}</b> {} <span class=\"files\"><a href=\"tables/{}.csv\">CSV</a>\
         </span></caption>\n<thead><tr>",
        slug("tab", &table.id),
        sentence(&table.title),
        escape(&table.caption),
        escape(&table.id)
    );
    for column in &table.columns {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(column));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{}</td>", escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</div>\n</div>\n");
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

/// An element id from a name: `c-F26-newton-gd`.
pub fn slug(prefix: &str, name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("{prefix}-{}", name.chars().map(plain).collect::<String>())
}

/// A headline as the first sentence of a caption.
fn sentence(title: &str) -> String {
    let closed = title.ends_with(['.', '?', '!']);
    format!("{}{}", escape(title), if closed { "" } else { "." })
}
