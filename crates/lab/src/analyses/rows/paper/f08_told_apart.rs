//! F8: all values of the maps of errors, again for t > d alone, and where two algorithms cannot be told apart.

use crate::analyses::kit::compared::{Compared, Measure};
use crate::analyses::kit::maps::{best_table, maps_figure};
use crate::analyses::kit::setting::ISOTROPIC;
use crate::analyses::{Analysis, DIM, Lab, Outcome};
use crate::compare::matching::advantage;
use crate::compare::rates::Trend;
use crate::compare::similarity::View;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke, Table};
use crate::stats::Estimate;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F8",
    order: 80,
    title: "Which algorithm it is cannot be said at every layer",
    summary: "The maps of F3 on positions t > d alone, where least squares is exact and only unconverged errors are compared; and, \
              layer by layer, how much more similar Newton is than gradient descent, resampling prompts in pairs. Where \
              the interval holds 0 the two cannot be told apart by similarity, only by the rate of their best matches. Layers that \
              still predict zero are left out of the count: no steps of GD is that prediction, no iterations of Newton is not.",
    needs: &["r1"],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::FIGURE
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let setting = &ISOTROPIC;
    let views = [("all", "t ≥ 1", View::default()), ("late", "t > d", View { first: DIM + 1 })];
    let (mut claims, mut figures, mut tables, mut curves) = (vec![], vec![], vec![], vec![]);
    for (key, words, view) in views {
        let newton = Compared::new(lab, setting, setting.newton, Measure::Errors(view))?;
        let gd = Compared::new(lab, setting, setting.gd, Measure::Errors(view))?;
        let ahead = advantage(&newton.map, &gd.map, lab.seed);
        let layers = newton.matching.a.as_slice();
        let working = || layers.iter().zip(&ahead).filter(|(l, _)| **l >= newton.begun());
        let alike: Vec<String> =
            working().filter(|(_, e)| e.low <= 0.0 && 0.0 <= e.high).map(|(l, _)| l.to_string()).collect();
        let worse = working().filter(|(_, e)| e.high < 0.0).count();
        let note = format!(
            "Positions {words}. Newton and GD cannot be told apart at {}. ",
            if alike.is_empty() { "no layer".into() } else { format!("layers {}", alike.join(", ")) }
        );
        let figure = format!("f8-{key}");
        claims.push(
            Claim::new(
                &format!("F8.newton-ahead-{key}"),
                Kind::Paper,
                format!(
                    "Layers from {} on at which GD is more similar than Newton beyond doubt ({words}); not told \
                     apart: {}",
                    newton.begun(),
                    alike.len()
                ),
                worse as f64,
                Bound::AtMost(0.0),
            )
            .quoted("more similar to Newton than GD")
            .figure("f8-advantage")
            .why(newton.why_not_ahead_of(&gd)),
        );
        if key == "late" {
            let what = "SimE of the last layer with its best Newton step (t > d)";
            let last = Claim::of("F8.last-layer-late", Kind::Paper, what, newton.last(lab), Bound::None);
            claims.push(last.quoted("the paper looks at t ≥ 1 only").figure(&figure));
            claims.push(newton.trend_claim("F8.newton-linear-late", Trend::Linear, "linear trend", &figure));
            claims.push(gd.trend_claim(
                "F8.gd-exponential-late",
                Trend::Exponential,
                "exponential trend",
                &figure,
            ));
        }
        figures.push(maps_figure(
            lab,
            &figure,
            &format!("Similarity of errors, positions {words}"),
            setting,
            &[&newton, &gd],
            &note,
        ));
        tables.push(best_table(lab, &format!("f8-best-{key}"), &[&newton, &gd]));
        tables.push(ahead_table(key, words, layers, &ahead));
        curves.push(Series {
            band: ahead.iter().map(|e| (e.low, e.high)).collect(),
            stroke: Stroke::LineMarkers,
            ..Series::new(words, layers.iter().zip(&ahead).map(|(&l, e)| (l as f64, e.value)).collect())
        });
    }
    figures.push(Figure {
        id: "f8-advantage".into(),
        title: "How much more similar Newton is than gradient descent".into(),
        caption: format!(
            "SimE of each layer with its best Newton step minus SimE with its best GD step; 95 % bands from resampling {} prompts in \
             pairs, best steps chosen anew each time. A band that holds 0: not to be told apart.",
            lab.count
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("Transformer layers", Scale::Linear),
            y: Axis::new("SimE(Newton) − SimE(GD)", Scale::Linear),
            series: curves,
            references: vec![crate::findings::figure::Reference { label: "alike".into(), at: crate::findings::figure::At::Y(0.0) }],
        })],
    });
    Ok(Outcome { claims, figures, tables })
}

fn ahead_table(key: &str, words: &str, layers: &[u64], ahead: &[Estimate]) -> Table {
    let rows = layers.iter().zip(ahead).map(|(layer, e)| {
        let verdict = match e {
            e if e.low > 0.0 => "Newton",
            e if e.high < 0.0 => "GD",
            _ => "cannot be told apart",
        };
        vec![
            layer.to_string(),
            format!("{:+.4}", e.value),
            format!("{:+.4} to {:+.4}", e.low, e.high),
            verdict.into(),
        ]
    });
    Table {
        id: format!("f8-ahead-{key}"),
        title: format!("Newton or gradient descent, positions {words}"),
        caption: "Difference of the best similarities, Newton minus GD, with its paired 95 % interval."
            .into(),
        columns: ["layer", "difference", "95 %", "more similar"].map(String::from).to_vec(),
        rows: rows.collect(),
    }
}
