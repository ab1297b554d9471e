//! Which page has what: the chapters of a report, in reading order, and the name of every figure.

use std::collections::{BTreeMap, HashMap};

use lab::findings::{Chapter, Figure, Findings};

use super::paper;
use super::pieces::slug;

/// The summary page.
pub const INDEX: &str = "index.html";
/// The page of all claims.
pub const LEDGER: &str = "ledger.html";

/// A page between the summary and the ledger.
pub struct ChapterPage<'a> {
    /// Its file.
    pub file: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What is on it, in a sentence.
    pub about: &'static str,
    /// Its analyses, in reading order.
    pub findings: Vec<&'a Findings>,
}

/// The pages of a report.
pub struct Outline<'a> {
    /// Those with findings, in reading order.
    pub chapters: Vec<ChapterPage<'a>>,
    /// What each figure is called: `Figure 3 of the paper`, or `Picture 12` where the paper has none.
    names: HashMap<&'a str, String>,
}

/// File, heading and a sentence for each part of the paper. Which page has a finding does not depend on what else was found, so
/// that a link into a growing report stays good. Word joiners keep a range of numbers on one line.
const PAGES: [(&str, &str, &str); 8] = [
    (
        "figures-1-6.html",
        "Figures 1\u{2060}–\u{2060}6 and Table 1",
        "The main text: what the Transformer's layers do, step by step.",
    ),
    (
        "figures-7-14.html",
        "Figures 7\u{2060}–\u{2060}14",
        "The appendix on the same network: more measures, more algorithms.",
    ),
    (
        "figures-15-21.html",
        "Figures 15\u{2060}–\u{2060}21",
        "The appendix on other data: ill-conditioned, noisy, not linear.",
    ),
    (
        "figures-22-27.html",
        "Figures 22\u{2060}–\u{2060}27",
        "The appendix on other networks, and on rates between algorithms.",
    ),
    ("errata.html", "Errata", "Where the paper misprints: the printed and the corrected form, both run."),
    ("theory.html", "The theorem", "Newton's iteration by a Transformer, as weights that are run."),
    ("statements.html", "Statements in the text", "What the paper says between its figures."),
    ("beyond.html", "Beyond the paper", "Seeds, training, ablation, and reference numbers."),
];

impl<'a> Outline<'a> {
    /// Sorts findings into pages.
    pub fn of(findings: &'a [Findings]) -> Outline<'a> {
        let mut sorted: BTreeMap<usize, Vec<&Findings>> = BTreeMap::new();
        for found in findings {
            sorted.entry(page_of(found)).or_default().push(found);
        }
        let page = |(at, findings): (usize, Vec<&'a Findings>)| {
            let (file, title, about) = PAGES[at];
            ChapterPage { file, title, about, findings }
        };
        let chapters: Vec<ChapterPage<'_>> = sorted.into_iter().map(page).collect();
        let mut names = HashMap::new();
        let mut pictures = 0;
        for chapter in &chapters {
            for found in &chapter.findings {
                for (i, figure) in found.figures.iter().enumerate() {
                    let name = paper::figure_name(found, i).unwrap_or_else(|| {
                        pictures += 1;
                        format!("Picture {pictures}")
                    });
                    names.insert(figure.id.as_str(), name);
                }
            }
        }
        Outline { chapters, names }
    }

    /// What a figure is called.
    pub fn name(&self, figure: &Figure) -> &str {
        self.names.get(figure.id.as_str()).map_or("", String::as_str)
    }

    /// The page that has an analysis.
    pub fn file(&self, found: &Findings) -> &'static str {
        PAGES[page_of(found)].0
    }

    /// File and heading of every page, in reading order.
    pub fn pages(&self) -> Vec<(&'static str, &'static str)> {
        let chapters = self.chapters.iter().map(|chapter| (chapter.file, chapter.title));
        std::iter::once((INDEX, "Summary")).chain(chapters).chain([(LEDGER, "All claims")]).collect()
    }

    /// The names that links from outside may use, by page: those of analyses, claims, figures and tables.
    pub fn anchors(&self) -> BTreeMap<&'static str, String> {
        let names = |chapter: &ChapterPage<'_>| {
            let all = chapter.findings.iter().flat_map(|found| {
                let claims = found.claims.iter().map(|claim| slug("c", &claim.id));
                let figures = found.figures.iter().map(|figure| slug("fig", &figure.id));
                let tables = found.tables.iter().map(|table| slug("tab", &table.id));
                std::iter::once(slug("a", &found.analysis)).chain(claims).chain(figures).chain(tables)
            });
            all.collect::<Vec<_>>().join(" ")
        };
        self.chapters.iter().map(|chapter| (chapter.file, names(chapter))).collect()
    }
}

/// Which of [`PAGES`] has an analysis.
fn page_of(found: &Findings) -> usize {
    match found.chapter {
        Chapter::Figures => match number_of(&found.analysis) {
            0..=6 => 0,
            7..=14 => 1,
            15..=21 => 2,
            _ => 3,
        },
        Chapter::Errata => 4,
        Chapter::Theory => 5,
        Chapter::Statements => 6,
        Chapter::Beyond => 7,
    }
}

/// The number of the paper's figure: 3 of `F3`, 0 of its table.
fn number_of(analysis: &str) -> u32 {
    let digits: String =
        analysis.strip_prefix('F').unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}
