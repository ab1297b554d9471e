//! The page, the ledger and the files of a report, on the findings of the gallery.

use std::path::Path;

use lab::findings::{Bound, Claim, Figure, Findings, Headline, Kind, Panel};
use resvg::usvg::roxmltree;

use crate::{About, Counts, Error};

#[path = "../examples/gallery/fixture.rs"]
pub mod fixture;

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
    findings[0].tables[0].rows[0][0] = nasty.into();
    let html = crate::index_html(&findings, &About { title: nasty.into(), ..fixture::about() });
    assert_eq!(html.matches("<script").count(), 1, "only our own script");
}

#[test]
fn ids_are_unique_within_a_page() {
    let html = crate::index_html(&fixture::findings(), &fixture::about());
    let mut ids: Vec<&str> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(all, ids.len());
    for target in html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(ids.binary_search(&target).is_ok(), "#{target} leads nowhere");
    }
}

#[test]
fn the_page_opens_with_the_headline_of_the_lowest_rank() {
    let mut findings = fixture::findings();
    let about = fixture::about();
    assert!(!crate::index_html(&findings, &about).contains("class=\"main-result\""));
    let headline = |rank, figure: &str, claim: &str| {
        Some(Headline { rank, figure: figure.into(), claims: vec![claim.into()] })
    };
    findings[0].headline = headline(2, "toy-heatmaps", "F26.newton-gd");
    findings[1].headline = headline(1, "toy-families", "E1.right");
    findings[2].headline = headline(0, "never-drawn", "Q1.gd-exponent");
    let page = crate::index_html(&findings, &about);
    let start = page.find("class=\"main-result\"").expect("a main result");
    let opening = &page[start..start + page[start..].find("</section>").unwrap()];
    assert!(opening.contains("href=\"#a-E1\"") && opening.contains("href=\"#c-E1-right\""), "{opening}");
    assert!(opening.contains("toy-families-main-1-clip") && !opening.contains("F26"));
}

#[test]
fn the_page_loads_nothing() {
    let html = crate::index_html(&fixture::findings(), &fixture::about());
    assert!(
        !html.contains(" src=")
            && !html.contains("@import")
            && !html.contains("url(http")
            && !html.contains("xlink")
    );
    for (start, _) in html.match_indices("://") {
        let begin = html[..start].rfind(['<', '"']).unwrap();
        let tag = &html[html[..start].rfind('<').unwrap()..start];
        let namespace = html[begin..].starts_with("\"http://www.w3.org/2000/svg\"");
        assert!(namespace || tag.starts_with("<a "), "{}", &html[begin..start + 20]);
    }
    assert!(html.contains("<html lang=\"en\">") && html.contains("name=\"viewport\""));
    assert!(html.contains("prefers-color-scheme: dark") && html.contains("@media print"));
    assert!(html.len() < 1_500_000, "{} bytes", html.len());
}

#[test]
fn what_was_not_run_is_listed_apart_from_the_verdicts() {
    let why = "needs models/r1 (train it & see)".to_string();
    let not_run = lab::analyses::NotRun { analysis: "F3".into(), title: "Layers match".into(), why };
    let text = crate::ledger_text(&fixture::findings(), std::slice::from_ref(&not_run), 100, false);
    let row = text.lines().find(|line| line.starts_with("F3 ")).expect("a row of its own");
    assert!(row.contains("needs models/r1") && text.contains("1 analysis not run"), "{text}");
    let about = About { not_run: vec![not_run], ..fixture::about() };
    let page = crate::index_html(&fixture::findings(), &about);
    assert!(page.contains("<b>F3</b> Layers match <small>needs models/r1 (train it &amp; see)</small>"));
    assert!(!crate::index_html(&fixture::findings(), &fixture::about()).contains("Not run"));
}

#[test]
fn the_ledger_counts_and_fits() {
    let findings = fixture::findings();
    let counts = Counts::of(findings.iter().flat_map(|f| &f.claims));
    assert_eq!(counts, Counts { holds: 6, fails: 1, undefined: 1 });
    for width in [100, 80, 60, 40, 20] {
        let text = crate::ledger_text(&findings, &[], width, false);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        assert!(text.replace('\n', " ").ends_with("8 claims: ✓ 6 hold, ✗ 1 fails, ○ 1 undefined "), "{text}");
        assert!(!text.contains('\x1b'));
        let coloured = crate::ledger_text(&findings, &[], width, true);
        assert!(coloured.contains("\x1b[1;31m"));
        let seen = coloured.split('\x1b').map(|part| part.split_once('m').map_or(part, |(_, rest)| rest));
        assert_eq!(seen.collect::<String>(), text, "colours change no word");
    }
    let html = crate::index_html(&findings, &fixture::about());
    assert_eq!(html.matches("<tr id=\"c-").count(), 8);
    assert_eq!(html.matches(" data-verdict=\"fails\" data-kind").count(), 1);
}

#[test]
fn a_report_is_complete_on_disk() {
    let dir = std::env::temp_dir().join(format!("iclab-report-test-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let findings = fixture::findings();
    crate::write(&findings, &fixture::about(), &dir).unwrap();
    let page = std::fs::read_to_string(dir.join("index.html")).unwrap();
    for link in page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        let local = !link.starts_with(['#']) && !link.contains(':');
        assert!(!local || dir.join(link).is_file(), "{link} is missing");
    }
    let ledger: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("ledger.json")).unwrap()).unwrap();
    assert_eq!(ledger["counts"]["fails"], 1);
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
fn empty_findings_make_a_page_and_undefined_values_a_word() {
    let html = crate::index_html(&[], &About::default());
    assert!(html.contains("Ledger of claims"));
    let found = Findings {
        analysis: "X".into(),
        claims: vec![Claim::new("X.nan", Kind::Paper, "never measured", f64::NAN, Bound::AtMost(1.0))],
        figures: vec![Figure::new("none", "No panels", "", Vec::<Panel>::new())],
        seconds: f64::NAN,
        ..Findings::default()
    };
    assert!(crate::index_html(&[found], &About::default()).contains("<b class=\"num\">undefined</b>"));
}
