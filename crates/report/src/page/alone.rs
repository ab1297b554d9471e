//! The page of one analysis: a comparison, a probe, a sweep. What was compared, the answer, the picture, and then the rest.

use std::fmt::Write;

use lab::findings::Findings;

use super::outline::Outline;
use super::pieces::{notes, slug};
use super::shell::{self, Stop};
use super::{glossary, section};
use crate::About;
use crate::text::escape;

/// The whole page.
pub fn page(found: &Findings, about: &About) -> String {
    let mut out = String::new();
    let outline = Outline::of(std::slice::from_ref(found));
    shell::open(&mut out, &about.title, about);
    let figures = found.figures.iter().map(|f| Stop::new(&slug("fig", &f.id), &f.title));
    let tables = found.tables.iter().map(|t| Stop::new(&slug("tab", &t.id), &format!("Table: {}", t.title)));
    let done = Stop::new("about", "What was done");
    let stops: Vec<Stop> = figures.chain(tables).chain([done]).collect();
    shell::sidebar(&mut out, None, "", &stops);
    let _ = write!(
        out,
        "<header class=\"masthead\">\n<p class=\"kicker\">iclab · {}</p>\n<h1>{}</h1>\n",
        what(&about.command),
        escape(&about.title)
    );
    let answer = if found.answer.is_empty() { &about.purpose } else { &found.answer };
    let _ = writeln!(out, "<p class=\"lede\">{}</p>", escape(answer));
    notes(&mut out, about.notes.iter().chain(&found.notes));
    out.push_str("</header>\n<section class=\"alone\">\n");
    section::evidence(&mut out, found, &outline);
    out.push_str("</section>\n<section id=\"about\">\n<h2>What was done</h2>\n");
    let _ = writeln!(out, "<p class=\"summary\">{}</p>", escape(&about.purpose));
    if found.summary != about.purpose {
        let _ = writeln!(out, "<p class=\"summary\">{}</p>", escape(&found.summary));
    }
    shell::facts(&mut out, about);
    out.push_str("</section>\n");
    glossary::glossary(&mut out);
    shell::close(&mut out, about, "{}");
    out
}

/// What kind of page it is, by the command that made it.
fn what(command: &str) -> &'static str {
    match command.split_whitespace().nth(1) {
        Some("compare") => "comparison",
        Some("probe") => "probe",
        Some("sweep") => "sweep",
        _ => "report",
    }
}
