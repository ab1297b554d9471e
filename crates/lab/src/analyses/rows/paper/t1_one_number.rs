//! T1: similarity of errors of the networks with Newton, GD and online GD, as one number each.

use super::f07_progression::start_of_lstm;
use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{LSTM, ONLINE};
use crate::compare::matching::advantage;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "T1",
        paper: Some(("Table 1", "A.1")),
        order: 65,
        title: "Which algorithm is the Transformer most similar to, as one number each?",
        summary: "The paper gives one similarity for each pair of a network and an algorithm and does not say over which layers, at which \
                  steps or from which start. The last layer at the best step decides, by our protocol and by the authors'. A \
                  table of other definitions stands beside: none of them gives all three of the paper's numbers.",
        needs: &["r1"],
        run: |lab, note| {
            let cells = Cells::new(lab, &ISOTROPIC, TRANSFORMER, [0.01, 0.02, 0.03])?;
            cells.claims(note, "");
            let order = [
                (
                    "newton-before-gd",
                    "Last layer: SimE with Newton minus SimE with GD",
                    0,
                    1,
                    "0.991 … 0.957",
                ),
                ("gd-before-ogd", "Last layer: SimE with GD minus SimE with online GD", 1, 2, FULL),
            ];
            for (name, what, one, other, words) in order {
                // in pairs over prompts
                let ahead = |maps: &[Compared]| {
                    *advantage(&maps[one].map, &maps[other].map, lab.seed).last().expect("never empty")
                };
                note.claim(name, ahead(&cells.ours), AtLeast(0.0))
                    .says(what)
                    .quoted(words)
                    .authors(ahead(&cells.authors))
                    .why(cells.ours[one].why_not_ahead_of(&cells.ours[other]));
            }
            cells.draw(note);
            definitions(lab, note, &[&cells])
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "T1-R7",
        paper: Some(("Table 1", "A.1")),
        order: 67,
        title: "Is the LSTM more similar to online gradient descent than the Transformer is?",
        summary: "The same for the LSTM, and both compared on the same prompts.",
        needs: &["r1", "r7"],
        run: |lab, note| {
            let transformer = Cells::new(lab, &ISOTROPIC, TRANSFORMER, [0.01, 0.02, 0.03])?;
            let lstm = Cells::new(lab, &LSTM, RECURRENT, [0.02; 3])?;
            let start = start_of_lstm(lab);
            lstm.claims(note, start);
            let online = "LSTMs are more similar to OGD than Transformers are";
            let full = "Transformers are more similar to Newton and GD than LSTMs";
            for (i, algorithm, more, less, words) in [
                (0, "Newton", &transformer, &lstm, full),
                (1, "GD", &transformer, &lstm, full),
                (2, "online GD", &lstm, &transformer, online),
            ] {
                note.claim(NAMES[i], paired(lab, &more.ours[i], &less.ours[i]), AtLeast(0.0))
                    .says(format!(
                        "Last layers: SimE with {algorithm}, {} minus {}{start}",
                        more.setting.who, less.setting.who
                    ))
                    .quoted(words)
                    .authors(paired(lab, &more.authors[i], &less.authors[i]));
            }
            lstm.draw(note);
            definitions(lab, note, &[&transformer, &lstm])
        },
        ..Analysis::FIGURE
    },
];

/// Names of the algorithms in claims.
const NAMES: [&str; 3] = ["newton", "gd", "ogd"];
/// The paper's columns, in that order.
const TRANSFORMER: [&str; 3] = ["0.991", "0.957", "0.806"];
const RECURRENT: [&str; 3] = ["0.920", "0.916", "0.954"];
const FULL: &str = "Transformers are more similar to full-observation methods such as Newton and GD";

/// One network's column of the table.
struct Cells {
    setting: &'static Setting,
    /// The paper's column, and how far from it a number may be.
    stated: [&'static str; 3],
    slack: [f64; 3],
    ours: Vec<Compared>,
    /// By the authors' protocol.
    authors: Vec<Compared>,
}

impl Cells {
    fn new(
        lab: &Lab,
        setting: &'static Setting,
        stated: [&'static str; 3],
        slack: [f64; 3],
    ) -> Result<Cells> {
        let all = [setting.newton, setting.gd, ONLINE];
        let ours = all.into_iter().map(|baseline| setting.errors(lab, baseline)).collect::<Result<_>>()?;
        let authors =
            all.into_iter().map(|baseline| setting.by_authors(lab, baseline)).collect::<Result<_>>()?;
        Ok(Cells { setting, stated, slack, ours, authors })
    }

    fn stated(&self, i: usize) -> f64 {
        self.stated[i].parse().expect("a number")
    }

    fn claims(&self, note: &mut Notebook, start: &str) {
        for (i, name) in NAMES.into_iter().enumerate() {
            let (ours, stated, slack) = (&self.ours[i], self.stated(i), self.slack[i]);
            let three_digits = |value: f64| (1000.0 * value).round() / 1000.0;
            let bound = Within(three_digits(stated - slack), three_digits(stated + slack));
            note.claim(&format!("{name}-last"), ours.last_similarity(), bound)
                .asks(&[ours.network])
                .says(format!(
                    "{}: SimE of the last layer with {} at its best step{start}",
                    self.setting.who, ours.baseline.label
                ))
                .quoted(self.stated[i])
                .authors(self.authors[i].last_similarity())
                .why("The table of definitions shows which layers, steps and starts come near the paper's number.");
        }
    }

    fn draw(&self, note: &mut Notebook) {
        let panel = |title: &str, maps: &[Compared]| {
            let x = Axis::linear(format!("{} layers", self.setting.who));
            let curves = maps.iter().map(Compared::curve);
            let panel = LinesPanel::new(x, Axis::linear("SimE at the best step"), curves).titled(title);
            maps.iter().enumerate().fold(panel, |panel, (i, map)| {
                panel.mark_y(format!("paper, {}: {}", map.baseline.label, self.stated[i]), self.stated(i))
            })
        };
        let caption = format!(
            "{}: the numbers behind the table, with 95 % bands over prompts. Straight lines: the paper's one number each.",
            self.setting.who
        );
        let panels = [panel("ours", &self.ours), panel("the authors' protocol", &self.authors)];
        note.figure("layers", "Similarity of errors at the best step, by layer", caption, panels);
    }
}

/// SimE of one network's last layer minus another's with the same algorithm, each at its best step, on the same prompts.
fn paired(lab: &Lab, one: &Compared, other: &Compared) -> Estimate {
    let of = |c: &Compared| {
        let last = c.matching.a.len() - 1;
        let best = c.matching.best[last].unwrap_or(0);
        c.map.per_prompt.slice(ndarray::s![last, best, ..]).to_vec()
    };
    let differences: Vec<f64> = of(one).iter().zip(of(other)).map(|(a, b)| a - b).collect();
    mean(lab.seed, &differences)
}

/// Where steps, starts and positions of an algorithm are chosen, and the similarities that follow.
type Definition = (usize, &'static str, Compared);

/// What the table could mean: by algorithm, its steps, its start and the positions.
fn readings(lab: &Lab, cells: &Cells) -> Result<Vec<Definition>> {
    let setting = cells.setting;
    let from =
        |first: usize, baseline: Baseline| setting.compare(lab, baseline, Measure::Errors(View { first }));
    let gd = setting.gd;
    let random = ONLINE.by_authors();
    Ok(vec![
        (0, "best of 0 to 30, t ≥ 1", from(1, setting.newton)?),
        (0, "authors: best of 1 to 23, t ≥ 0", setting.by_authors(lab, setting.newton)?),
        (1, "best of two per doubling to 16,384, t ≥ 1", from(1, gd)?),
        (1, "authors: best of 1, 50, 100, …, 1,300, t ≥ 0", setting.by_authors(lab, gd)?),
        (1, "authors: best of 1, 2, 4, …, 4,096, t ≥ 0", setting.by_authors(lab, gd.doubling())?),
        (1, "stopped after 70 steps, t ≥ 1", from(1, Baseline::new("GD", "gd", "70"))?),
        (2, "zero start, t ≥ 1", from(1, ONLINE)?),
        (2, "zero start, t ≥ 0", from(0, ONLINE)?),
        (2, "random start, t ≥ 1", from(1, random)?),
        (2, "authors: random start, t ≥ 0", setting.by_authors(lab, ONLINE)?),
    ])
}

/// Table of definitions: what each choice of steps, start, positions and layers gives.
fn definitions(lab: &Lab, note: &mut Notebook, columns: &[&Cells]) -> Result<()> {
    let mut rows = Vec::new();
    for cells in columns {
        let row = |(i, words, map): Definition| {
            let values = &map.matching.similarity;
            let average = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
            let last = map.last_similarity();
            vec![
                cells.setting.who.to_string(),
                map.baseline.label.to_string(),
                words.to_string(),
                format!("{:.3} ({:.3} to {:.3})", last.value, last.low, last.high),
                format!("{:.3}", average(values)),
                format!("{:.3}", average(&values[2.min(values.len() - 1)..])),
                format!("{:.3}", map.highest()),
                cells.stated[i].to_string(),
            ]
        };
        rows.extend(readings(lab, cells)?.into_iter().map(row));
    }
    note.table(
        "",
        "Similarity of errors as one number, by many definitions",
        "SimE at the best step of each algorithm: of the last layer (with its 95 % interval), as the mean over all layers, as the mean \
         from layer 3 on, and of the most similar layer. No column is near all of the paper's numbers at once.",
        ["network", "algorithm", "steps, start, positions", "last", "all layers", "from layer 3", "largest", "paper"],
        rows,
    );
    Ok(())
}
