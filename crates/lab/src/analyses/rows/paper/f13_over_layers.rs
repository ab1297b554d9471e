//! F13: over the layers, similarity with each candidate at its best step.

use crate::analyses::kit::compared::{Compared, Measure};
use crate::analyses::kit::setting::{ISOTROPIC, ONLINE};
use crate::analyses::{Analysis, Lab, Outcome};
use crate::compare::matching::advantage;
use crate::compare::similarity::View;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F13",
    order: 130,
    cost: crate::analyses::Cost::Minutes,
    title: "Over the layers Newton resembles the Transformer most",
    summary: "Similarity of each layer with each candidate at its best step, by errors and by induced weights. A candidate counts as \
              ahead of Newton at a layer only if the paired 95 % interval of the difference excludes 0.",
    needs: &["r1"],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::FIGURE
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let setting = &ISOTROPIC;
    let baselines = [setting.newton, setting.gd, ONLINE, setting.exact];
    let (mut claims, mut panels) = (Vec::new(), Vec::new());
    for (key, measure) in [("errors", Measure::Errors(View::default())), ("weights", Measure::Weights)] {
        let maps = baselines
            .iter()
            .map(|baseline| Compared::new(lab, setting, *baseline, measure))
            .collect::<Result<Vec<_>>>()?;
        let (newton, others) = maps.split_first().expect("four of them");
        let layers = newton.matching.a.as_slice();
        let mut ahead = vec![false; layers.len()];
        let mut names = Vec::new();
        for other in others {
            for (i, e) in advantage(&newton.map, &other.map, lab.seed)
                .iter()
                .enumerate()
                .filter(|(i, e)| layers[*i] >= newton.begun() && e.high < 0.0)
            {
                ahead[i] = true;
                names.push(format!("{} at layer {} by {:.4}", other.baseline.label, layers[i], -e.value));
            }
        }
        let found = if names.is_empty() { "none".into() } else { names.join(", ") };
        claims.push(
            Claim::new(
                &format!("F13.newton-most-{key}"),
                Kind::Paper,
                format!(
                    "{}: layers from {} on at which a candidate other than Newton is more similar beyond doubt ({found})",
                    newton.map.label,
                    newton.begun()
                ),
                ahead.iter().filter(|a| **a).count() as f64,
                Bound::AtMost(0.0),
            )
            .quoted("resemble Newton the most")
            .figure("f13-layers")
            .why(newton.why_not_ahead_of(&others[0])),
        );
        let series = maps.iter().map(|c| {
            let best: Vec<_> = (0..layers.len()).map(|i| c.at_best(lab, i)).collect();
            let points = layers.iter().zip(&best).map(|(&l, e)| (l as f64, e.value)).collect();
            let band = best.iter().map(|e| (e.low, e.high)).collect();
            Series::new(c.baseline.label, points).band(band).stroke(Stroke::LineMarkers)
        });
        panels.push(Panel::Lines(LinesPanel {
            title: newton.map.label.into(),
            x: Axis::new("Transformer layers", Scale::Linear),
            y: Axis::new(format!("{} at the best step", newton.map.label), Scale::Linear),
            series: series.collect(),
            references: vec![],
        }));
    }
    let figure = Figure {
        id: "f13-layers".into(),
        title: "Similarity with each candidate at its best step".into(),
        caption: format!(
            "Left: similarity of errors ({} prompts). Right: similarity of induced weights. {}, 95 % bands. Newton and GD may stop at any \
             step; online GD and OLS have only one. All converging candidates meet at the floor.",
            lab.count, setting.words
        ),
        panels,
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}
