//! What every page has around its content: head, banner of a growing report, sidebar, ways on, foot.

use std::fmt::Write;

use lab::findings::Findings;

use super::outline::Outline;
use super::pieces::slug;
use crate::About;
use crate::ledger::Counts;
use crate::text::{escape, format_number, format_seconds};

const STYLE: &str = concat!(include_str!("../../assets/report.css"), include_str!("../../assets/print.css"));
const SCRIPT: &str = include_str!("../../assets/report.js");
/// Forbids a page every request, so that it cannot depend on a network by accident.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// A place on the present page: what a link to it says.
pub struct Stop {
    /// The element.
    pub id: String,
    /// A code before the words, may be empty.
    pub code: String,
    /// The words.
    pub words: String,
    /// Whether a claim there fails.
    pub fails: bool,
}

impl Stop {
    /// A section that is no analysis.
    pub fn new(id: &str, words: &str) -> Stop {
        Stop { id: id.into(), code: String::new(), words: words.into(), fails: false }
    }

    /// The section of an analysis.
    pub fn of(found: &Findings) -> Stop {
        Stop {
            id: slug("a", &found.analysis),
            code: found.analysis.clone(),
            words: found.title.clone(),
            fails: Counts::of(&found.claims).fails > 0,
        }
    }
}

/// The document up to its content.
pub fn open(out: &mut String, title: &str, about: &About) {
    let first = title == about.title;
    let title = if first { title.into() } else { format!("{title} · {}", about.title) };
    let class = if first { " class=\"first\"" } else { "" };
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body{class}>\n\
         <a class=\"skip\" href=\"#main\">Skip to the content</a>\n",
        escape(&title)
    );
    still_running(out, about);
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

/// The pages and, under the present one, its sections; `outline` is none for a report of one page.
pub fn sidebar(out: &mut String, outline: Option<&Outline<'_>>, present: &str, stops: &[Stop]) {
    out.push_str("<div class=\"layout\">\n<nav class=\"sidebar\" aria-label=\"Contents\">\n<details open>\n<summary>Contents</summary>\n<ul>\n");
    match outline {
        None => list(out, stops),
        Some(outline) => {
            for (file, title) in outline.pages() {
                let here = if file == present { " aria-current=\"page\"" } else { "" };
                let _ = write!(out, "<li class=\"page\"><a href=\"{file}\"{here}>{title}</a>");
                if file == present && !stops.is_empty() {
                    out.push_str("\n<ul>\n");
                    list(out, stops);
                    out.push_str("</ul>\n");
                }
                out.push_str("</li>\n");
            }
        }
    }
    out.push_str("</ul>\n</details>\n</nav>\n<main id=\"main\">\n");
}

fn list(out: &mut String, stops: &[Stop]) {
    for stop in stops {
        let fails = if stop.fails { " class=\"has-failure\"" } else { "" };
        let code =
            if stop.code.is_empty() { String::new() } else { format!("<b>{}</b> ", escape(&stop.code)) };
        let _ = writeln!(out, "<li><a{fails} href=\"#{}\">{code}{}</a></li>", stop.id, escape(&stop.words));
    }
}

/// Links to the pages before and after the present one.
pub fn ways_on(out: &mut String, outline: &Outline<'_>, present: &str) {
    let pages = outline.pages();
    let Some(at) = pages.iter().position(|(file, _)| *file == present) else { return };
    out.push_str("<nav class=\"ways\" aria-label=\"Previous and next page\">\n");
    if let Some((file, title)) = at.checked_sub(1).map(|i| pages[i]) {
        let _ = writeln!(out, "<a rel=\"prev\" href=\"{file}\"><small>Previous</small> {title}</a>");
    }
    if let Some((file, title)) = pages.get(at + 1) {
        let _ = writeln!(out, "<a rel=\"next\" href=\"{file}\"><small>Next</small> {title}</a>");
    }
    out.push_str("</nav>\n");
}

/// What the run behind a page was.
pub fn facts(out: &mut String, about: &About) {
    out.push_str("<dl class=\"facts\">\n");
    let prompts = if about.prompts > 0 { format_number(about.prompts as f64) } else { String::new() };
    let facts = [
        ("prompts", prompts),
        ("seed", about.seed.to_string()),
        ("time", format_seconds(about.seconds)),
        ("version", about.version.clone()),
        ("plan", about.plan_hash.clone()),
        ("machine", about.machine.clone()),
    ];
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(value));
    }
    out.push_str("</dl>\n");
}

/// The end of a page. `places` says where links from outside lead to, by page.
pub fn close(out: &mut String, about: &About, places: &str) {
    let _ = write!(
        out,
        "</main>\n</div>\n<footer>\n<p>Made by <code>{}</code>, iclab {}. The same seed gives the same numbers on any number of \
         threads; all claims are in <a href=\"ledger.json\">ledger.json</a>, the numbers behind each figure in its CSV file.</p>\n",
        escape(&about.command),
        escape(&about.version)
    );
    if about.is_reproduction() {
        out.push_str(
            "<p>The paper: Deqing Fu, Tian-Qi Chen, Robin Jia, Vatsal Sharan. <cite>Transformers Learn to Achieve Second-Order \
             Convergence Rates for In-Context Linear Regression.</cite> NeurIPS 2024. \
             <a href=\"https://arxiv.org/abs/2310.17086\" rel=\"noreferrer\">arXiv:2310.17086</a></p>\n",
        );
    }
    let _ =
        write!(out, "</footer>\n<script>\nconst PLACES = {places};\n{SCRIPT}</script>\n</body>\n</html>\n");
}
