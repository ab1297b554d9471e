//! T1: similarity of errors of the networks with Newton, GD and online GD, as one number each.

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
        summary: "The paper gives one similarity for each pair of a network and an algorithm and does not say over which layers. Here: the last \
                  layer, the mean over layers and the largest, each at the best step of the algorithm.",
        needs: &["r1"],
        run: |lab, note| {
            let cells = Cells::new(lab, &ISOTROPIC, TRANSFORMER)?;
            cells.claims(note);
            let order = [
                ("newton-before-gd", "Last layer: SimE with Newton minus SimE with GD", 0, 1),
                ("gd-before-ogd", "Last layer: SimE with GD minus SimE with online GD", 1, 2),
            ];
            for (name, what, one, other) in order {
                let (one, other) = (&cells.maps[one], &cells.maps[other]);
                // in pairs over prompts
                let ahead = advantage(&one.map, &other.map, lab.seed);
                note.claim(name, *ahead.last().expect("never empty"), AtLeast(0.0))
                    .says(what)
                    .quoted(".991, .957, .806")
                    .why(one.why_not_ahead_of(other));
            }
            cells.draw(note);
            table(note, &[&cells]);
            Ok(())
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "T1-R7",
        paper: Some(("Table 1", "A.1")),
        order: 67,
        title: "Is the LSTM more similar to online gradient descent than the Transformer is?",
        summary: "The same for the LSTM, and both compared.",
        needs: &["r1", "r7"],
        run: |lab, note| {
            let transformer = Cells::new(lab, &ISOTROPIC, TRANSFORMER)?;
            let lstm = Cells::new(lab, &LSTM, RECURRENT)?;
            lstm.claims(note);
            for (i, algorithm, more, less) in [
                (0, "Newton", &transformer, &lstm),
                (1, "GD", &transformer, &lstm),
                (2, "online GD", &lstm, &transformer),
            ] {
                let (a, b) = (more.last(i), less.last(i));
                let ahead = Estimate { value: a.value - b.value, low: a.low - b.high, high: a.high - b.low };
                let short = algorithm.replace("online ", "O");
                note.claim(NAMES[i], ahead, AtLeast(0.0))
                    .says(format!("Last layers: SimE with {algorithm}, {} minus {}", more.who, less.who))
                    .quoted(format!(
                        "{}s are more similar to {short}: {} against {}",
                        more.who, more.quoted[i], less.quoted[i]
                    ));
            }
            lstm.draw(note);
            table(note, &[&transformer, &lstm]);
            Ok(())
        },
        ..Analysis::FIGURE
    },
];

/// Names of the algorithms in claims.
const NAMES: [&str; 3] = ["newton", "gd", "ogd"];
/// The paper's columns, in that order.
const TRANSFORMER: [&str; 3] = ["0.991", "0.957", "0.806"];
const RECURRENT: [&str; 3] = ["0.920", "0.916", "0.954"];

/// One network's column of the table.
struct Cells {
    who: &'static str,
    /// The paper's column.
    quoted: [&'static str; 3],
    maps: Vec<Compared>,
}

impl Cells {
    fn new(lab: &Lab, setting: &Setting, quoted: [&'static str; 3]) -> Result<Cells> {
        let baselines = [setting.newton, setting.gd, ONLINE].into_iter();
        let maps = baselines.map(|baseline| setting.errors(lab, baseline)).collect::<Result<_>>()?;
        Ok(Cells { who: setting.who, quoted, maps })
    }

    fn last(&self, i: usize) -> Estimate {
        self.maps[i].last_similarity()
    }

    /// The paper's numbers have no definition to be held to; they are reported beside ours.
    fn claims(&self, note: &mut Notebook) {
        for (i, name) in NAMES.into_iter().enumerate() {
            let algorithm = self.maps[i].baseline.label;
            note.claim(&format!("{name}-last"), self.last(i), Bound::None)
                .asks(&[self.maps[i].network])
                .says(format!("{}: SimE of the last layer with {algorithm} at its best step", self.who))
                .quoted(self.quoted[i]);
        }
    }

    fn draw(&self, note: &mut Notebook) {
        let x = Axis::linear(format!("{} layers", self.who));
        let panel =
            LinesPanel::new(x, Axis::linear("SimE at the best step"), self.maps.iter().map(Compared::curve));
        let stated =
            self.maps.iter().zip(self.quoted).filter_map(|(map, text)| Some((map, text.parse().ok()?)));
        let panel = stated
            .fold(panel, |panel, (map, y)| panel.mark_y(format!("paper, {}: {y}", map.baseline.label), y));
        let caption = format!(
            "{}: the numbers behind the table, with 95 % bands over prompts. Straight lines: the paper's one number each.",
            self.who
        );
        note.figure("layers", "Similarity of errors at the best step, by layer", caption, [panel]);
    }
}

fn table(note: &mut Notebook, columns: &[&Cells]) {
    let heads = columns
        .iter()
        .flat_map(|cells| ["last", "mean", "largest"].map(|what| format!("{}, {what}", cells.who)));
    let row = |i: usize| {
        let cells = columns.iter().flat_map(|cells| {
            let map = &cells.maps[i];
            let values: Vec<f64> =
                (0..map.matching.best.len()).map(|layer| map.similarity_at(layer).value).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let largest = values.iter().copied().fold(f64::NAN, f64::max);
            let last = cells.last(i);
            let last = format!("{:.4} ({:.4} to {:.4})", last.value, last.low, last.high);
            [last, format!("{mean:.4}"), format!("{largest:.4}")]
        });
        std::iter::once(columns[0].maps[i].baseline.label.to_string()).chain(cells).collect()
    };
    note.table(
        "",
        "Similarity of errors, as one number",
        "SimE at the best step of each algorithm: at the last layer (with its 95 % interval), as the mean over layers, and at the most similar layer.",
        std::iter::once("algorithm".to_string()).chain(heads),
        (0..3).map(row),
    );
}
