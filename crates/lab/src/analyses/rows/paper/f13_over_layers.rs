//! F13: over the layers, similarity with each candidate at its best step.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::ONLINE;
use crate::compare::matching::advantage;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F13",
    paper: Some(("Figure 13", "A.2.4")),
    order: 130,
    cost: Cost::Minutes,
    title: "Which algorithm resembles the Transformer most at each layer?",
    summary: "Similarity of each layer with each candidate at its best step, by errors and by induced weights. A candidate counts as \
              ahead of Newton at a layer only if the paired 95 % interval of the difference excludes 0.",
    needs: &["r1"],
    run,
    ..Analysis::FIGURE
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &ISOTROPIC;
    let baselines = [setting.newton, setting.gd, ONLINE, setting.exact];
    let mut panels = Vec::new();
    for (key, measure) in [("errors", Measure::Errors(View::default())), ("weights", Measure::Weights)] {
        let maps = baselines.iter().map(|baseline| setting.compare(lab, *baseline, measure));
        let maps = maps.collect::<Result<Vec<_>>>()?;
        let (newton, others) = maps.split_first().expect("four of them");
        let layers = newton.matching.a.as_slice();
        let mut ahead = vec![false; layers.len()];
        let mut names = Vec::new();
        for other in others {
            let by = advantage(&newton.map, &other.map, lab.seed);
            for (i, e) in by.iter().enumerate().filter(|(i, e)| layers[*i] >= newton.begun() && e.high < 0.0)
            {
                ahead[i] = true;
                names.push(format!("{} at layer {} by {:.4}", other.baseline.label, layers[i], -e.value));
            }
        }
        let found = if names.is_empty() { "none".into() } else { names.join(", ") };
        let (label, begun) = (newton.map.label, newton.begun());
        note.claim(&format!("newton-most-{key}"), ahead.iter().filter(|a| **a).count(), AtMost(0.0))
            .says(format!(
                "{label}: layers from {begun} on at which a candidate other than Newton is more similar beyond doubt ({found})"
            ))
            .quoted("resemble Newton the most")
            .why(newton.why_not_ahead_of(&others[0]));
        let y = Axis::linear(format!("{label} at the best step"));
        let curves = maps.iter().map(Compared::curve);
        panels.push(LinesPanel::new(Axis::linear("Transformer layers"), y, curves).titled(label));
    }
    let caption = format!(
        "Left: similarity of errors ({} prompts). Right: similarity of induced weights. {}, 95 % bands. Newton and GD may stop at any \
         step; online GD and OLS have only one. All converging candidates meet at the floor.",
        lab.count, setting.words
    );
    note.figure("layers", "Similarity with each candidate at its best step", caption, panels);
    Ok(())
}
