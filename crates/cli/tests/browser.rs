//! A report as its reader meets it: made by the real binary, opened in a real browser.
//!
//! Every check returns what is wrong with a page, so that one test can break pages on purpose and see each
//! check notice. Screenshots are left in the temporary folder of the target directory.

#[path = "browser/cdp.rs"]
mod cdp;
#[path = "browser/checks.rs"]
mod checks;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Once, OnceLock};

use cdp::{Browser, Page};
use checks::{
    Check, DESKTOP, PHONE, TOOLS, address, dark, figures, filters, fits, headed, ledger, links, quiet, story,
    values,
};

const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

macro_rules! inspections {
    ($($name:ident: $check:expr;)*) => {
        $(#[test]
        fn $name() {
            inspect($check);
        })*
    };
}

inspections! {
    loads_without_errors_and_asks_for_nothing: quiet;
    shows_what_it_is: headed;
    shows_every_claim_with_its_verdict: ledger;
    tells_the_main_result_on_the_first_screen_and_why_claims_fail: story;
    filters_claims: filters;
    shows_every_figure_with_caption_and_name: figures;
    fits_a_phone: |page, _| pictured(fits(page, PHONE), page, "report-390.png");
    fits_a_desktop: |page, _| pictured(fits(page, DESKTOP), page, "report-1440.png");
    shows_the_value_under_the_pointer: values;
    links_lead_somewhere: links;
    follows_a_dark_scheme: |page, folder| pictured(dark(page, folder), page, "report-1440-dark.png");
}

/// Leaves a picture of the page beside what is wrong with it.
fn pictured(problems: Vec<String>, page: &mut Page, name: &str) -> Vec<String> {
    page.screenshot(&Path::new(SCRATCH).join(name));
    problems
}

/// What breaks a page, the check that must notice, and a word of its complaint.
type Breakage = (&'static str, fn(&str) -> String, Check, &'static str);

#[test]
fn every_check_notices_a_broken_page() {
    let Some(browser) = browser() else { return };
    let fits_phone: Check = |page, _| fits(page, PHONE);
    let fits_desktop: Check = |page, _| fits(page, DESKTOP);
    let breakages: [Breakage; 19] = [
        ("script", |p| p.replacen("<script>", "<script>nonsense();", 1), quiet, "exception"),
        ("console", |p| p.replacen("<script>", "<script>console.error('no');", 1), quiet, "console"),
        (
            "policy",
            |p| p.replacen("</main>", "<img src='https://report.invalid/x.png' alt=''></main>", 1),
            quiet,
            "log",
        ),
        (
            "request",
            |p| {
                let open = p.replacen("Content-Security-Policy", "x-none", 1);
                open.replacen("</main>", "<img src='https://report.invalid/x.png' alt=''></main>", 1)
            },
            quiet,
            "https:",
        ),
        (
            "neighbour",
            |p| {
                let open = p.replacen("Content-Security-Policy", "x-none", 1);
                open.replacen("</main>", "<img src='ledger.json' alt=''></main>", 1)
            },
            quiet,
            "ledger.json",
        ),
        ("title", |p| p.replacen("<title>", "<title hidden></title><title>", 1), headed, "title"),
        ("heading", |p| style(p, "h1 { display: none }"), headed, "heading"),
        ("row", |p| style(p, "#ledger tr[data-verdict]:last-child { display: none }"), ledger, "shown"),
        (
            "verdict",
            |p| {
                let (before, after) = p.split_once("id=\"ledger\"").unwrap();
                let turned = after.replacen("</span> holds</span>", "</span> fails</span>", 1);
                format!("{before}id=\"ledger\"{turned}")
            },
            ledger,
            "verdict",
        ),
        (
            "filter",
            |p| p.replacen("ledger.dataset.filter =", "ledger.dataset.nothing =", 1),
            filters,
            "filter",
        ),
        ("figure", |p| style(p, "figure svg { display: none !important }"), figures, "visible"),
        ("caption", |p| style(p, "figcaption { display: none }"), figures, "caption"),
        ("name", |p| p.replace("role=\"img\" aria-label=", "role=\"img\" data-label="), figures, "name"),
        ("wide", |p| style(p, "main { min-width: 1600px }"), fits_phone, "wide"),
        (
            "cut",
            |p| style(p, "html { overflow: clip } .summary { margin-left: 90vw; white-space: nowrap }"),
            fits_desktop,
            "outside",
        ),
        ("tip", |p| p.replacen("tip.textContent =", "tip.title =", 1), values, "pointer"),
        ("link", |p| p.replacen(".csv\">CSV", ".scv\">CSV", 1), links, "file"),
        ("story", |p| style(p, ".main-result { margin-top: 2000px }"), story, "first screen"),
        ("dark", |p| p.replace("prefers-color-scheme", "prefers-nothing"), dark, "dark"),
    ];
    let whole = std::fs::read_to_string(report().join("index.html")).unwrap();
    let folder = tempfile::tempdir_in(SCRATCH).unwrap();
    copy(report(), folder.path());
    for (name, breaks, check, word) in breakages {
        let broken = breaks(&whole);
        assert_ne!(broken, whole, "{name}: nothing was broken");
        let file = folder.path().join("index.html");
        std::fs::write(&file, broken).unwrap();
        let problems = check(&mut browser.open(&address(&file), TOOLS), folder.path());
        assert!(problems.iter().any(|p| p.contains(word)), "{name} went unnoticed: {problems:#?}");
    }
}

fn style(page: &str, rules: &str) -> String {
    page.replacen("</style>", &format!("{rules}</style>"), 1)
}

/// Opens the report and demands that `check` finds nothing.
fn inspect(check: Check) {
    let Some(browser) = browser() else { return };
    let file = report().join("index.html");
    let problems = check(&mut browser.open(&address(&file), TOOLS), report());
    assert!(problems.is_empty(), "{}:\n  {}", file.display(), problems.join("\n  "));
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
        assert!(matches!(run.status.code(), Some(0 | 1)), "iclab reproduce: {}\n{text}", run.status);
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
