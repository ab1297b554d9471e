//! F8: all values of the maps of errors, again for t > d alone, and where two algorithms cannot be told apart.

use crate::analyses::kit::prelude::*;
use crate::compare::matching::advantage;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F8",
    paper: Some(("Figure 8", "A.2.2")),
    order: 80,
    title: "At which layers can Newton and gradient descent be told apart?",
    summary: "The maps of F3 on positions t > d alone, where least squares is exact and only unconverged errors are compared; and, \
              layer by layer, how much more similar Newton is than gradient descent, resampling prompts in pairs. Where \
              the interval holds 0 the two cannot be told apart by similarity, only by the rate of their best matches. Layers that \
              still predict zero are left out of the count: no steps of GD is that prediction, no iterations of Newton is not.",
    needs: &["r1"],
    run,
    ..Analysis::FIGURE
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &ISOTROPIC;
    let views = [("all", "t ≥ 1", View::default()), ("late", "t > d", View { first: DIM + 1 })];
    let mut curves = Vec::new();
    for (key, words, view) in views {
        let of = |baseline| setting.compare(lab, baseline, Measure::Errors(view));
        let (newton, gd) = (of(setting.newton)?, of(setting.gd)?);
        let ahead = advantage(&newton.map, &gd.map, lab.seed);
        let layers = newton.matching.a.as_slice();
        let working = || layers.iter().zip(&ahead).filter(|(l, _)| **l >= newton.begun());
        let alike: Vec<String> =
            working().filter(|(_, e)| e.low <= 0.0 && 0.0 <= e.high).map(|(l, _)| l.to_string()).collect();
        let worse = working().filter(|(_, e)| e.high < 0.0).count();
        note.claim(&format!("newton-ahead-{key}"), worse, AtMost(0.0))
            .says(format!(
                "Layers from {} on at which GD is more similar than Newton beyond doubt ({words}); not told apart: {}",
                newton.begun(),
                alike.len()
            ))
            .quoted("more similar to Newton than GD")
            .figure("advantage")
            .why(newton.why_not_ahead_of(&gd));
        if key == "late" {
            note.claim("last-layer-late", newton.last_similarity(), Bound::None)
                .says("SimE of the last layer with its best Newton step (t > d)")
                .quoted("the paper looks at t ≥ 1 only")
                .figure(key);
            let trend = note.trend("newton-linear-late", &newton, Trend::Linear);
            trend.quoted("linear trend").figure(key);
            let trend = note.trend("gd-exponential-late", &gd, Trend::Exponential);
            trend.quoted("exponential trend").figure(key);
        }
        let both = [&newton, &gd];
        let where_alike =
            if alike.is_empty() { "no layer".into() } else { format!("layers {}", alike.join(", ")) };
        let remark = format!("Positions {words}. Newton and GD cannot be told apart at {where_alike}. ");
        note.maps(key, &format!("Similarity of errors, positions {words}"), setting, &both, &remark);
        note.best_matches(&format!("best-{key}"), &both);
        note.table(
            &format!("ahead-{key}"),
            format!("Newton or gradient descent, positions {words}"),
            "Difference of the best similarities, Newton minus GD, with its paired 95 % interval.",
            ["layer", "difference", "95 %", "more similar"],
            layers.iter().zip(&ahead).map(|(layer, e)| table_row(*layer, e)),
        );
        let points = layers.iter().map(|&l| l as f64).zip(ahead.iter().copied());
        curves.push(Series::estimates(words, points));
    }
    let caption = format!(
        "SimE of each layer with its best Newton step minus SimE with its best GD step; 95 % bands from resampling {} prompts in \
         pairs, best steps chosen anew each time. A band that holds 0: not to be told apart.",
        lab.count
    );
    let (x, y) = (Axis::linear("Transformer layers"), Axis::linear("SimE(Newton) − SimE(GD)"));
    let panel = LinesPanel::new(x, y, curves).mark_y("alike", 0.0);
    note.figure("advantage", "SimE with Newton minus SimE with gradient descent, by layer", caption, [panel]);
    Ok(())
}

fn table_row(layer: u64, ahead: &Estimate) -> Vec<String> {
    let Estimate { value, low, high } = ahead;
    let verdict = match () {
        () if *low > 0.0 => "Newton",
        () if *high < 0.0 => "GD",
        () => "cannot be told apart",
    };
    vec![layer.to_string(), format!("{value:+.4}"), format!("{low:+.4} to {high:+.4}"), verdict.into()]
}
