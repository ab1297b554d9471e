//! How long analyses take, beside one another: what those that are done say about those that are left.

use crate::analyses::Analysis;

/// Seconds of the dear analyses on two cores, 1280 prompts each; only their proportions matter.
const SECONDS: [(&str, f64); 21] = [
    ("F2", 3.8),
    ("F2-R1", 12.6),
    ("F4", 14.6),
    ("F5-R1", 2.8),
    ("F5-R7", 9.9),
    ("F6", 1.6),
    ("F9", 105.6),
    ("F11", 1.7),
    ("F17", 52.0),
    ("F18", 5.2),
    ("F19", 13.3),
    ("F20", 25.1),
    ("F21", 30.5),
    ("F22", 11.5),
    ("F23", 52.1),
    ("F26", 1.5),
    ("E1", 3.1),
    ("E4", 2.1),
    ("Q5", 8.0),
    ("N3", 31.6),
    ("REF", 2.0),
];
/// The same of every other.
const OTHERS: f64 = 0.4;
/// Seconds after which the analyses that are done say how fast this machine is.
const KNOWN: f64 = 5.0;

fn cost(id: &str) -> f64 {
    SECONDS.iter().find(|(known, _)| *known == id).map_or(OTHERS, |(_, seconds)| *seconds)
}

/// Seconds that the analyses in `left` take, when those in `done` took so many; unknown before they took a while.
pub fn seconds_left<'a>(
    done: impl Iterator<Item = &'a str>,
    taken: f64,
    left: impl Iterator<Item = &'a Analysis>,
) -> Option<f64> {
    let done: f64 = done.map(cost).sum();
    (taken >= KNOWN && done > 0.0).then(|| left.map(|analysis| cost(analysis.id)).sum::<f64>() * taken / done)
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
        assert!((slow - 2.0 * (cost("F9") + OTHERS)).abs() < 1e-9, "{slow}");
        assert_eq!(seconds_left(["F2"].into_iter(), 18.0, [].into_iter()), Some(0.0));
    }

    #[test]
    fn every_cost_is_of_an_analysis() {
        for (id, _) in SECONDS {
            analyses::select(&[id.to_string()]).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
