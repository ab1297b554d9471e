//! How many claims hold, and of whose.

use serde::Serialize;

use super::{Claim, Kind, Verdict};

/// How many claims hold, fail, are unsettled, or are measured without a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Bounds met.
    pub holds: usize,
    /// Bounds not met.
    pub fails: usize,
    /// Intervals across the bound.
    pub unsettled: usize,
    /// Values of which nothing is required.
    pub measured: usize,
}

impl Counts {
    /// Counts the claims.
    pub fn of<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Counts {
        claims.into_iter().fold(Counts::default(), |mut counts, claim| {
            match claim.verdict {
                Verdict::Holds => counts.holds += 1,
                Verdict::Fails => counts.fails += 1,
                Verdict::Unsettled => counts.unsettled += 1,
                Verdict::Measured => counts.measured += 1,
            }
            counts
        })
    }

    /// Counts the claims of each kind that occurs: the paper's statements, errata, reference values, beyond the paper.
    ///
    /// ```
    /// use lab::findings::{Bound, Claim, Counts, Kind};
    ///
    /// let claim = |kind, value| Claim::new("X", kind, "x", value, Bound::AtMost(1.0));
    /// let claims = [claim(Kind::Paper, 0.5), claim(Kind::Beyond, 2.0), claim(Kind::Paper, 2.0)];
    /// let [(paper, of_paper), (beyond, of_beyond)] = Counts::by_kind(&claims)[..] else { panic!() };
    /// assert_eq!((paper, of_paper.holds, of_paper.fails), (Kind::Paper, 1, 1));
    /// assert_eq!((beyond, of_beyond.total()), (Kind::Beyond, 1));
    /// ```
    pub fn by_kind<'a>(claims: impl IntoIterator<Item = &'a Claim> + Clone) -> Vec<(Kind, Counts)> {
        let of = |kind: Kind| {
            let claims = claims.clone().into_iter().filter(|claim| claim.kind == kind);
            (kind, Counts::of(claims))
        };
        Kind::ALL.map(of).into_iter().filter(|(_, counts)| counts.total() > 0).collect()
    }

    /// All claims.
    pub fn total(self) -> usize {
        self.judged() + self.measured
    }

    /// Claims with a verdict.
    pub fn judged(self) -> usize {
        self.holds + self.fails + self.unsettled
    }
}
