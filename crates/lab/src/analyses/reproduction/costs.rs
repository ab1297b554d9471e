//! How long analyses take, beside one another: what those that are done say about those that are left.

use crate::analyses::{ANALYSES, Analysis};

/// Seconds after which the analyses that are done say how fast this machine is.
const KNOWN: f64 = 5.0;

fn cost(id: &str) -> f64 {
    ANALYSES.iter().find(|analysis| analysis.id == id).map_or(0.0, |analysis| analysis.seconds)
}

/// Seconds that the analyses in `left` take, when those in `done` took so many; unknown before they took a while.
pub fn seconds_left<'a>(
    done: impl Iterator<Item = &'a str>,
    taken: f64,
    left: impl Iterator<Item = &'a Analysis>,
) -> Option<f64> {
    let done: f64 = done.map(cost).sum();
    (taken >= KNOWN && done > 0.0).then(|| left.map(|analysis| analysis.seconds).sum::<f64>() * taken / done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyses;

    #[test]
    fn what_is_done_tells_what_is_left() {
        let left = analyses::select(&["F9".into(), "E3".into()]).unwrap();
        let left = || left.iter().copied();
        assert_eq!(seconds_left(["F2"].into_iter(), 4.0, left()), None, "too early");
        assert_eq!(seconds_left([].into_iter(), 9.0, left()), None);
        let slow = seconds_left(["F2"].into_iter(), 2.0 * cost("F2"), left()).unwrap();
        assert!((slow - 2.0 * (cost("F9") + cost("E3"))).abs() < 1e-9, "{slow}");
        assert_eq!(seconds_left(["F2"].into_iter(), 18.0, [].into_iter()), Some(0.0));
    }
}
