//! The pages: files without a request to anywhere, readable on a phone, in the dark and on paper.
//!
//! ```text
//! Findings ── outline ─┬─ summary ─── index.html       what was asked, found, not found
//!                      ├─ section ─── a page per part of the paper
//!                      └─ claims ──── ledger.html      all claims, with filters
//! one analysis ─────────── alone ──── index.html       a comparison, a probe, a sweep
//! ```

mod alone;
mod claims;
mod glossary;
mod ledger;
mod outline;
mod paper;
mod pieces;
mod section;
mod shell;
mod summary;
mod verdicts;

use lab::findings::Findings;
use rayon::prelude::*;

use crate::About;
use outline::{ChapterPage, INDEX, LEDGER, Outline};
use shell::Stop;

/// One page of a report.
pub struct Page {
    /// Its file, beside `figures/` and `tables/`.
    pub file: &'static str,
    /// Its text, with style and script inside.
    pub html: String,
}

/// All pages of a report: for a reproduction a summary, a page per part of the paper and a ledger; one page for anything else.
pub fn pages(findings: &[Findings], about: &About) -> Vec<Page> {
    if let ([found], false) = (findings, about.is_reproduction()) {
        return vec![Page { file: INDEX, html: alone::page(found, about) }];
    }
    let outline = Outline::of(findings);
    let mut pages: Vec<Page> = outline
        .chapters
        .par_iter()
        .map(|chapter| Page { file: chapter.file, html: chapter_page(chapter, &outline, about) })
        .collect();
    pages.insert(0, Page { file: INDEX, html: summary::page(findings, &outline, about) });
    pages.push(Page { file: LEDGER, html: ledger::page(findings, &outline, about) });
    pages
}

/// The sections of one part of the paper.
fn chapter_page(chapter: &ChapterPage<'_>, outline: &Outline<'_>, about: &About) -> String {
    let mut out = String::new();
    let stops: Vec<Stop> = chapter.findings.iter().map(|found| Stop::of(found)).collect();
    shell::open(&mut out, chapter.title, about);
    shell::sidebar(&mut out, Some(outline), chapter.file, &stops);
    let claims = chapter.findings.iter().flat_map(|found| &found.claims);
    out.push_str(&format!(
        "<header class=\"masthead\">\n<p class=\"kicker\">iclab · reproduction report</p>\n<h1>{}</h1>\n<p class=\"lede\">{}</p>\n\
         <p class=\"answer\">{}</p>\n</header>\n",
        chapter.title,
        chapter.about,
        pieces::tally(crate::Counts::of(claims))
    ));
    glossary::glossary(&mut out);
    chapter.findings.iter().for_each(|found| section::section(&mut out, found, about, outline));
    shell::ways_on(&mut out, outline, chapter.file);
    shell::close(&mut out, about, "{}");
    out
}

/// The element of a claim.
#[cfg(test)]
pub(crate) fn claim_name(claim: &lab::findings::Claim) -> String {
    pieces::slug("c", &claim.id)
}
