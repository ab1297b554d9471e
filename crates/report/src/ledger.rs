//! The ledger of claims: counts, the words for a bound and a verdict, and its form for a terminal.

use std::fmt::Write;

use lab::analyses::NotRun;
use lab::findings::claims::{Bound, Claim, Findings, Kind, Verdict};

use crate::text::{format_number, wrap_by};

/// How many claims hold, fail, or are undefined in the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Bounds met.
    pub holds: usize,
    /// Bounds not met.
    pub fails: usize,
    /// Nothing in the paper decides.
    pub undefined: usize,
}

impl Counts {
    /// Counts the claims.
    pub fn of<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Counts {
        claims.into_iter().fold(Counts::default(), |mut counts, claim| {
            match claim.verdict {
                Verdict::Holds => counts.holds += 1,
                Verdict::Fails => counts.fails += 1,
                Verdict::Undefined => counts.undefined += 1,
            }
            counts
        })
    }

    /// All claims.
    pub fn total(self) -> usize {
        self.holds + self.fails + self.undefined
    }
}

/// A verdict in one word.
pub fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Fails => "fails",
        Verdict::Undefined => "undefined",
    }
}

/// A verdict as a sign that needs no colour.
pub fn verdict_sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "✓",
        Verdict::Fails => "✗",
        Verdict::Undefined => "○",
    }
}

/// Whose statement, in one word.
pub fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Paper => "paper",
        Kind::Erratum => "erratum",
        Kind::Reference => "reference",
    }
}

/// What a bound asks: `≥ 0.99`, `0.18 … 0.22`, `none`.
pub fn bound_text(bound: Bound) -> String {
    match bound {
        Bound::AtMost(high) => format!("≤ {}", format_number(high)),
        Bound::AtLeast(low) => format!("≥ {}", format_number(low)),
        Bound::Within(low, high) if low == high => format!("= {}", format_number(low)),
        Bound::Within(low, high) => format!("{} … {}", format_number(low), format_number(high)),
        Bound::None => "none".into(),
    }
}

/// An interval in brackets.
pub fn interval_text((low, high): (f64, f64)) -> String {
    format!("[{}, {}]", format_number(low), format_number(high))
}

/// Width of the terminal table.
const WIDTH: usize = 100;
const INDENT: usize = 12;

/// The ledger for a terminal of 100 columns, grouped by analysis, with ANSI colours if `colour`.
pub fn ledger_text(findings: &[Findings], not_run: &[NotRun], colour: bool) -> String {
    let paint = |code: &str, text: &str| {
        if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    };
    let shade = |verdict| match verdict {
        Verdict::Holds => "32",
        Verdict::Fails => "1;31",
        Verdict::Undefined => "33",
    };
    let mut out = String::new();
    for group in findings.iter().filter(|f| !f.claims.is_empty()) {
        for line in lines(&format!("{}  {}", group.analysis, group.title), WIDTH) {
            let _ = writeln!(out, "{}", paint("1", &line));
        }
        let _ = writeln!(out, "{}", paint("2", &"─".repeat(WIDTH)));
        for claim in &group.claims {
            let verdict = format!("{} {:<9}", verdict_sign(claim.verdict), verdict_word(claim.verdict));
            let interval = claim.interval.map_or_else(String::new, |i| format!(" {}", interval_text(i)));
            let measured = format!("{}{interval}", format_number(claim.measured));
            let bound = if claim.bound == Bound::None { String::new() } else { bound_text(claim.bound) };
            let row = format!("{:<28} {measured:<34} {bound}", claim.id);
            for (i, line) in lines(&row, WIDTH - INDENT).into_iter().enumerate() {
                let head =
                    if i == 0 { paint(shade(claim.verdict), &verdict) } else { " ".repeat(INDENT - 1) };
                let _ = writeln!(out, "{head} {line}");
            }
            let mut words = claim.statement.clone();
            if claim.kind == Kind::Erratum {
                words = format!("Erratum. {words}");
            }
            if !claim.quoted.is_empty() {
                let _ = write!(words, " (quoted: {})", claim.quoted);
            }
            if !claim.why.is_empty() {
                let _ = write!(words, " Why: {}", claim.why);
            }
            for line in lines(&words, WIDTH - INDENT) {
                let _ = writeln!(out, "{}{}", " ".repeat(INDENT), paint("2", &line));
            }
        }
        out.push('\n');
    }
    if !not_run.is_empty() {
        let _ = writeln!(out, "{}", paint("1", "Not run, for want of a network"));
        let _ = writeln!(out, "{}", paint("2", &"─".repeat(WIDTH)));
        for left_out in not_run {
            for (i, line) in lines(&left_out.why, WIDTH - INDENT).into_iter().enumerate() {
                let head = if i == 0 { left_out.analysis.as_str() } else { "" };
                let _ = writeln!(out, "{head:<INDENT$}{line}");
            }
        }
        out.push('\n');
    }
    let counts = Counts::of(findings.iter().flat_map(|f| &f.claims));
    let part = |verdict, count: usize| {
        let text =
            format!("{} {count} {}", verdict_sign(verdict), verdict_word(verdict).trim_end_matches('s'));
        if count > 0 { paint(shade(verdict), &text) } else { text }
    };
    let parts = [
        part(Verdict::Holds, counts.holds),
        part(Verdict::Fails, counts.fails),
        part(Verdict::Undefined, counts.undefined),
    ];
    let left_out =
        if not_run.is_empty() { String::new() } else { format!("; {} analyses not run", not_run.len()) };
    let _ = writeln!(out, "{} claims: {}{left_out}", counts.total(), parts.join(", "));
    out
}

/// Lines of at most `width` characters; a row that fits keeps its columns, a word that does not fit is cut.
fn lines(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width {
        return vec![text.trim_end().to_string()];
    }
    let broken = wrap_by(text, width as f64, |line| line.chars().count() as f64);
    let cut = |line: String| -> Vec<String> {
        let chars: Vec<char> = line.chars().collect();
        chars.chunks(width).map(|c| c.iter().collect()).collect()
    };
    broken.into_iter().flat_map(cut).collect()
}
