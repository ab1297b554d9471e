//! Two measurements of the same claims, beside one another: on two devices, by two versions, on two machines.

use engine::deviation::worst;
use serde::Serialize;

use super::{Claim, Findings, Table, Verdict};

/// One claim, measured twice.
#[derive(Clone, Debug, Serialize)]
pub struct ClaimDifference {
    /// Which claim.
    pub id: String,
    /// The verdicts; none where it was not measured.
    pub verdicts: [Option<Verdict>; 2],
    /// The values.
    #[serde(with = "crate::exact")]
    pub measured: (f64, f64),
    /// The largest difference between the values, the ends of the intervals, and those of other readings.
    #[serde(with = "crate::exact")]
    pub largest: f64,
    /// Whether a verdict differs, of the claim itself or of another reading.
    pub differs: bool,
}

/// Claims of two measurements, in the order of the first, those of the second alone at the end.
#[derive(Clone, Debug, Serialize)]
pub struct Differences(pub Vec<ClaimDifference>);

/// How far two numbers are apart; what cannot be measured is as far from what can as possible.
fn apart(a: f64, b: f64) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => 0.0,
        _ if a == b => 0.0,
        (false, false) => (a - b).abs(),
        _ => f64::INFINITY,
    }
}

/// A value and the ends of its interval.
fn numbers(measured: f64, interval: Option<(f64, f64)>) -> Vec<f64> {
    let ends = interval.map_or(Vec::new(), |(low, high)| vec![low, high]);
    std::iter::once(measured).chain(ends).collect()
}

fn of_claim(claim: &Claim) -> (Vec<f64>, Vec<Verdict>) {
    let readings = claim.readings.iter();
    let others = readings.clone().flat_map(|reading| numbers(reading.measured, reading.interval));
    let verdicts = std::iter::once(claim.verdict).chain(readings.map(|reading| reading.verdict));
    (numbers(claim.measured, claim.interval).into_iter().chain(others).collect(), verdicts.collect())
}

impl ClaimDifference {
    fn new(id: &str, pair: [Option<&Claim>; 2]) -> ClaimDifference {
        let (largest, differs) = match pair.map(|claim| claim.map(of_claim)) {
            [Some((a, a_verdicts)), Some((b, b_verdicts))] if a.len() == b.len() => {
                let largest = worst(a.iter().zip(&b).map(|(a, b)| apart(*a, *b)));
                (largest, a_verdicts != b_verdicts)
            }
            // in one of them alone, or with an interval in one of them alone
            [a, b] => (f64::INFINITY, a.map(|(_, verdicts)| verdicts) != b.map(|(_, verdicts)| verdicts)),
        };
        let verdicts = pair.map(|claim| claim.map(|claim| claim.verdict));
        let [a, b] = pair.map(|claim| claim.map_or(f64::NAN, |claim| claim.measured));
        ClaimDifference { id: id.into(), verdicts, measured: (a, b), largest, differs }
    }
}

impl Differences {
    /// Of two measurements.
    pub fn between(a: &[Findings], b: &[Findings]) -> Differences {
        fn claims(of: &[Findings]) -> Vec<&Claim> {
            of.iter().flat_map(|findings| &findings.claims).collect()
        }
        let (a, b) = (claims(a), claims(b));
        let find = |among: &[&Claim], id: &str| among.iter().position(|claim| claim.id == id);
        let of_a = a
            .iter()
            .map(|claim| ClaimDifference::new(&claim.id, [Some(claim), find(&b, &claim.id).map(|i| b[i])]));
        let of_b = b.iter().filter(|claim| find(&a, &claim.id).is_none());
        let of_b = of_b.map(|claim| ClaimDifference::new(&claim.id, [None, Some(claim)]));
        Differences(of_a.chain(of_b).collect())
    }

    /// Claims of which a verdict differs, or that only one of the two has.
    pub fn of_verdicts(&self) -> usize {
        self.0.iter().filter(|claim| claim.differs).count()
    }

    /// The claim whose numbers are farthest apart.
    pub fn farthest(&self) -> Option<&ClaimDifference> {
        self.0.iter().max_by(|a, b| a.largest.total_cmp(&b.largest))
    }

    /// A row for each claim; `names` are those of the two measurements.
    pub fn table(&self, names: [&str; 2]) -> Table {
        let verdict = |verdict: Option<Verdict>| verdict.map_or("–", Verdict::word).to_string();
        let row = |claim: &ClaimDifference| {
            let [a, b] = claim.verdicts;
            let note = if claim.differs { "DIFFERS" } else { "" };
            let [x, y] = [claim.measured.0, claim.measured.1].map(|value| format!("{value:.6}"));
            vec![
                claim.id.clone(),
                verdict(a),
                verdict(b),
                x,
                y,
                format!("{:.1e}", claim.largest),
                note.into(),
            ]
        };
        let [a, b] = names;
        let columns = [
            "claim".into(),
            a.to_string(),
            b.into(),
            format!("by {a}"),
            format!("by {b}"),
            "largest difference".into(),
            String::new(),
        ];
        let caption = "The largest difference is that of the values, of the ends of their intervals and of other readings.";
        Table::new("differences", "Claims, measured twice", caption, columns, self.0.iter().map(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Bound, Kind};

    fn findings(claims: impl IntoIterator<Item = Claim>) -> Vec<Findings> {
        vec![Findings { analysis: "F1".into(), claims: claims.into_iter().collect(), ..Findings::default() }]
    }

    fn claim(id: &str, measured: f64) -> Claim {
        Claim::new(id, Kind::Paper, "more than one", measured, Bound::AtLeast(1.0))
            .interval(measured - 0.1, measured + 0.1)
    }

    #[test]
    fn the_largest_difference_is_that_of_any_number() {
        let a = findings([claim("F1.a", 2.0).reading("otherwise", 3.0, None), claim("F1.b", f64::NAN)]);
        let b =
            findings([claim("F1.a", 2.0 + 1e-6).reading("otherwise", 3.5, None), claim("F1.b", f64::NAN)]);
        let found = Differences::between(&a, &b);
        assert_eq!((found.of_verdicts(), found.0.len()), (0, 2));
        assert!((found.0[0].largest - 0.5).abs() < 1e-12 && found.0[1].largest == 0.0);
        assert_eq!(found.farthest().unwrap().id, "F1.a");
        let table = found.table(["cpu", "cuda"]);
        assert_eq!(table.rows[0][1..3], ["holds", "holds"]);
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
    }

    #[test]
    fn another_verdict_is_told_apart() {
        let (a, b) = (findings([claim("F1.a", 1.2)]), findings([claim("F1.a", 1.05)]));
        let found = Differences::between(&a, &b);
        assert_eq!(found.of_verdicts(), 1);
        assert_eq!(found.table(["a", "b"]).rows[0][6], "DIFFERS");
        let other = findings([claim("F1.a", 1.2).reading("otherwise", 0.0, None)]);
        let same = findings([claim("F1.a", 1.2).reading("otherwise", 3.0, None)]);
        assert_eq!(Differences::between(&other, &same).of_verdicts(), 1, "of another reading");
    }

    #[test]
    fn a_claim_of_one_alone_differs() {
        let (a, b) = (findings([claim("F1.a", 2.0)]), findings([claim("F1.b", 2.0)]));
        let found = Differences::between(&a, &b);
        assert_eq!(found.of_verdicts(), 2);
        assert_eq!(found.0.iter().map(|claim| claim.id.as_str()).collect::<Vec<_>>(), ["F1.a", "F1.b"]);
        assert!(found.0.iter().all(|claim| claim.largest.is_infinite()));
    }
}
