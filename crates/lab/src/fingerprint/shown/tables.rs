//! Tables of a fingerprint.

use super::Identified;
use crate::findings::Table;
use crate::fingerprint::{AfterPairs, Naming};
use crate::solvers;
use crate::stats::Estimate;

/// Eigenvalues of the tables; figures and arrays have all knots.
const COLUMNS: usize = 4;

impl Identified {
    /// Candidates, steps after each number of pairs, linearity, units.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.candidates_table()];
        tables.extend(self.fingerprint.lengths.iter().map(|after| self.steps_table(after)));
        tables.extend(self.linearity_table());
        tables.push(self.units_table());
        tables
    }

    /// The algorithms, the closest first.
    pub fn candidates_table(&self) -> Table {
        let Naming { informative, candidates } = &self.naming;
        let rows = candidates.iter().enumerate().map(|(i, candidate)| {
            let steps = candidate.steps.iter().zip(informative).filter(|(_, says)| **says);
            let steps: Vec<String> = steps.map(|(step, _)| step.to_string()).collect();
            let told = match (i, candidate.tied) {
                (0, _) => "the closest",
                (_, true) => "no",
                (_, false) => "yes",
            };
            vec![
                candidate.name.clone(),
                percent(&candidate.score),
                if i == 0 { "–".into() } else { percent(&candidate.behind) },
                told.into(),
                steps.join(" "),
            ]
        });
        Table::new(
            "candidates",
            "Which algorithm?",
            "Share of w − w_OLS that an algorithm leaves at its closest steps, mean over what says something, with its 95 % \
             interval over resampled prompts; how much more than the closest it leaves, and whether that tells the two apart; its \
             closest steps.",
            ["algorithm", "leaves", "more than the closest", "told apart", "closest steps"],
            rows,
        )
    }

    /// Steps after one number of pairs.
    pub fn steps_table(&self, after: &AfterPairs) -> Table {
        let unit = self.fingerprint.unit.one();
        let last = after.knots.count() - 1;
        let shown: Vec<usize> = (0..COLUMNS).map(|i| i * last / (COLUMNS - 1)).collect();
        let (degrees, outside) = (!after.degrees.is_empty(), !after.outside.is_empty());
        let mut columns = vec![unit.to_string(), "to do".into()];
        columns.extend(shown.iter().map(|&k| format!("f({})", short(after.knots.values[k]))));
        columns.extend(["p", "a", "b", "order", "iterations", "unexplained"].map(String::from));
        columns.extend(degrees.then(|| "degree ≥".into()));
        columns.extend(outside.then(|| "outside".into()));
        columns.extend(["closest", "leaves"].map(String::from));
        let row = |(s, step): (usize, &u64)| {
            let map = s.checked_sub(1).and_then(|before| after.maps[before]);
            let mut row = vec![step.to_string(), share(after.remaining[s].value)];
            row.extend(shown.iter().map(|&k| two(after.filters[s][k].value)));
            row.push(after.shapes[s].map_or(none(), |shape| estimate(&shape.exponent)));
            row.extend([
                map.map_or(none(), |map| estimate(&map.a)),
                map.map_or(none(), |map| estimate(&map.b)),
                map.map_or(none(), |map| estimate(&map.order)),
                map.map_or(none(), |map| two(map.order.value.log2())),
                percent(&after.unexplained[s]),
            ]);
            row.extend(degrees.then(|| after.degrees[s].map_or(none(), |degree| degree.to_string())));
            row.extend(outside.then(|| share(after.outside[s])));
            let closest = self.closest(s);
            row.push(closest.map_or(none(), |(name, step, _)| format!("{name} {step}")));
            row.push(closest.map_or(none(), |(.., left)| share(left)));
            row
        };
        let rows: Vec<Vec<String>> = self.fingerprint.steps.as_slice().iter().enumerate().map(row).collect();
        Table::new(
            format!("steps-{}", after.pairs),
            format!("After {} pairs", after.pairs),
            format!(
                "To do: ‖w − w_OLS‖² over ‖w_OLS‖². f at some eigenvalues {}, all of them in fingerprint.npz. p: the exponent \
                 of f = 1 − exp(−(λ/λ_c)^p). a, b and the order of the step from the {unit} before, f ← a f − b f² and \
                 1 − f ← (1 − f)^order; iterations of Newton, log₂ of the order. Unexplained: the share of w − w_OLS that no \
                 filter explains. Degree: as many products with S are needed at least to come as close to w_OLS. The closest \
                 algorithm with its step, over all numbers of pairs, and what it leaves.",
                self.unit.words().1
            ),
            columns,
            rows,
        )
    }

    /// The same, as wide as a terminal.
    pub fn short_steps_table(&self, after: &AfterPairs) -> Table {
        let Table { id, title, caption, columns, rows } = self.steps_table(after);
        let shown = ["to do", "p", "order", "unexplained", "closest", "leaves"];
        let kept: Vec<bool> = (0..columns.len()).map(|i| i == 0 || shown.contains(&&*columns[i])).collect();
        let keep = |row: Vec<String>| -> Vec<String> {
            row.into_iter().zip(&kept).filter(|(_, kept)| **kept).map(|(cell, _)| cell).collect()
        };
        Table { id, title, caption, columns: keep(columns), rows: rows.into_iter().map(keep).collect() }
    }

    /// The candidate that leaves the least of one recorded step: its name, its step and what it leaves.
    pub fn closest(&self, s: usize) -> Option<(&str, u64, f64)> {
        let all = self.naming.candidates.iter().filter(|_| self.naming.informative[s]);
        let best = all.min_by(|x, y| x.left[s].total_cmp(&y.left[s]))?;
        Some((&best.name, best.steps[s], best.left[s]))
    }

    fn linearity_table(&self) -> Option<Table> {
        let found = self.linearity.as_ref()?;
        let all = [&found.query_scaled, &found.query_added, &found.labels_scaled, &found.labels_added];
        let steps = self.fingerprint.steps.as_slice().iter().enumerate();
        let rows = steps.map(|(s, step)| {
            std::iter::once(step.to_string()).chain(all.iter().map(|shares| percent(&shares[s]))).collect()
        });
        Some(Table::new(
            "linearity",
            format!("Is {} linear?", solvers::label(&self.fingerprint.learner)),
            format!(
                "Power of what is not linear over the power of the answers, after {} pairs: a query of half the length, the \
                 sum of two queries, labels of half the size, the sum of the labels of two functions. A filter describes \
                 what is linear.",
                found.pairs
            ),
            [self.fingerprint.unit.one(), "query halved", "queries added", "labels halved", "labels added"],
            rows,
        ))
    }

    fn units_table(&self) -> Table {
        let rows = self.units.0.iter().map(|of| {
            let (name, eigenvalue) = of.unit.words();
            let used = if of.unit == self.unit { "used" } else { "" };
            vec![name.into(), eigenvalue.into(), share(of.median), share(of.mean), used.into()]
        });
        Table::new(
            "units",
            "The unit of the eigenvalues",
            "A learner whose step size follows each prompt has one filter for all prompts only in the unit that it follows. \
             Unexplained: the share of w − w_OLS that no filter explains, median and mean over what says something.",
            ["unit", "eigenvalue", "unexplained, median", "mean", ""],
            rows,
        )
    }
}

fn none() -> String {
    "–".into()
}

fn two(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { none() }
}

/// Three digits of an eigenvalue.
fn short(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn share(value: f64) -> String {
    match 100.0 * value {
        percent if !percent.is_finite() => none(),
        percent if percent >= 9999.5 => ">9999 %".into(),
        percent if percent >= 9.95 => format!("{percent:.0} %"),
        percent if percent >= 0.005 => format!("{percent:.2} %"),
        percent if percent > 0.0 => "<0.01 %".into(),
        _ => "0 %".into(),
    }
}

fn estimate(e: &Estimate) -> String {
    match e.value.is_finite() {
        true => format!("{:.2} [{:.2}, {:.2}]", e.value, e.low, e.high),
        false => none(),
    }
}

fn percent(e: &Estimate) -> String {
    match e.value.is_finite() {
        true => format!("{} [{}, {}]", share(e.value), bare(e.low), bare(e.high)),
        false => none(),
    }
}

fn bare(value: f64) -> String {
    share(value).trim_end_matches(" %").into()
}
