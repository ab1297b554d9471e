//! The ledger of claims: counts, the words for a bound and a verdict, and its form for a terminal.

use lab::analyses::NotRun;
pub use lab::findings::Counts;
use lab::findings::{Bound, Claim, Findings, Kind, Verdict};

use crate::text::{format_number, wrap_by};

/// A verdict in one word, as a sign that needs no colour, and as an ANSI colour.
pub fn verdict_marks(verdict: Verdict) -> (&'static str, &'static str, &'static str) {
    match verdict {
        Verdict::Holds => ("holds", "✓", "32"),
        Verdict::Fails => ("fails", "✗", "1;31"),
        Verdict::Undefined => ("undefined", "○", "33"),
    }
}

/// Whose statement, in one word.
pub fn kind_word(kind: Kind) -> &'static str {
    kind.word()
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

/// Width of the terminal table, and how far words below a row are indented.
const WIDTH: usize = 100;
const INDENT: usize = 12;

/// The ledger for a terminal of 100 columns, grouped by analysis, with ANSI colours if `colour`.
pub fn ledger_text(findings: &[Findings], not_run: &[NotRun], colour: bool) -> String {
    let mut terminal = Terminal { out: String::new(), colour };
    for group in findings.iter().filter(|f| !f.claims.is_empty()) {
        terminal.heading(&format!("{}  {}", group.analysis, group.title));
        group.claims.iter().for_each(|claim| terminal.claim(claim));
        terminal.line("");
    }
    if !not_run.is_empty() {
        terminal.heading("Not run, for want of a network");
        for left_out in not_run {
            for (i, line) in lines(&left_out.why, WIDTH - INDENT).into_iter().enumerate() {
                let head = if i == 0 { left_out.analysis.as_str() } else { "" };
                terminal.line(&format!("{head:<INDENT$}{line}"));
            }
        }
        terminal.line("");
    }
    let counts = Counts::of(findings.iter().flat_map(|f| &f.claims));
    let part = |verdict, count: usize| {
        let (word, sign, colour) = verdict_marks(verdict);
        let text = format!("{sign} {count} {}", word.trim_end_matches('s'));
        if count > 0 { terminal.paint(colour, &text) } else { text }
    };
    let parts = [
        part(Verdict::Holds, counts.holds),
        part(Verdict::Fails, counts.fails),
        part(Verdict::Undefined, counts.undefined),
    ];
    let left_out =
        if not_run.is_empty() { String::new() } else { format!("; {} analyses not run", not_run.len()) };
    terminal.line(&format!("{} claims: {}{left_out}", counts.total(), parts.join(", ")));
    terminal.out
}

/// Text for a terminal, in colour or plain.
struct Terminal {
    out: String,
    colour: bool,
}

impl Terminal {
    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn heading(&mut self, text: &str) {
        for line in lines(text, WIDTH) {
            self.line(&self.paint("1", &line));
        }
        self.line(&self.paint("2", &"─".repeat(WIDTH)));
    }

    /// A row of numbers, and the statement below it.
    fn claim(&mut self, claim: &Claim) {
        let (word, sign, colour) = verdict_marks(claim.verdict);
        let interval = claim.interval.map_or_else(String::new, |i| format!(" {}", interval_text(i)));
        let measured = format!("{}{interval}", format_number(claim.measured));
        let bound = if claim.bound == Bound::None { String::new() } else { bound_text(claim.bound) };
        let row = format!("{:<28} {measured:<34} {bound}", claim.id);
        let mut head = self.paint(colour, &format!("{sign} {word:<9}"));
        for line in lines(&row, WIDTH - INDENT) {
            self.line(&format!("{head} {line}"));
            head = " ".repeat(INDENT - 1);
        }
        let mut words = claim.statement.clone();
        if claim.kind == Kind::Erratum {
            words = format!("Erratum. {words}");
        }
        if !claim.quoted.is_empty() {
            words += &format!(" (quoted: {})", claim.quoted);
        }
        if !claim.why.is_empty() {
            words += &format!(" Why: {}", claim.why);
        }
        for line in lines(&words, WIDTH - INDENT) {
            self.line(&format!("{}{}", " ".repeat(INDENT), self.paint("2", &line)));
        }
    }
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
