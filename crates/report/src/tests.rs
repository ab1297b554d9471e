//! The pages, the ledger and the files of a report, on the findings of the gallery.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lab::findings::{Bound, Claim, Figure, Findings, Headline, Kind, Panel};
use resvg::usvg::roxmltree;

use crate::{About, Counts, Error};

#[path = "../examples/gallery/fixture.rs"]
pub mod fixture;

/// All pages by their files.
fn pages(findings: &[Findings], about: &About) -> BTreeMap<&'static str, String> {
    crate::pages(findings, about).into_iter().map(|page| (page.file, page.html)).collect()
}

fn index(findings: &[Findings], about: &About) -> String {
    pages(findings, about).remove("index.html").unwrap()
}

/// The values of an attribute, in order.
fn all<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Every analysis of the table, with maps as large as any: what a whole reproduction would show.
fn crowd() -> Vec<Findings> {
    let steps: Vec<u64> = (0..40).collect();
    let value = |r: usize, c: usize| (r * 41 + c * 17 % 97) as f64 / 1600.0;
    let values: Vec<Vec<f64>> = (0..40).map(|r| (0..40).map(|c| value(r, c)).collect()).collect();
    let found = |(i, row): (usize, &&lab::analyses::Analysis)| {
        let map = || {
            lab::findings::HeatmapPanel::plain(
                "",
                ("a", steps.clone()),
                ("b", steps.clone()),
                "SimE",
                values.clone(),
            )
        };
        let mut claims = vec![
            Claim::new(
                &format!("{}.x", row.id),
                row.chapter.kind(),
                "a statement",
                i as f64,
                Bound::AtMost(30.0),
            ),
            Claim::new(&format!("{}.y", row.id), Kind::Reference, "another", 0.5, Bound::None),
        ];
        claims.iter_mut().for_each(|claim| claim.explain(None));
        Findings {
            analysis: row.id.into(),
            chapter: row.chapter,
            title: row.title.into(),
            claims,
            figures: vec![
                Figure::new(format!("map-{i}"), "Maps", "Two maps.", [map(), map()]),
                Figure { id: format!("curves-{i}"), ..fixture::families() },
            ],
            ..Findings::default()
        }
    };
    lab::analyses::ANALYSES.iter().enumerate().map(found).collect()
}

#[test]
fn hostile_text_stays_text() {
    let nasty = "<script>alert('x')</script> & \"quotes\" \u{1} ]]>";
    let mut figure = fixture::mixed();
    figure.title = nasty.into();
    figure.caption = nasty.into();
    if let Panel::Lines(panel) = &mut figure.panels[0] {
        panel.title = nasty.into();
        panel.x.label = nasty.into();
        panel.series[0].label = nasty.into();
    }
    let svg = crate::figure_svg(&figure);
    roxmltree::Document::parse(&svg).unwrap();
    assert!(!svg.contains("<script"));
    let mut findings = fixture::findings();
    findings[0].title = nasty.into();
    findings[0].figures = vec![figure];
    findings[0].claims[0].statement = nasty.into();
    findings[0].claims[0].network = nasty.into();
    findings[0].tables[0].rows[0][0] = nasty.into();
    if let Some(place) = &mut findings[0].paper {
        (place.label, place.section) = (format!("Figure 1 {nasty}"), nasty.into());
    }
    findings[0].notes = vec![nasty.into()];
    findings[0].answer = nasty.into();
    let about = About { title: nasty.into(), ..fixture::about() };
    for (file, html) in pages(&findings, &about) {
        assert_eq!(html.matches("<script").count(), 1, "only our own script in {file}");
    }
    let about = About { command: "iclab compare".into(), ..about };
    assert_eq!(index(&findings[..1], &about).matches("<script").count(), 1);
}

#[test]
fn every_link_leads_somewhere_and_no_name_is_given_twice() {
    for findings in [fixture::findings(), crowd()] {
        let pages = pages(&findings, &fixture::about());
        let ids: BTreeMap<&str, BTreeSet<&str>> =
            pages.iter().map(|(file, html)| (*file, all(html, " id=\"").into_iter().collect())).collect();
        for (file, html) in &pages {
            assert_eq!(all(html, " id=\"").len(), ids[file].len(), "{file} gives a name twice");
            for link in
                all(html, "href=\"").into_iter().filter(|link| !link.contains(':') && !link.is_empty())
            {
                let (page, name) = link.split_once('#').unwrap_or((link, ""));
                let page = if page.is_empty() { file } else { page };
                if page.contains('/') || page.ends_with(".json") {
                    continue; // files beside the pages: see `a_report_is_complete_on_disk`
                }
                let known = ids.get(page).unwrap_or_else(|| panic!("{file}: no page {page}"));
                let filter = page == "ledger.html" && name.starts_with("show=");
                assert!(name.is_empty() || filter || known.contains(name), "{file}: {link} leads nowhere");
            }
        }
    }
}

#[test]
fn pages_stay_light_and_the_summary_short() {
    let pages = pages(&crowd(), &fixture::about());
    assert_eq!(pages.len(), 10, "{:?}", pages.keys());
    for (file, html) in &pages {
        let nodes = html.matches('<').count() - html.matches("</").count();
        assert!(nodes < 15_000, "{nodes} nodes in {file}");
        assert!(!html.contains("tabindex=\"0\""), "{file}: the script decides which tables are stops");
        let stops = html.matches("<a ").count() - html.matches("tabindex=\"-1\"").count();
        assert!(stops < 160, "{stops} tab stops in {file}");
    }
    let figures = pages["index.html"].matches("<figure").count();
    assert!((8..=12).contains(&figures), "{figures} figures on the summary");
}

#[test]
fn every_claim_is_in_one_chapter_and_in_the_ledger() {
    for findings in [fixture::findings(), crowd()] {
        let pages = pages(&findings, &fixture::about());
        let on = |file: &str, id: &str| pages[file].matches(&format!("<tr id=\"{id}\" data-verdict")).count();
        for claim in findings.iter().flat_map(|f| &f.claims) {
            let id = super::page::claim_name(claim);
            let chapters = pages.keys().filter(|file| !matches!(**file, "index.html" | "ledger.html"));
            assert_eq!(chapters.map(|file| on(file, &id)).sum::<usize>(), 1, "{id}");
            assert_eq!(on("ledger.html", &id), 1, "{id}");
            // an old link to it is forwarded
            assert!(pages["index.html"].contains(&format!(" {id}")), "{id}");
        }
    }
}

#[test]
fn a_claim_shows_what_it_is_judged_by() {
    let pages = pages(&fixture::findings(), &fixture::about());
    for file in ["figures-22-27.html", "ledger.html"] {
        let row = pages[file].split("<tr id=\"c-F26-newton-gd\"").nth(1).unwrap();
        let row = &row[..row.find("</tr>").unwrap()];
        for part in [
            "F26.newton-gd",
            "class=\"network\">R1<",
            "“exponential trend”",
            "0.4 … 0.6",
            "0.512",
            "[0.498, 0.527]",
            "holds",
        ] {
            assert!(row.contains(part), "{file}: no {part} in {row}");
        }
    }
}

#[test]
fn a_failure_shows_its_cause_and_what_other_readings_say() {
    let findings = fixture::findings();
    let pages = pages(&findings, &fixture::about());
    let row = pages["statements.html"].split("<tr id=\"c-Q1-gd-exponent\"").nth(1).unwrap();
    let row = &row[..row.find("</tr>").unwrap()];
    for part in [
        "“κ log(1/ε)”",
        "(b) the protocol: By the authors&#39; protocol",
        "class=\"reading turns\"",
        "✓ holds",
    ] {
        assert!(row.contains(part), "no {part} in {row}");
    }
    let summary = &pages["index.html"];
    for part in [
        "<h3>(b) The protocol",
        "lede\">Of the paper’s 4 judged statements 3 hold, 1 fail",
        "(fails → holds)",
    ] {
        assert!(summary.contains(part), "no {part}");
    }
    let mut ours = findings[0].claims[0].clone().ours("a line");
    assert_eq!(crate::ledger::quoted_text(&ours), "a line (in our words)");
    ours = ours.quoted("a line");
    assert_eq!(crate::ledger::quoted_text(&ours), "“a line”");
}

#[test]
fn a_report_says_by_which_networks_it_judges() {
    let recipe = |network: &str, other: Option<&str>| lab::analyses::reproduction::Trained {
        network: network.into(),
        other: other.map(str::to_string),
        cut: false,
        other_start: false,
    };
    let mut findings = fixture::findings();
    findings[2].claims[0].network = format!("R4 ({})", lab::analyses::OTHER_RECIPE);
    let recipes = [recipe("R1", None), recipe("R4", Some("Muon in 8,000 steps"))];
    let words = crate::found::judged_by(&findings, &recipes);
    assert!(words.contains("of the paper’s recipe (R1), 1 by networks of a faster one (R4)"), "{words}");
    let about = About { recipes: recipes.to_vec(), ..fixture::about() };
    assert!(index(&findings, &about).contains("Not the paper’s recipe: R4 by Muon in 8,000 steps."));
}

#[test]
fn the_papers_numbers_are_the_papers() {
    let page = pages(&fixture::findings(), &fixture::about()).remove("figures-22-27.html").unwrap();
    let name = "<span class=\"name\"><b>Figure 26 of the paper</b> · Appendix A.6.1</span>";
    assert_eq!(page.matches(name).count(), 1, "the figure that reproduces it, and no other");
    assert!(page.contains("<span class=\"name\"><b>Picture 1</b></span>"), "ours has another word");
    assert!(page.contains("The paper’s values beside ours"));
    assert!(!page.contains("<b>Table "), "a table of ours has no number of the paper's");
}

#[test]
fn the_summary_opens_with_the_headline_of_the_lowest_rank() {
    let mut findings = fixture::findings();
    let about = fixture::about();
    assert!(!index(&findings, &about).contains("class=\"main-result\""));
    let headline = |rank, figure: &str, claim: &str| {
        Some(Headline { rank, figure: figure.into(), claims: vec![claim.into()] })
    };
    findings[0].headline = headline(2, "toy-heatmaps", "F26.newton-gd");
    findings[1].headline = headline(1, "toy-families", "E1.right");
    findings[2].headline = headline(0, "never-drawn", "Q1.gd-exponent");
    let page = index(&findings, &about);
    let start = page.find("class=\"main-result\"").expect("a main result");
    let opening = &page[start..start + page[start..].find("</section>").unwrap()];
    assert!(opening.contains("href=\"errata.html#a-E1\"") && opening.contains("3.2×10⁻²⁹"), "{opening}");
    assert!(opening.contains("toy-families-1-clip") && !opening.contains("F26"));
    assert!(!page.contains("id=\"second\""), "of one kind only the first is shown");
    findings[0].headline = headline(Headline::SECOND, "toy-heatmaps", "F26.newton-gd");
    let page = index(&findings, &about);
    let second = &page[page.find("id=\"second\"").expect("a second picture")..];
    assert!(second.find("#a-F26").unwrap() < second.find("</section>").unwrap());
    assert!(page.find("id=\"result\"").unwrap() < page.find("id=\"second\"").unwrap());
}

#[test]
fn pages_load_nothing() {
    for (file, html) in pages(&fixture::findings(), &fixture::about()) {
        for request in [" src=", "@import", "url(http", "xlink"] {
            assert!(!html.contains(request), "{file}: {request}");
        }
        for (start, _) in html.match_indices("://") {
            let begin = html[..start].rfind(['<', '"']).unwrap();
            let tag = &html[html[..start].rfind('<').unwrap()..start];
            let namespace = html[begin..].starts_with("\"http://www.w3.org/2000/svg\"");
            assert!(namespace || tag.starts_with("<a "), "{}", &html[begin..start + 20]);
        }
        assert!(html.contains("<html lang=\"en\">") && html.contains("name=\"viewport\""));
        assert!(html.contains("prefers-color-scheme: dark") && html.contains("@media print"));
        assert!(html.len() < 600_000, "{} bytes", html.len());
    }
}

#[test]
fn what_was_not_run_is_said() {
    let why = "needs models/r1 (train it & see)".to_string();
    let not_run = lab::analyses::NotRun { analysis: "F3".into(), title: "Layers match".into(), why };
    let text = crate::ledger_text(&fixture::findings(), std::slice::from_ref(&not_run), &[], 100, false);
    let row = text.lines().find(|line| line.starts_with("F3 ")).expect("a row of its own");
    assert!(row.contains("needs models/r1") && text.contains("1 analysis not run"), "{text}");
    let about = About { not_run: vec![not_run], ..fixture::about() };
    let page = index(&fixture::findings(), &about);
    assert!(page.contains("<b>F3</b> Layers match <small>needs models/r1 (train it &amp; see)</small>"));
    // and what nobody asked for, but not while the run goes on
    let count = lab::analyses::ANALYSES.len();
    assert!(page.contains(&format!("{} analyses were not asked for", count - 4)), "{page}");
    assert!(page.contains(&format!("{} more analyses were not run", count - 3)));
    let running = Some(crate::Running { done: 3, of: 60 });
    assert!(!index(&fixture::findings(), &About { running, ..fixture::about() }).contains("not asked for"));
    assert!(!index(&crowd(), &fixture::about()).contains("id=\"not-run\""));
}

#[test]
fn a_comparison_has_a_first_screen_of_its_own() {
    let mut found = fixture::findings().remove(0);
    found.claims.clear();
    found.paper = None;
    found.answer = "One grows exponentially with the other.".into();
    found.notes = vec!["the predictions do not say for which prompts they were made".into()];
    let about = About {
        command: "iclab compare --plan plan.toml --out DIR".into(),
        title: "Newton and gradient descent".into(),
        notes: found.notes.clone(),
        ..fixture::about()
    };
    let pages = pages(std::slice::from_ref(&found), &about);
    assert_eq!(pages.keys().copied().collect::<Vec<_>>(), ["index.html"]);
    let page = &pages["index.html"];
    let head = page.find("<h1>Newton and gradient descent</h1>").unwrap();
    let after = |words: &str| head + page[head..].find(words).unwrap_or_else(|| panic!("no {words}"));
    assert!(after("One grows exponentially") < after("do not say for which prompts"));
    assert!(after("do not say for which prompts") < after("<figure"));
    assert_eq!(page.matches("do not say for which prompts").count(), 1, "a note is said once");
    let paper = ["class=\"tally\"", "arXiv", "<h3>Asked", "of the paper's", "claims hold"];
    assert!(paper.iter().all(|words| !page.contains(words)), "nothing of the reproduction");
}

#[test]
fn the_ledger_counts_and_fits() {
    let findings = fixture::findings();
    let counts = Counts::of(findings.iter().flat_map(|f| &f.claims));
    assert_eq!(counts, Counts { holds: 6, fails: 1, unsettled: 0, measured: 1 });
    for width in [100, 80, 60, 40, 20] {
        let text = crate::ledger_text(&findings, &[], &[], width, false);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        assert!(
            text.replace('\n', " ").ends_with("8 claims: ✓ 6 hold, ✗ 1 fails, ? 0 unsettled, ○ 1 measured "),
            "{text}"
        );
        assert!(!text.contains('\x1b'));
        let coloured = crate::ledger_text(&findings, &[], &[], width, true);
        assert!(coloured.contains("\x1b[1;31m"));
        let seen = coloured.split('\x1b').map(|part| part.split_once('m').map_or(part, |(_, rest)| rest));
        assert_eq!(seen.collect::<String>(), text, "colours change no word");
    }
    let text = crate::ledger_text(&findings, &[], &[], 100, false);
    for line in [
        "The paper's statements, 4 judged: ✓ 3 hold, ✗ 1 fails, ? 0 unsettled, ○ 1 measured",
        "Errata, 2 judged: ✓ 2 hold, ✗ 0 fail",
        "R1: The best-matching GD step",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let html = pages(&findings, &fixture::about()).remove("ledger.html").unwrap();
    assert_eq!(html.matches("<tr id=\"c-").count(), 8);
    assert_eq!(html.matches(" data-verdict=\"fails\" data-kind").count(), 1);
}

#[test]
fn a_report_is_complete_on_disk() {
    let dir = std::env::temp_dir().join(format!("iclab-report-test-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let findings = fixture::findings();
    crate::write(&findings, &fixture::about(), &dir).unwrap();
    for (file, html) in pages(&findings, &fixture::about()) {
        assert!(std::fs::read_to_string(dir.join(file)).is_ok_and(|text| text == html), "{file}");
        for link in all(&html, "href=\"").into_iter().filter(|link| !link.contains(':')) {
            let path = link.split('#').next().unwrap();
            assert!(path.is_empty() || dir.join(path).is_file(), "{file}: {link} is missing");
        }
    }
    let ledger: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("ledger.json")).unwrap()).unwrap();
    assert_eq!(ledger["counts"]["fails"], 1);
    assert_eq!(ledger["counts_by_kind"]["paper"]["fails"], 1);
    assert_eq!(ledger["counts_by_kind"]["erratum"]["holds"], 2);
    assert_eq!(ledger["analyses"][0]["claims"][0]["id"], "F26.newton-gd");
    std::fs::remove_dir_all(&dir).unwrap();

    let gone = crate::write(&findings, &fixture::about(), Path::new("/dev/null/nowhere")).unwrap_err();
    assert!(gone.to_string().contains("/dev/null/nowhere"), "{gone}");
    let mut twice = fixture::findings();
    twice[1].figures[0].id = twice[0].figures[0].id.clone();
    assert!(matches!(
        crate::write(&twice, &fixture::about(), &dir),
        Err(Error::Id { reason: "occurs twice", .. })
    ));
    twice[1].figures[0].id = "../escape".into();
    assert!(matches!(crate::write(&twice, &fixture::about(), &dir), Err(Error::Id { .. })));
}

#[test]
fn empty_findings_make_pages_and_undefined_values_a_word() {
    assert!(pages(&[], &About::default())["ledger.html"].contains("All claims"));
    let found = Findings {
        analysis: "X".into(),
        claims: vec![Claim::new("X.nan", Kind::Paper, "never measured", f64::NAN, Bound::AtMost(1.0))],
        figures: vec![Figure::new("none", "No panels", "", Vec::<Panel>::new())],
        seconds: f64::NAN,
        ..Findings::default()
    };
    let pages = pages(&[found], &About::default());
    assert!(pages["ledger.html"].contains("<b class=\"num\">undefined</b>"));
}
