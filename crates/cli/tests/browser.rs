//! A report as its reader meets it: made by the real binary, opened in a real browser.
//!
//! Every check returns what is wrong with a page, so that one test can break pages on purpose and see each
//! check notice. Screenshots are left in the temporary folder of the target directory.

#[path = "browser/cdp.rs"]
mod cdp;
#[path = "browser/checks.rs"]
mod checks;
#[path = "browser/content.rs"]
mod content;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Once, OnceLock};

use cdp::{Browser, Page};
use checks::{
    Check, DESKTOP, PHONE, TOOLS, address, dark, fits, follows, headed, links, printed, quiet, stops,
};
use content::{figures, filters, ledger, story, values};

const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");
const INDEX: &str = "index.html";
const CHAPTER: &str = "figures-22-27.html";
const LEDGER: &str = "ledger.html";
/// Every page of the small report: F2, F26 and E3 have three chapters.
const PAGES: [&str; 5] = [INDEX, "figures-1-6.html", CHAPTER, "errata.html", LEDGER];

macro_rules! inspections {
    ($($name:ident: $pages:expr, $check:expr;)*) => {
        $(#[test]
        fn $name() {
            inspect($pages, $check);
        })*
    };
}

inspections! {
    loads_without_errors_and_asks_for_nothing: &PAGES, quiet;
    shows_what_it_is: &PAGES, headed;
    shows_every_claim_with_its_verdict: &[LEDGER], ledger;
    tells_the_main_result_on_the_first_screen_and_why_claims_fail: &[INDEX], story;
    filters_claims: &[LEDGER], filters;
    shows_every_figure_with_caption_and_name: &[INDEX, CHAPTER], figures;
    fits_a_phone: &PAGES, |page, file| pictured(fits(page, PHONE), page, file, "390");
    fits_a_desktop: &PAGES, |page, file| pictured(fits(page, DESKTOP), page, file, "1440");
    shows_the_value_under_the_pointer: &[CHAPTER], values;
    links_lead_somewhere: &PAGES, links;
    has_few_tab_stops: &PAGES, stops;
    has_contents_that_follow: &["figures-1-6.html", CHAPTER], follows;
    prints_well: &PAGES, printed;
    follows_a_dark_scheme: &PAGES, |page, file| pictured(dark(page, file), page, file, "1440-dark");
}

#[test]
fn old_links_into_the_one_page_still_land() {
    let Some(browser) = browser() else { return };
    let index = address(&report().join(INDEX));
    for (old, new) in [
        ("c-F26.newton-gd-slope", format!("{CHAPTER}#c-F26-newton-gd-slope")),
        ("a-E3", "errata.html#a-E3".to_string()),
        ("ledger", LEDGER.to_string()),
        ("fails", format!("{INDEX}#fails")),
    ] {
        let mut page = browser.open(&format!("{index}#{old}"), TOOLS);
        page.eval("new Promise((done) => setTimeout(() => done(0), 300))");
        let at = page.eval("location.href");
        assert!(at.as_str().unwrap().ends_with(&new), "#{old} leads to {at}");
    }
}

#[test]
fn a_comparison_shows_its_answer_and_its_map_at_once() {
    let Some(browser) = browser() else { return };
    let folder = Path::new(SCRATCH).join("comparison");
    let _ = std::fs::remove_dir_all(&folder);
    let mut command = Command::new(env!("CARGO_BIN_EXE_iclab"));
    command.args(["compare", "newton", "gd", "--prompts", "64", "--steps-a", "0..=12"]);
    let run = command.args(["--steps-b", "pow2:0..=8", "--out"]).arg(&folder).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let file = folder.join(INDEX);
    let mut page = browser.open(&address(&file), TOOLS);
    page.resize(DESKTOP);
    let seen = page.eval(
        "({ answer: middle(document.querySelector('.lede'))[1], map: middle(document.querySelector('figure [data-cells]'))[1], \
           high: innerHeight, paper: document.body.innerText.includes('NeurIPS') })",
    );
    let inside = |what: &str| seen[what].as_f64().unwrap() < seen["high"].as_f64().unwrap();
    assert!(inside("answer") && inside("map") && seen["paper"] == false, "{seen}");
    for (check, name) in
        [(quiet as Check, "quiet"), (stops, "stops"), (headed, "headed"), (printed, "printed")]
    {
        let problems = check(&mut browser.open(&address(&file), TOOLS), &file);
        assert!(problems.is_empty(), "{name}: {problems:#?}");
    }
    for (size, name) in [(PHONE, "390"), (DESKTOP, "1440")] {
        let problems = pictured(fits(&mut page, size), &mut page, &file, &format!("comparison-{name}"));
        assert!(problems.is_empty(), "{problems:#?}");
    }
}

/// Leaves a picture of the page beside what is wrong with it.
fn pictured(problems: Vec<String>, page: &mut Page, file: &Path, name: &str) -> Vec<String> {
    let stem = file.file_stem().unwrap().to_str().unwrap();
    page.screenshot(&Path::new(SCRATCH).join(format!("{stem}-{name}.png")));
    problems
}

/// What breaks a page, which page, the check that must notice, and a word of its complaint.
type Breakage = (&'static str, &'static str, fn(&str) -> String, Check, &'static str);

#[test]
fn every_check_notices_a_broken_page() {
    let Some(browser) = browser() else { return };
    let fits_phone: Check = |page, _| fits(page, PHONE);
    let fits_desktop: Check = |page, _| fits(page, DESKTOP);
    let breakages: [Breakage; 24] = [
        ("script", INDEX, |p| p.replacen("<script>", "<script>nonsense();", 1), quiet, "exception"),
        ("console", INDEX, |p| p.replacen("<script>", "<script>console.error('no');", 1), quiet, "console"),
        ("policy", INDEX, |p| image(p, "https://report.invalid/x.png"), quiet, "log"),
        ("request", INDEX, |p| image(&open(p), "https://report.invalid/x.png"), quiet, "https:"),
        ("neighbour", INDEX, |p| image(&open(p), "ledger.json"), quiet, "ledger.json"),
        ("title", INDEX, |p| p.replacen("<title>", "<title hidden></title><title>", 1), headed, "title"),
        ("heading", CHAPTER, |p| style(p, "h1 { display: none }"), headed, "heading"),
        (
            "row",
            LEDGER,
            |p| style(p, "#ledger tr[data-verdict]:last-child { display: none }"),
            ledger,
            "shown",
        ),
        (
            "verdict",
            LEDGER,
            |p| p.replacen("</span> holds</span>", "</span> fails</span>", 1),
            ledger,
            "verdict",
        ),
        ("filter", LEDGER, |p| p.replacen("row.hidden =", "row.nothing =", 1), filters, "filter"),
        ("figure", CHAPTER, |p| style(p, "figure svg { display: none !important }"), figures, "visible"),
        ("caption", CHAPTER, |p| style(p, "figcaption { display: none !important }"), figures, "caption"),
        (
            "name",
            CHAPTER,
            |p| p.replace("role=\"img\" aria-label=", "role=\"img\" data-label="),
            figures,
            "name",
        ),
        ("wide", CHAPTER, |p| style(p, "main { min-width: 1600px }"), fits_phone, "wide"),
        (
            "cut",
            CHAPTER,
            |p| style(p, "html { overflow: clip } .summary { margin-left: 90vw; white-space: nowrap }"),
            fits_desktop,
            "outside",
        ),
        ("tip", CHAPTER, |p| p.replacen("tip.textContent =", "tip.title =", 1), values, "pointer"),
        ("link", CHAPTER, |p| p.replacen(".csv\">CSV", ".scv\">CSV", 1), links, "file"),
        ("anchor", INDEX, |p| p.replacen("errata.html#a-", "errata.html#b-", 1), links, "nowhere"),
        ("story", INDEX, |p| style(p, ".main-result { margin-top: 2000px }"), story, "first screen"),
        (
            "stops",
            CHAPTER,
            |p| p.replace("<tr ", "<tr tabindex=\"0\" ").replace("<svg ", "<svg tabindex=\"0\" "),
            stops,
            "tab stops",
        ),
        ("spy", CHAPTER, |p| p.replacen("link?.setAttribute(", "link?.getAttribute(", 1), follows, "follow"),
        ("menu", CHAPTER, |p| p.replacen("(menu.open = wide.matches)", "{}", 1), follows, "phone"),
        ("paper", CHAPTER, |p| p.replace("@media print", "@media tv"), printed, "paper"),
        ("dark", INDEX, |p| p.replace("prefers-color-scheme", "prefers-nothing"), dark, "dark"),
    ];
    let folder = tempfile::tempdir_in(SCRATCH).unwrap();
    copy(report(), folder.path());
    for (name, page, breaks, check, word) in breakages {
        let whole = std::fs::read_to_string(report().join(page)).unwrap();
        let broken = breaks(&whole);
        assert_ne!(broken, whole, "{name}: nothing was broken");
        let file = folder.path().join(page);
        std::fs::write(&file, broken).unwrap();
        let problems = check(&mut browser.open(&address(&file), TOOLS), &file);
        assert!(problems.iter().any(|p| p.contains(word)), "{name} went unnoticed: {problems:#?}");
        std::fs::write(&file, whole).unwrap();
    }
}

/// The page with a picture from somewhere.
fn image(page: &str, from: &str) -> String {
    page.replacen("</main>", &format!("<img src='{from}' alt=''></main>"), 1)
}

/// The page without the policy that forbids requests.
fn open(page: &str) -> String {
    page.replacen("Content-Security-Policy", "x-none", 1)
}

fn style(page: &str, rules: &str) -> String {
    page.replacen("</style>", &format!("{rules}</style>"), 1)
}

/// Opens pages of the report and demands that `check` finds nothing.
fn inspect(pages: &[&str], check: Check) {
    let Some(browser) = browser() else { return };
    for name in pages {
        let file = report().join(name);
        let problems = check(&mut browser.open(&address(&file), TOOLS), &file);
        assert!(problems.is_empty(), "{}:\n  {}", file.display(), problems.join("\n  "));
    }
}

fn browser() -> Option<Browser> {
    let found = cdp::find();
    if found.is_none() {
        let required = std::env::var_os("ICLAB_REQUIRE_BROWSER").is_some_and(|v| v == "1");
        assert!(!required, "no Chromium (scripts/install-browser installs one)");
        // Past the capture of output, or nobody would see it; once is enough.
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            let words = "skipped: no Chromium (scripts/install-browser installs one)";
            let _ = writeln!(std::io::stderr(), "{words}");
        });
    }
    found.map(|program| Browser::launch(&program, Path::new(SCRATCH)))
}

/// The folder of a small report, made once; it stays for a person to look at.
fn report() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(SCRATCH).join("report");
        if folder.exists() {
            std::fs::remove_dir_all(&folder).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_iclab"));
        command.args(["reproduce", "--only", "F2,F26,E3", "--prompts", "64", "--out"]).arg(&folder);
        command.arg("--cache").arg(Path::new(SCRATCH).join("report-cache"));
        let run = command.output().unwrap();
        // So few prompts need not meet the bounds: 1 says that a claim fails.
        let text = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "iclab reproduce: {}\n{text}", run.status);
        folder
    })
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}
