//! Which steps of a learner to look at.

use std::fmt;

use crate::error::{Error, Result};

/// Step numbers, ascending and distinct, never empty.
///
/// ```
/// use lab::Steps;
///
/// assert_eq!(Steps::parse("1,50..=200/50")?.as_slice(), [1, 50, 100, 150, 200]);
/// assert_eq!(Steps::powers_of_two(0, 3), Steps::parse("pow2:0..=3")?);
/// assert!(Steps::parse("9..=3").is_err_and(|e| e.to_string().contains("empty range")));
/// # Ok::<(), lab::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Steps(Vec<u64>);

/// More steps than anyone would read; protects against `0..=999999999999`.
const MOST: usize = 100_000;
/// The largest step number: far beyond convergence of anything here, far below overflow.
const LARGEST: u64 = 1 << 40;

impl Steps {
    /// Sorts and removes repetitions; refuses an empty list.
    pub fn new(mut steps: Vec<u64>) -> Result<Steps> {
        steps.sort_unstable();
        steps.dedup();
        let bad =
            |why: &str| Err(Error::BadSteps { text: format!("{} values", steps.len()), why: why.into() });
        if steps.is_empty() {
            return bad("at least one step is needed");
        }
        if steps.len() > MOST {
            return bad("more than 100000 steps");
        }
        Ok(Steps(steps))
    }

    /// A single step.
    pub fn single(step: u64) -> Steps {
        Steps(vec![step])
    }

    /// first, first+1, …, last
    pub fn range(first: u64, last: u64) -> Steps {
        Steps((first..=last.max(first)).collect())
    }

    /// 2^first, …, 2^last
    pub fn powers_of_two(first: u32, last: u32) -> Steps {
        Steps((first..=last.max(first)).map(|e| 1 << e).collect())
    }

    /// Reads `5`, `1,50,100`, `0..=24`, `0..24`, `50..=1300/50` (a stride), `pow2:0..=12`, or a comma list of these.
    pub fn parse(text: &str) -> Result<Steps> {
        let bad = |why: String| Error::BadSteps { text: text.to_string(), why };
        let mut all = Vec::new();
        for piece in text.split(',').map(str::trim) {
            let (range, is_power) = match piece.strip_prefix("pow2:") {
                Some(rest) => (rest, true),
                None => (piece, false),
            };
            let (range, stride) = match range.split_once('/') {
                Some((range, stride)) => (range, number(stride).filter(|&s| s > 0)),
                None => (range, Some(1)),
            };
            let stride = stride.ok_or_else(|| bad(format!("'{piece}' has no positive stride after '/'")))?;
            let (first, last) =
                ends(range).ok_or_else(|| bad(format!("'{piece}' is not a number or a range")))?;
            if last < first {
                return Err(bad(format!("'{piece}' is an empty range")));
            }
            let limit = if is_power { 40 } else { LARGEST };
            if last > limit {
                return Err(bad(format!("'{piece}' goes beyond {limit}")));
            }
            if (last - first) / stride >= MOST as u64 {
                return Err(bad(format!("'{piece}' holds more than {MOST} steps")));
            }
            let numbers = (first..=last).step_by(stride as usize);
            all.extend(numbers.map(|n| if is_power { 1 << n } else { n }));
        }
        Steps::new(all)
    }

    /// The numbers.
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }

    /// How many.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The last and largest.
    pub fn last(&self) -> u64 {
        self.0[self.0.len() - 1]
    }

    /// Position of a step number.
    pub fn position(&self, step: u64) -> Option<usize> {
        self.0.binary_search(&step).ok()
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn ends(text: &str) -> Option<(u64, u64)> {
    if let Some((first, last)) = text.split_once("..=") {
        Some((number(first)?, number(last)?))
    } else if let Some((first, end)) = text.split_once("..") {
        // an empty half-open range is reported as such by the caller: make last < first
        let (first, end) = (number(first)?, number(end)?);
        if end == 0 { Some((1, 0)) } else { Some((first, end - 1)) }
    } else {
        number(text).map(|n| (n, n))
    }
}

impl fmt::Display for Steps {
    /// Ranges are written short: `0..=24`, `1,2,4,8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.0;
        if s.len() > 2 && s.windows(2).all(|w| w[1] == w[0] + 1) {
            return write!(f, "{}..={}", s[0], self.last());
        }
        f.write_str(&s.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_says_it_reads() {
        let read = |text: &str| Steps::parse(text).unwrap().as_slice().to_vec();
        assert_eq!(read("5"), [5]);
        assert_eq!(read("0..=3"), [0, 1, 2, 3]);
        assert_eq!(read("0..3"), [0, 1, 2]);
        assert_eq!(read("1, 50..=200/50"), [1, 50, 100, 150, 200]);
        assert_eq!(read("pow2:0..=3,3"), [1, 2, 3, 4, 8]);
    }

    #[test]
    fn refuses_the_rest_with_a_reason() {
        for text in
            ["", "x", "3..=1", "0..0", "-1", "1..=2/0", "pow2:0..=99", "0..=999999999999", "1e3", "1,,2"]
        {
            let message = Steps::parse(text).unwrap_err().to_string();
            assert!(message.contains("accepted:"), "{text}: {message}");
        }
    }

    #[test]
    fn writes_what_it_can_read_again() {
        for text in ["0..=24", "1,2,4,8", "7"] {
            assert_eq!(Steps::parse(text).unwrap().to_string(), text);
        }
    }
}
