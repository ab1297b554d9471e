//! T1: similarity of errors of the networks with Newton, GD and online GD, as one number each.

use crate::analyses::kit::compared::{Compared, Measure};
use crate::analyses::kit::setting::{ISOTROPIC, LSTM, ONLINE, Setting};
use crate::analyses::{Analysis, Lab, Outcome};
use crate::compare::matching::advantage;
use crate::compare::similarity::View;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke, Table};
use crate::stats::Estimate;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "T1",
        order: 65,
        title: "Table 1, the Transformer: most similar to Newton, least to online GD",
        summary: "The paper gives one similarity for each pair of a network and an algorithm and does not say over which layers. Here: the last \
              layer, the mean over layers and the largest, each at the best step of the algorithm.",
        needs: &["r1"],
        run: |lab, note| {
            let found = || {
                let cells = Cells::new(lab, &ISOTROPIC)?;
                let mut claims = cells.claims("T1", ["0.991", "0.957", "0.806"]);
                claims.push(cells.order(
                    lab,
                    "T1.newton-before-gd",
                    "Last layer: SimE with Newton minus SimE with GD",
                    0,
                    1,
                ));
                claims.push(cells.order(
                    lab,
                    "T1.gd-before-ogd",
                    "Last layer: SimE with GD minus SimE with online GD",
                    1,
                    2,
                ));
                Ok(Outcome {
                    claims,
                    figures: vec![cells.figure("t1-layers")],
                    tables: vec![table("t1", &[&cells])],
                })
            };
            note.adopt(found())
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "T1-R7",
        order: 67,
        title: "Table 1, the LSTM: more similar to online GD than the Transformer is",
        summary: "The same for the LSTM, and both compared.",
        needs: &["r1", "r7"],
        run: |lab, note| {
            let found = || {
                let (transformer, lstm) = (Cells::new(lab, &ISOTROPIC)?, Cells::new(lab, &LSTM)?);
                let mut claims = lstm.claims("T1-R7", ["0.920", "0.916", "0.954"]);
                let between = |id: &str, what: &str, of: usize, sign: f64, quoted: &str| {
                    let (a, b) = (&transformer.last[of], &lstm.last[of]);
                    let (low, high) = (sign * (a.low - b.high), sign * (a.high - b.low));
                    Claim::new(id, Kind::Paper, what, sign * (a.value - b.value), Bound::AtLeast(0.0))
                        .interval(low.min(high), low.max(high))
                        .quoted(quoted)
                        .figure("t1-r7-layers")
                };
                claims.push(between(
                    "T1-R7.newton",
                    "Last layers: SimE with Newton, Transformer minus LSTM",
                    0,
                    1.0,
                    "Transformers are more similar to Newton",
                ));
                claims.push(between(
                    "T1-R7.gd",
                    "Last layers: SimE with GD, Transformer minus LSTM",
                    1,
                    1.0,
                    "Transformers are more similar to GD",
                ));
                claims.push(between(
                    "T1-R7.ogd",
                    "Last layers: SimE with online GD, LSTM minus Transformer",
                    2,
                    -1.0,
                    "LSTMs are more similar to OGD",
                ));
                let tables = vec![table("t1-r7", &[&transformer, &lstm])];
                Ok(Outcome { claims, figures: vec![lstm.figure("t1-r7-layers")], tables })
            };
            note.adopt(found())
        },
        ..Analysis::FIGURE
    },
];

/// Names of the algorithms in claims.
const NAMES: [&str; 3] = ["newton", "gd", "ogd"];

/// One network's column of the table.
struct Cells {
    who: &'static str,
    maps: Vec<Compared>,
    last: Vec<Estimate>,
    curves: Vec<Vec<Estimate>>,
}

impl Cells {
    fn new(lab: &Lab, setting: &Setting) -> Result<Cells> {
        let baselines = [setting.newton, setting.gd, ONLINE];
        let maps = baselines
            .iter()
            .map(|r| Compared::new(lab, setting, *r, Measure::Errors(View::default())))
            .collect::<Result<Vec<_>>>()?;
        let curves: Vec<Vec<Estimate>> =
            maps.iter().map(|c| (0..c.matching.best.len()).map(|i| c.at_best(lab, i)).collect()).collect();
        Ok(Cells { who: setting.who, last: maps.iter().map(|c| c.last(lab)).collect(), maps, curves })
    }

    /// The paper's numbers have no definition to be held to; they are reported beside ours.
    fn claims(&self, id: &str, quoted: [&str; 3]) -> Vec<Claim> {
        let figure = format!("{}-layers", id.to_lowercase());
        let cell = |i: usize| {
            let what = format!(
                "{}: SimE of the last layer with {} at its best step",
                self.who, self.maps[i].baseline.label
            );
            Claim::of(&format!("{id}.{}-last", NAMES[i]), Kind::Paper, what, self.last[i], Bound::None)
                .quoted(quoted[i])
                .figure(&figure)
        };
        (0..3).map(cell).collect()
    }

    /// Which of two algorithms the last layer is more like, in pairs over prompts.
    fn order(&self, lab: &Lab, id: &str, what: &str, one: usize, other: usize) -> Claim {
        let ahead = advantage(&self.maps[one].map, &self.maps[other].map, lab.seed);
        let last = *ahead.last().expect("never empty");
        Claim::of(id, Kind::Paper, what, last, Bound::AtLeast(0.0))
            .quoted(".991, .957, .806")
            .figure("t1-layers")
            .why(self.maps[one].why_not_ahead_of(&self.maps[other]))
    }

    fn figure(&self, id: &str) -> Figure {
        let series = self.maps.iter().zip(&self.curves).map(|(c, curve)| {
            let points =
                c.matching.a.as_slice().iter().zip(curve).map(|(&l, e)| (l as f64, e.value)).collect();
            Series::new(c.baseline.label, points)
                .band(curve.iter().map(|e| (e.low, e.high)).collect())
                .stroke(Stroke::LineMarkers)
        });
        Figure {
            id: id.into(),
            title: "Similarity of errors at the best step, by layer".into(),
            caption: format!("{}: the numbers behind the table, with 95 % bands over prompts.", self.who),
            panels: vec![Panel::Lines(LinesPanel {
                title: String::new(),
                x: Axis::new(format!("{} layers", self.who), Scale::Linear),
                y: Axis::new("SimE at the best step", Scale::Linear),
                series: series.collect(),
                references: vec![],
            })],
        }
    }
}

fn table(id: &str, columns: &[&Cells]) -> Table {
    let mut heads = vec!["algorithm".to_string()];
    for cells in columns {
        heads.extend(["last", "mean", "largest"].map(|what| format!("{}, {what}", cells.who)));
    }
    let rows = (0..3).map(|i| {
        let mut row = vec![columns[0].maps[i].baseline.label.to_string()];
        for cells in columns {
            let values: Vec<f64> = cells.curves[i].iter().map(|e| e.value).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let largest = values.iter().copied().fold(f64::NAN, f64::max);
            let last = &cells.last[i];
            row.push(format!("{:.4} ({:.4} to {:.4})", last.value, last.low, last.high));
            row.push(format!("{mean:.4}"));
            row.push(format!("{largest:.4}"));
        }
        row
    });
    Table {
        id: id.into(),
        title: "Similarity of errors, as one number".into(),
        caption: "SimE at the best step of each algorithm: at the last layer (with its 95 % interval), as the mean over layers, and at the most similar layer.".into(),
        columns: heads,
        rows: rows.collect(),
    }
}
