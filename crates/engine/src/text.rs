//! Text from outside, on its way into a sentence.

/// Characters at the beginning and at the end that are shown of a long text.
const SHOWN: (usize, usize) = (1_200, 400);

/// A sentence that may quote a file: on one line, without what a terminal would obey, and not longer than a reader bears.
pub fn plain(text: &str) -> String {
    let clean: Vec<char> = text.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.len() <= SHOWN.0 + SHOWN.1 {
        return clean.into_iter().collect();
    }
    let (first, last) = (&clean[..SHOWN.0], &clean[clean.len() - SHOWN.1..]);
    first.iter().chain(&[' ', '…', ' ']).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_stay_sentences() {
        assert_eq!(plain("x.pt: no tensor `é`; accepted: one\n"), "x.pt: no tensor `é`; accepted: one");
        assert_eq!(plain("a\nerror: b\r\u{1b}[31m\0"), "a error: b  [31m ");
        let long = plain(&format!("x.pt: {}; accepted: less", "é".repeat(1 << 20)));
        assert!(
            long.starts_with("x.pt: é") && long.ends_with("; accepted: less") && long.chars().count() < 1_700
        );
    }
}
