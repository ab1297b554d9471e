//! The ledger of claims: counts, the words for a bound, a verdict and a quote, and its form for a terminal.

use lab::analyses::NotRun;
use lab::analyses::reproduction::Trained;
pub use lab::findings::Counts;
use lab::findings::numbers::counted;
use lab::findings::{Bound, Claim, Findings, Kind, Reading, Verdict, Words};

use crate::found::{found, judged_by};
use lab::text::wrap_by;

use crate::text::format_number;

/// A verdict in one word, as a sign that needs no colour, and as an ANSI colour.
pub fn verdict_marks(verdict: Verdict) -> (&'static str, &'static str, &'static str) {
    match verdict {
        Verdict::Holds => ("holds", "✓", "32"),
        Verdict::Fails => ("fails", "✗", "1;31"),
        Verdict::Unsettled => ("unsettled", "?", "33"),
        Verdict::Measured => ("measured", "○", "36"),
    }
}

/// The verdicts in order, each with its count and its word for one claim or for several.
pub fn each_verdict(counts: Counts) -> [(Verdict, usize, &'static str); 4] {
    let word = |count, one, several| if count == 1 { one } else { several };
    [
        (Verdict::Holds, counts.holds, word(counts.holds, "holds", "hold")),
        (Verdict::Fails, counts.fails, word(counts.fails, "fails", "fail")),
        (Verdict::Unsettled, counts.unsettled, "unsettled"),
        (Verdict::Measured, counts.measured, "measured"),
    ]
}

/// What a bound asks: `≥ 0.99`, `0.18 … 0.22`, `none`.
pub fn bound_text(bound: Bound) -> String {
    match bound {
        Bound::AtMost(high) => format!("≤ {}", format_number(high)),
        Bound::AtLeast(low) => format!("≥ {}", format_number(low)),
        Bound::Beyond(least) => format!("≥ {0} (not so: ≤ −{0})", format_number(least)),
        Bound::Within(low, high) if low == high => format!("= {}", format_number(low)),
        Bound::Within(low, high) => format!("{} … {}", format_number(low), format_number(high)),
        Bound::None => "none".into(),
    }
}

/// The words a claim is held to: in quotation marks where the paper has them literally, marked as ours where it has not.
pub fn quoted_text(claim: &Claim) -> String {
    match (claim.quoted.trim_matches(['“', '”']), claim.words) {
        ("", _) => String::new(),
        (words, Words::Paper) => format!("“{words}”"),
        (words, Words::Ours) => format!("{words} (in our words)"),
    }
}

/// What another way of measuring gives; its verdict only where that is another one.
pub fn reading_text(claim: &Claim, reading: &Reading) -> String {
    let interval = reading.interval.map_or(String::new(), |i| format!(" {}", interval_text(i)));
    let verdict = match reading.verdict == claim.verdict {
        true => String::new(),
        false => format!(", {} {}", verdict_marks(reading.verdict).1, reading.verdict.word()),
    };
    format!("{}: {}{interval}{verdict}", reading.by, format_number(reading.measured))
}

/// To what a failure is laid, and the evidence; why a claim is unsettled.
pub fn why_text(claim: &Claim) -> String {
    let cause = claim.cause.filter(|_| claim.verdict == Verdict::Fails);
    match (cause, claim.why.as_str()) {
        (None, why) => why.into(),
        (Some(cause), "") => format!("{}.", cause.words()),
        (Some(cause), why) => format!("{}: {why}", cause.words()),
    }
}

/// An interval in brackets.
pub fn interval_text((low, high): (f64, f64)) -> String {
    format!("[{}, {}]", format_number(low), format_number(high))
}

/// From this many columns on a claim's numbers stand in columns; below it, under each other.
const WIDE: usize = 80;

/// The ledger for a terminal of `width` columns, with ANSI colours if `colour`: what was found in a sentence, every claim by its
/// analysis, and the counts.
pub fn ledger_text(
    findings: &[Findings],
    not_run: &[NotRun],
    recipes: &[Trained],
    width: usize,
    colour: bool,
) -> String {
    let indent = if width < WIDE { 2 } else { 12 };
    let mut terminal = Terminal { out: String::new(), width, indent, colour };
    terminal.sentence(&found(findings));
    for group in findings.iter().filter(|f| !f.claims.is_empty()) {
        terminal.heading(&format!("{}  {}", group.analysis, group.title));
        group.claims.iter().for_each(|claim| terminal.claim(claim));
        terminal.line("");
    }
    if !not_run.is_empty() {
        terminal.heading("Not run");
        not_run.iter().for_each(|left_out| terminal.left_out(left_out));
        terminal.line("");
    }
    let claims = findings.iter().flat_map(|found| &found.claims);
    for (kind, counts) in Counts::by_kind(claims.clone()) {
        terminal.totals(&format!("{}, {} judged", kind.title(), counts.judged()), counts, 0);
    }
    terminal.sentence(&judged_by(findings, recipes));
    let counts = Counts::of(claims);
    terminal.totals(&counted(counts.total(), "claim", "claims"), counts, not_run.len());
    terminal.out
}

/// Text for a terminal, in colour or plain.
struct Terminal {
    out: String,
    width: usize,
    /// How far words below a row are indented.
    indent: usize,
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
        for line in lines(text, self.width) {
            self.line(&self.paint("1", &line));
        }
        self.line(&self.paint("2", &"─".repeat(self.width)));
    }

    /// A sentence across the whole width, and room after it.
    fn sentence(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        for line in lines(text, self.width) {
            self.line(&self.paint("1", &line));
        }
        self.line("");
    }

    /// Words below a row, indented, in a colour.
    fn below(&mut self, text: &str, colour: &str) {
        for line in lines(text, self.width - self.indent) {
            self.line(&format!("{}{}", " ".repeat(self.indent), self.paint(colour, &line)));
        }
    }

    /// An analysis that was not run, and why.
    fn left_out(&mut self, left_out: &NotRun) {
        let NotRun { analysis, why, .. } = left_out;
        if self.width < WIDE {
            self.line(analysis);
            return self.below(why, "2");
        }
        for (i, line) in lines(why, self.width - self.indent).into_iter().enumerate() {
            let (head, indent) = (if i == 0 { analysis.as_str() } else { "" }, self.indent);
            self.line(&format!("{head:<indent$}{line}"));
        }
    }

    /// A row of numbers, and the statement below it.
    fn claim(&mut self, claim: &Claim) {
        let (word, sign, colour) = verdict_marks(claim.verdict);
        let interval = claim.interval.map_or_else(String::new, |i| format!(" {}", interval_text(i)));
        let measured = format!("{}{interval}", format_number(claim.measured));
        let bound = if claim.bound == Bound::None { String::new() } else { bound_text(claim.bound) };
        if self.width < WIDE {
            for line in lines(&format!("{sign} {word}  {}", claim.id), self.width) {
                self.line(&self.paint(colour, &line));
            }
            self.below(&measured, "0");
            if !bound.is_empty() {
                self.below(&format!("asked: {bound}"), "0");
            }
        } else {
            let row = format!("{:<28} {measured:<34} {bound}", claim.id);
            let mut head = self.paint(colour, &format!("{sign} {word:<9}"));
            for line in lines(&row, self.width - self.indent) {
                self.line(&format!("{head} {line}"));
                head = " ".repeat(self.indent - 1);
            }
        }
        self.below(&words(claim), "2");
        for reading in &claim.readings {
            let colour =
                if reading.verdict == claim.verdict { "2" } else { verdict_marks(reading.verdict).2 };
            self.below(&reading_text(claim, reading), colour);
        }
    }

    /// How many claims hold, fail, are unsettled, and are measured without a verdict, after whose they are.
    fn totals(&mut self, whose: &str, counts: Counts, not_run: usize) {
        let verdicts = each_verdict(counts).map(|(verdict, count, word)| {
            let (_, sign, colour) = verdict_marks(verdict);
            (format!("{sign} {count} {word}"), if count > 0 { colour } else { "" })
        });
        let parts = verdicts.each_ref().map(|(text, _)| text.as_str()).join(", ");
        let left_out = match not_run {
            0 => String::new(),
            _ => format!("; {} not run", counted(not_run, "analysis", "analyses")),
        };
        for mut line in lines(&format!("{whose}: {parts}{left_out}"), self.width) {
            for (plain, colour) in verdicts.iter().filter(|(_, colour)| !colour.is_empty()) {
                line = line.replace(plain, &self.paint(colour, plain));
            }
            self.line(&line);
        }
    }
}

/// What a claim says, what it is held to and in whose words, and why it fails or is unsettled.
fn words(claim: &Claim) -> String {
    let mut words = match claim.network.as_str() {
        "" => claim.statement.clone(),
        network => format!("{network}: {}", claim.statement),
    };
    if claim.kind == Kind::Erratum {
        words = format!("Erratum. {words}");
    }
    let (quoted, why) = (quoted_text(claim), why_text(claim));
    if !quoted.is_empty() {
        words += &format!(" · {quoted}");
    }
    if !why.is_empty() {
        words +=
            &format!(" · {} {why}", if claim.verdict == Verdict::Unsettled { "Unsettled:" } else { "Why:" });
    }
    words
}

/// Lines of at most `width` characters; a row that fits keeps its columns, a word that does not fit is cut.
pub fn lines(text: &str, width: usize) -> Vec<String> {
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
