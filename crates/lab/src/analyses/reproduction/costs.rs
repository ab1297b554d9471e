//! How long analyses take, beside one another: what those that are done say about those that are left.

use crate::analyses::Analysis;

/// Seconds of the dear analyses on two shared cores, 1280 prompts each; only their proportions matter.
const SECONDS: [(&str, f64); 19] = [
    ("F2", 9.0),
    ("F2-R1", 26.0),
    ("F4", 17.0),
    ("F5-R1", 5.0),
    ("F5-R7", 11.0),
    ("F9", 338.0),
    ("F11", 4.0),
    ("F17", 197.0),
    ("F18", 9.0),
    ("F19", 27.0),
    ("F20", 46.0),
    ("F21", 63.0),
    ("F22", 20.0),
    ("F23", 159.0),
    ("E1", 8.0),
    ("E4", 5.0),
    ("Q5", 24.0),
    ("N3", 66.0),
    ("REF", 5.0),
];
/// The same of every other.
const OTHERS: f64 = 1.0;
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
        assert_eq!(seconds_left(["F2"].into_iter(), 18.0, left()), Some(2.0 * 339.0));
        assert_eq!(seconds_left(["F2"].into_iter(), 18.0, [].into_iter()), Some(0.0));
    }

    #[test]
    fn every_cost_is_of_an_analysis() {
        for (id, _) in SECONDS {
            analyses::select(&[id.to_string()]).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
