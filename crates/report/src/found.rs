//! What was found, in sentences: of the paper's statements, whose failures they are, and by which networks they are judged.

use lab::analyses::reproduction::Trained;
use lab::analyses::{OTHER_RECIPE, OTHER_START};
use lab::findings::{Bound, Cause, Claim, Counts, Findings, Headline, Kind, Verdict};

use crate::ledger::interval_text;
use crate::text::format_number;

/// One sentence: the first value of the main result, and how many of the paper's statements hold, fail and are unsettled.
/// Empty where nothing of the paper was judged.
pub fn found(findings: &[Findings]) -> String {
    let counts = Counts::of(papers(findings));
    let (holds, fails, open) = (counts.holds, counts.fails, counts.unsettled);
    let tally = match counts.judged() {
        0 => return String::new(),
        1 => format!(
            "the paper’s one statement that was judged {}",
            if holds == 1 { "holds" } else { "does not hold" }
        ),
        all if holds == all => format!("all {all} of the paper’s judged statements hold"),
        all => {
            let fail =
                if fails == 0 { "none fails".into() } else { format!("{fails} fail{}", laid(findings)) };
            format!(
                "of the paper’s {all} judged statements {holds} hold, {fail} and {open} {} unsettled",
                are(open)
            )
        }
    };
    let mut letters = tally.chars();
    let tally: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    match main_value(findings) {
        Some(value) => format!("{tally}; {value}."),
        None => format!("{tally}."),
    }
}

/// The first value of the headline that the paper gives a number for.
fn main_value(findings: &[Findings]) -> Option<String> {
    let first = |headline: &&Headline| headline.rank < Headline::SECOND;
    let offered = findings.iter().filter_map(|found| Some((found.headline.as_ref().filter(first)?, found)));
    let (headline, found) = offered.min_by_key(|(headline, _)| headline.rank)?;
    let shown = |id: &String| found.claims.iter().find(|claim| claim.id == *id);
    let claim =
        headline.claims.iter().filter_map(shown).find(|claim| matches!(claim.bound, Bound::Within(..)))?;
    let interval = claim.interval.map_or(String::new(), |interval| format!(" {}", interval_text(interval)));
    // what is compared with what stands before the last colon
    let statement = claim.statement.rsplit(": ").next().unwrap_or_default().trim_end_matches('.');
    let of = if claim.network.is_empty() { String::new() } else { format!(" in {}", claim.network) };
    Some(format!("{statement}{of}: {}{interval}", format_number(claim.measured)))
}

/// To what the failures of the paper's statements are laid, in brackets.
fn laid(findings: &[Findings]) -> String {
    let causes = by_cause(papers(findings).filter(|claim| claim.verdict == Verdict::Fails));
    let parts: Vec<String> = causes
        .iter()
        .filter_map(|(cause, claims)| Some(format!("{} {}", claims.len(), (*cause)?.word())))
        .collect();
    if parts.is_empty() { String::new() } else { format!(" (laid to: {})", parts.join(", ")) }
}

/// Failing claims by what they are laid to, in reading order; those of nobody's statement last.
pub fn by_cause<'a>(failing: impl IntoIterator<Item = &'a Claim>) -> Vec<(Option<Cause>, Vec<&'a Claim>)> {
    let failing: Vec<&Claim> = failing.into_iter().collect();
    let causes = [Some(Cause::Network), Some(Cause::Protocol), Some(Cause::Paper), None];
    let of =
        |cause| (cause, failing.iter().copied().filter(|claim| claim.cause == cause).collect::<Vec<_>>());
    causes.map(of).into_iter().filter(|(_, claims)| !claims.is_empty()).collect()
}

/// By which networks the paper's statements are judged. Empty where no network of the paper was asked.
pub fn judged_by(findings: &[Findings], recipes: &[Trained]) -> String {
    let judged = || papers(findings).filter(|claim| claim.verdict != Verdict::Measured);
    let asked = || judged().filter(|claim| !claim.network.is_empty());
    let fast = asked().filter(|claim| claim.network.contains(OTHER_RECIPE)).count();
    let cut = asked().filter(|claim| claim.network.ends_with(" steps)")).count();
    let started = asked().filter(|claim| claim.network.contains(OTHER_START)).count();
    let (all, papers) = (judged().count(), asked().count() - fast - cut - started);
    if papers + cut + fast + started == 0 {
        return String::new();
    }
    let mut words = format!("{papers} of {all} are judged by networks of the paper’s recipe");
    let names =
        |of: &[&Trained]| of.iter().map(|recipe| recipe.network.as_str()).collect::<Vec<_>>().join(", ");
    let (same, others): (Vec<&Trained>, Vec<&Trained>) =
        recipes.iter().partition(|recipe| recipe.other.is_none());
    let (short, others): (Vec<&Trained>, Vec<&Trained>) = others.into_iter().partition(|recipe| recipe.cut);
    let (begun, others): (Vec<&Trained>, Vec<&Trained>) =
        others.into_iter().partition(|recipe| recipe.other_start);
    if papers > 0 && !same.is_empty() {
        words += &format!(" ({})", names(&same));
    }
    if cut > 0 {
        words += &format!(", {cut} by networks that were stopped before its end ({})", names(&short));
    }
    if started > 0 {
        words += &format!(", {started} by networks of it that began otherwise ({})", names(&begun));
    }
    if fast > 0 {
        words += &format!(", {fast} by networks of a faster one");
        if !others.is_empty() {
            words += &format!(" ({})", names(&others));
        }
    }
    match all - papers - cut - fast - started {
        0 => {}
        exact => words += &format!(", {exact} ask no network"),
    }
    words + "."
}

fn papers(findings: &[Findings]) -> impl Iterator<Item = &Claim> + Clone {
    findings.iter().flat_map(|found| &found.claims).filter(|claim| claim.kind == Kind::Paper)
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}
