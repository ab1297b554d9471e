//! What the claims of an analysis say together.

use super::{Claim, Counts, Verdict};

/// Failing claims that are named; a figure has room for no more.
const NAMED: usize = 2;

/// How many claims hold, and which do not: the answer to the question in an analysis's title. Empty without claims.
///
/// ```
/// use lab::findings::{Bound, Claim, Kind, answer};
///
/// let claim = |says, value| Claim::new("X", Kind::Paper, says, value, Bound::AtMost(1.0));
/// assert_eq!(answer(&[claim("a", 0.5), claim("b", 0.5)]), "Both claims hold.");
/// assert_eq!(answer(&[claim("a", 0.5), claim("Steps per layer", 2.0)]), "1 of 2 claims holds. Not so: Steps per layer.");
/// ```
pub fn answer(claims: &[Claim]) -> String {
    let counts = Counts::of(claims);
    let (holds, judged) = (counts.holds, counts.judged());
    let open = match (counts.unsettled, judged) {
        (0, _) => String::new(),
        (1, 1) => "The claim is unsettled".into(),
        (1, _) => "One is unsettled".into(),
        (many, _) => format!("{many} are unsettled"),
    };
    let measured = match counts.measured {
        0 => String::new(),
        1 => "One value is measured without a verdict".into(),
        many => format!("{many} values are measured without a verdict"),
    };
    let found = match (holds, judged) {
        (_, 0) => String::new(),
        (1, 1) => "The claim holds".into(),
        (0, 1) if counts.fails == 1 => "The claim does not hold".into(),
        (0, 1) => String::new(),
        (2, 2) => "Both claims hold".into(),
        (holds, all) if holds == all => format!("All {all} claims hold"),
        (0, all) => format!("None of {all} claims holds"),
        (1, all) => format!("1 of {all} claims holds"),
        (some, all) => format!("{some} of {all} claims hold"),
    };
    let sentences = [found, not_so(claims), open, measured].into_iter().filter(|words| !words.is_empty());
    sentences.map(|words| words + ".").collect::<Vec<_>>().join(" ")
}

/// The claims that fail, by what they say.
fn not_so(claims: &[Claim]) -> String {
    let fails: Vec<&Claim> = claims.iter().filter(|claim| claim.verdict == Verdict::Fails).collect();
    let named: Vec<&str> = fails.iter().take(NAMED).map(|claim| claim.statement.as_str()).collect();
    let more = match fails.len() - named.len() {
        0 => String::new(),
        left => format!("; and {left} more"),
    };
    if named.is_empty() { String::new() } else { format!("Not so: {}{more}", named.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Bound, Kind};

    #[test]
    fn an_answer_counts_and_names_what_fails() {
        let claim = |says: &str, value: f64, bound| Claim::new("X", Kind::Paper, says, value, bound);
        let holds = || claim("holds", 0.0, Bound::AtMost(1.0));
        let fails = |says| claim(says, 2.0, Bound::AtMost(1.0));
        let measured = || claim("open", 2.0, Bound::None);
        let unsettled = || fails("unsettled").interval(0.0, 3.0);
        assert_eq!(answer(&[]), "");
        assert_eq!(answer(&[measured()]), "One value is measured without a verdict.");
        assert_eq!(
            answer(&[holds(), measured(), measured()]),
            "The claim holds. 2 values are measured without a verdict."
        );
        assert_eq!(answer(&[fails("a")]), "The claim does not hold. Not so: a.");
        assert_eq!(answer(&[unsettled()]), "The claim is unsettled.");
        let many = [fails("a"), fails("b"), fails("c"), holds(), unsettled()];
        assert_eq!(answer(&many), "1 of 5 claims holds. Not so: a; b; and 1 more. One is unsettled.");
    }
}
