//! The section of one analysis: what it asks, how the verdicts answer, each figure with the claims it shows, tables.

use std::fmt::Write;

use lab::findings::{Claim, Figure, Findings, Table};

use super::outline::Outline;
use super::pieces::{answer, figure_files, notes, panels, sentence, slug};
use super::{claims, paper};
use crate::About;
use crate::text::{escape, format_seconds};

/// One analysis.
pub fn section(out: &mut String, found: &Findings, about: &About, outline: &Outline<'_>) {
    let _ = write!(
        out,
        "<section class=\"analysis\" id=\"{}\">\n<p class=\"place\"><b>{}</b> {}</p>\n<h2>{}</h2>\n",
        slug("a", &found.analysis),
        escape(&found.analysis),
        paper::subject(found),
        escape(&found.title),
    );
    answer(out, found);
    notes(out, &found.notes);
    let _ = writeln!(out, "<p class=\"summary\">{}</p>", escape(&found.summary));
    evidence(out, found, outline);
    let kept = if about.kept.contains(&found.analysis) { ", kept from an earlier run" } else { "" };
    let _ = write!(
        out,
        "<p class=\"rerun\">Run again: <code>{}</code> <span>({}{kept})</span></p>\n</section>\n",
        escape(&about.rerun(&found.analysis)),
        format_seconds(found.seconds)
    );
}

/// Claims without a picture, every figure with its claims, tables.
pub fn evidence(out: &mut String, found: &Findings, outline: &Outline<'_>) {
    let by = |figure: &Figure, claim: &Claim| claim.figure.as_deref() == Some(figure.id.as_str());
    let apart = found.claims.iter().filter(|claim| !found.figures.iter().any(|figure| by(figure, claim)));
    claims::table(out, apart, "");
    for figure in &found.figures {
        draw_figure(out, found, figure, outline);
        let beside =
            if paper::is_reproduced(found, figure) { "The paper’s values beside ours" } else { "" };
        claims::table(out, found.claims.iter().filter(|claim| by(figure, claim)), beside);
    }
    for (i, table) in found.tables.iter().enumerate() {
        draw_table(out, table, paper::table_name(found, i));
    }
}

/// A figure with its caption.
pub fn draw_figure(out: &mut String, found: &Findings, figure: &Figure, outline: &Outline<'_>) {
    let shape = if figure.panels.len() == 1 { "single" } else { "several" };
    let _ = writeln!(out, "<figure class=\"{shape}\" id=\"{}\">", slug("fig", &figure.id));
    panels(out, figure, usize::MAX);
    let _ = write!(
        out,
        "<figcaption><span class=\"name\"><b>{}</b>{}</span> <b>{}</b> {} {}</figcaption>\n</figure>\n",
        escape(outline.name(figure)),
        if paper::is_reproduced(found, figure) { paper::place(found) } else { String::new() },
        sentence(&figure.title),
        escape(&figure.caption),
        figure_files(figure)
    );
}

fn draw_table(out: &mut String, table: &Table, name: String) {
    let _ = write!(
        out,
        "<div class=\"table\" id=\"{}\">\n<div class=\"scroll\">\n<table class=\"data\">\n<caption>{name}<b>{}</b> {} \
         <span class=\"files\"><a href=\"tables/{}.csv\">CSV</a></span></caption>\n<thead><tr>",
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
