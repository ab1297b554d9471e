//! The section of one analysis: what it asks, its claims in brief, its figures and tables.

use std::fmt::Write;

use lab::findings::{Figure, Findings, Table};

use super::pieces::{Numbers, brief, panels, slug};
use crate::About;
use crate::text::{escape, format_seconds};

/// One analysis; `tables` counts the tables of the page so far.
pub fn section(out: &mut String, found: &Findings, about: &About, numbers: &Numbers<'_>, tables: &mut usize) {
    let _ = write!(
        out,
        "<section class=\"analysis\" id=\"{}\">\n<h2><span class=\"id\">{}</span> {}</h2>\n<p class=\"summary\">{}</p>\n",
        slug("a", &found.analysis),
        escape(&found.analysis),
        escape(&found.title),
        escape(&found.summary)
    );
    if !found.claims.is_empty() {
        brief(out, &found.claims, None);
    }
    for figure in &found.figures {
        draw_figure(out, figure, numbers);
    }
    for table in &found.tables {
        *tables += 1;
        draw_table(out, table, *tables);
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
    let shape = if figure.panels.len() == 1 { "single" } else { "several" };
    let _ = writeln!(out, "<figure class=\"{shape}\" id=\"{}\">", slug("fig", &figure.id));
    panels(out, figure);
    let file = escape(&figure.id);
    let number = numbers.get(figure.id.as_str()).copied().unwrap_or_default();
    let _ = write!(
        out,
        "<figcaption><b>Figure {number}. {}</b> {} <span class=\"files\"><a href=\"figures/{file}.svg\">SVG</a> \
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

/// A headline as the first sentence of a caption.
fn sentence(title: &str) -> String {
    let closed = title.ends_with(['.', '?', '!']);
    format!("{}{}", escape(title), if closed { "" } else { "." })
}
