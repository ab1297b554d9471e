//! Q2: online gradient descent makes no error on the newest pair.

use crate::analyses::{Analysis, Lab, Outcome, solver};
use crate::compare::forgetting::forgetting;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "Q2",
    order: 20,
    title: "Online gradient descent is exact on the newest pair",
    summary: "With η_k = 1/‖x_k‖² the update makes the error on the pair just read zero. Asked again at once, for every number \
              of pairs read, the answer is the label to round-off.",
    needs: &[],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::STATEMENT
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let prompts = lab.prompts("gaussian")?;
    let lengths: Vec<usize> = (1..=40).collect();
    let ogd = solver("ogd")?;
    let scale = prompts.label_power();
    let mut newest = Vec::new();
    let mut before = Vec::new();
    for &n in &lengths {
        let errors = forgetting(&*ogd, &prompts, n, 1)?;
        let mean =
            |gap: usize| errors.get(gap).map_or(f64::NAN, |e| e.iter().sum::<f64>() / e.len() as f64 / scale);
        newest.push((n as f64, mean(0)));
        before.push((n as f64, mean(1)));
    }
    let worst = newest.iter().map(|p| p.1).fold(0.0, f64::max);
    let claim = Claim::new(
        "Q2.exact",
        Kind::Paper,
        "Largest mean squared error on the newest pair, relative to the labels, after 1…40 pairs",
        worst,
        Bound::AtMost(1e-20),
    )
    .quoted("zero error on the newest pair")
    .figure("q2-newest");
    let floor = |points: Vec<(f64, f64)>| points.into_iter().map(|(x, y)| (x, y.max(1e-36))).collect();
    let figure = Figure {
        id: "q2-newest".into(),
        title: "Online GD on the newest pair and on the one before".into(),
        caption: format!(
            "Mean squared error relative to the labels when the pair is asked again ({} prompts).",
            prompts.count()
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("pairs read", Scale::Linear),
            y: Axis::new("relative squared error", Scale::Log10).range(1e-36, 1.0),
            series: vec![
                Series::new("newest pair", floor(newest)).stroke(Stroke::LineMarkers),
                Series::new("the pair before it", before).stroke(Stroke::LineMarkers),
            ],
            references: vec![],
        })],
    };
    Ok(Outcome { claims: vec![claim], figures: vec![figure], tables: vec![] })
}
