//! The summary: what was found, in a sentence; the main result; the verdicts; a few figures; what was not run; chapters.

use std::fmt::Write;
use std::ops::Range;

use lab::analyses::ANALYSES;
use lab::findings::{Figure, Findings, Headline, Verdict};

use super::outline::{INDEX, LEDGER, Outline};
use super::pieces::{badge, figure_files, measured, notes, panels, sentence, slug, tally};
use super::shell::{self, Stop};
use super::verdicts::{asked, depends, fails, turning};
use super::{glossary, paper};
use crate::About;
use crate::found::found;
use crate::ledger::Counts;
use crate::text::escape;

/// Figures on the summary, the main ones included.
const FIGURES: usize = 12;

/// `index.html`.
pub fn page(findings: &[Findings], outline: &Outline<'_>, about: &About) -> String {
    let mut out = String::new();
    let main = main_result(findings, 0..Headline::SECOND);
    let second = main_result(findings, Headline::SECOND..u32::MAX);
    let told: Vec<&Findings> = [main, second].into_iter().flatten().map(|(found, _)| found).collect();
    let chosen = chosen(outline, &told);
    let failing = findings.iter().flat_map(|of| &of.claims).any(|claim| claim.verdict == Verdict::Fails);
    let turning = turning(findings);
    let left_out = left_out(findings, about);
    shell::open(&mut out, &about.title, about);
    let stops = [
        (main.is_some(), "result", "The main result"),
        (second.is_some(), "second", "The second picture"),
        (true, "tally", "Asked, found, not found"),
        (!chosen.is_empty(), "figures", "A look at the figures"),
        (failing, "fails", "What fails, and why"),
        (!turning.is_empty(), "depends", "What depends on the protocol"),
        (!left_out.is_empty() || !about.not_run.is_empty(), "not-run", "What was not run"),
        (true, "chapters", "Chapters"),
    ];
    let stops: Vec<Stop> = stops.iter().filter(|s| s.0).map(|(_, id, words)| Stop::new(id, words)).collect();
    shell::sidebar(&mut out, Some(outline), INDEX, &stops);
    let _ = write!(
        out,
        "<header class=\"masthead\">\n<p class=\"kicker\">iclab · reproduction report</p>\n<h1>{}</h1>\n",
        escape(&about.title)
    );
    // what was found comes first, and why the page is there stands back
    let _ = match found(findings).as_str() {
        "" => writeln!(out, "<p class=\"lede\">{}</p>", escape(&about.purpose)),
        words => writeln!(
            out,
            "<p class=\"lede\">{}</p>\n<p class=\"purpose\">{}</p>",
            escape(words),
            escape(&about.purpose)
        ),
    };
    notes(&mut out, &about.notes);
    out.push_str("</header>\n");
    glossary::glossary(&mut out);
    for (id, result) in [("result", main), ("second", second)] {
        if let Some((found, figure)) = result {
            draw_main(&mut out, id, found, figure, outline);
        }
    }
    asked(&mut out, findings, about, left_out.len());
    gallery(&mut out, &chosen, outline);
    fails(&mut out, findings, outline);
    depends(&mut out, &turning, outline);
    not_run(&mut out, about, &left_out);
    chapters(&mut out, outline);
    shell::facts(&mut out, about);
    shell::ways_on(&mut out, outline, INDEX);
    let places = serde_json::to_string(&outline.anchors()).expect("plain text is JSON");
    shell::close(&mut out, about, &places);
    out
}

/// Of the analyses that offer a headline of some ranks, the one of the lowest, with its figure.
fn main_result(findings: &[Findings], ranks: Range<u32>) -> Option<(&Findings, &Figure)> {
    let offered = findings.iter().filter_map(|found| {
        let headline = found.headline.as_ref().filter(|headline| ranks.contains(&headline.rank))?;
        let figure = found.figures.iter().find(|figure| figure.id == headline.figure)?;
        Some((headline.rank, found, figure))
    });
    offered.min_by_key(|(rank, ..)| *rank).map(|(_, found, figure)| (found, figure))
}

fn draw_main(out: &mut String, id: &str, found: &Findings, figure: &Figure, outline: &Outline<'_>) {
    let file = outline.file(found);
    let told = found.headline.as_ref().map_or(&[][..], |headline| &headline.claims);
    let _ = write!(
        out,
        "<section class=\"main-result\" id=\"{id}\">\n<div class=\"head\">\n<p class=\"place\"><b>{}</b> {}</p>\n\
         <h2><a href=\"{file}#{}\">{}</a></h2>\n<p class=\"found\">{}</p>\n",
        escape(&found.analysis),
        paper::subject(found),
        slug("a", &found.analysis),
        escape(&found.title),
        escape(&found.answer)
    );
    // the paper explains the first picture; nothing but this explains the second
    if id == "second" {
        let _ = writeln!(out, "<p>{}</p>", escape(&found.summary));
    }
    out.push_str("</div>\n<ul class=\"brief\">\n");
    for claim in found.claims.iter().filter(|claim| told.contains(&claim.id)) {
        let _ = writeln!(
            out,
            "<li>{} <span class=\"value\">{}</span><p>{}</p></li>",
            badge(claim.verdict),
            measured(claim),
            escape(&claim.statement)
        );
    }
    out.push_str("</ul>\n<figure class=\"several\">\n");
    // drawn again in its chapter, where its element has its name
    panels(out, figure, usize::MAX);
    let _ = write!(
        out,
        "<figcaption><b>{}. {}</b> {}</figcaption>\n</figure>\n</section>\n",
        escape(outline.name(figure)),
        sentence(&figure.title),
        figure_files(figure)
    );
}

/// The figures that stand for the chapters: those of the main text first, then one of each other page.
fn chosen<'a>(outline: &Outline<'a>, told: &[&Findings]) -> Vec<(&'a Findings, &'a Figure)> {
    let first = |found: &'a Findings| found.figures.first().map(|figure| (found, figure));
    let other = |found: &&&'a Findings| told.iter().all(|told| told.analysis != found.analysis);
    let mut chosen: Vec<_> = Vec::new();
    for (i, chapter) in outline.chapters.iter().enumerate() {
        let take = if i == 0 { 7 } else { 1 };
        chosen.extend(chapter.findings.iter().filter(other).filter_map(|found| first(found)).take(take));
    }
    chosen.truncate(FIGURES - told.len());
    chosen
}

/// Each figure by its first panel; all of it is in its chapter.
fn gallery(out: &mut String, chosen: &[(&Findings, &Figure)], outline: &Outline<'_>) {
    if chosen.is_empty() {
        return;
    }
    out.push_str("<section id=\"figures\">\n<h2>A look at the figures</h2>\n<div class=\"gallery\">\n");
    for (found, figure) in chosen {
        let _ = write!(
            out,
            "<figure class=\"card\">\n<p class=\"place\"><b>{}</b>{}</p>\n<h3><a href=\"{}#{}\">{}</a></h3>\n",
            escape(outline.name(figure)),
            paper::place(found),
            outline.file(found),
            slug("a", &found.analysis),
            escape(&found.title),
        );
        panels(out, figure, 1);
        let counts = Counts::of(&found.claims);
        let _ = write!(
            out,
            "<figcaption>{} {}</figcaption>\n</figure>\n",
            tally(counts),
            if counts.fails > 0 { escape(&found.answer) } else { sentence(&figure.title) }
        );
    }
    out.push_str("</div>\n</section>\n");
}

/// Analyses that nobody asked for; of a run that goes on nobody knows yet.
fn left_out(findings: &[Findings], about: &About) -> Vec<(&'static str, &'static str)> {
    if about.running.is_some() || findings.is_empty() {
        return vec![];
    }
    let known = |id: &str| {
        findings.iter().any(|found| found.analysis == id)
            || about.not_run.iter().any(|not| not.analysis == id)
    };
    ANALYSES.iter().filter(|row| !known(row.id)).map(|row| (row.id, row.title)).collect()
}

/// What was left out, and why.
fn not_run(out: &mut String, about: &About, left_out: &[(&str, &str)]) {
    if left_out.is_empty() && about.not_run.is_empty() {
        return;
    }
    out.push_str("<section id=\"not-run\">\n<h2>What was not run</h2>\n");
    if !about.not_run.is_empty() {
        out.push_str("<ul class=\"left-out\">\n");
        for not in &about.not_run {
            let [id, title, why] = [&not.analysis, &not.title, &not.why].map(|text| escape(text));
            let _ = writeln!(out, "<li><b>{id}</b> {title} <small>{why}</small></li>");
        }
        out.push_str("</ul>\n");
    }
    if !left_out.is_empty() {
        let _ = write!(
            out,
            "<details class=\"unasked\"><summary>{} {} not asked for by <code>{}</code></summary>\n<ul class=\"left-out\">\n",
            left_out.len(),
            if left_out.len() == 1 { "analysis was" } else { "analyses were" },
            escape(&about.command)
        );
        for (id, title) in left_out {
            let _ = writeln!(out, "<li><b>{}</b> {}</li>", escape(id), escape(title));
        }
        out.push_str("</ul>\n</details>\n");
    }
    out.push_str("</section>\n");
}

fn chapters(out: &mut String, outline: &Outline<'_>) {
    out.push_str("<section id=\"chapters\">\n<h2>Chapters</h2>\n<ol class=\"chapters\">\n");
    for chapter in &outline.chapters {
        let counts = Counts::of(chapter.findings.iter().flat_map(|found| &found.claims));
        let ids: Vec<&str> = chapter.findings.iter().map(|found| found.analysis.as_str()).collect();
        let _ = writeln!(
            out,
            "<li><h3><a href=\"{}\">{}</a></h3><p>{}</p><p class=\"answer\">{}</p><p class=\"ids\">{}</p></li>",
            chapter.file,
            chapter.title,
            chapter.about,
            tally(counts),
            escape(&ids.join(" · "))
        );
    }
    let _ = write!(
        out,
        "<li><h3><a href=\"{LEDGER}\">All claims</a></h3><p>Every claim in one table, with filters.</p></li>\n</ol>\n</section>\n"
    );
}
