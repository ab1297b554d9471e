//! F27: the Transformer's induced weights stay close to the span of the inputs read.

use crate::analyses::kit::prelude::*;
use crate::compare::forgetting::outside_span;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F27",
    paper: Some(("Figure 27", "B.4")),
    order: 270,
    cost: Cost::Minutes,
    title: "Do the Transformer's weights stay close to the span of its inputs?",
    summary: "Any sum of moments has weights in span{x₁…x_t} (TH6). The share of w̃_t outside that span, for t < d, beside the share that a \
              random direction would have, √(1 − t/d). Close is taken as at most a quarter of it, on average.",
    needs: &["r1"],
    run,
    ..Analysis::FIGURE
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &ISOTROPIC;
    let layers = lab.layers(setting.network)?;
    let questions = lab.questions(&setting.data, setting.weight_prompts)?;
    let weights = lab.weights(setting.network, &setting.data, setting.weight_prompts, &layers)?;
    let chance = |t: usize| (1.0 - t as f64 / DIM as f64).sqrt();
    let shares = |layer: usize| outside_span(&weights, &questions, layer);
    let last = shares(layers.len() - 1);
    let under: Vec<f64> = (0..last[0].len())
        .map(|b| (1..DIM).map(|t| last[t - 1][b] / chance(t)).sum::<f64>() / (DIM - 1) as f64)
        .collect();
    note.claim("in-span", mean(lab.seed, &under), AtMost(0.25))
        .says("Last layer: share of w̃_t outside the span over that of a random direction, mean over t = 1…19")
        .quoted("Transformers' induced weights still lie close to the span of the observed examples");
    let every = layers.len().div_ceil(6);
    let mut chosen: Vec<usize> = (0..layers.len()).rev().step_by(every).collect();
    chosen.reverse();
    let mut curves: Vec<Series> = chosen
        .iter()
        .map(|&s| {
            let found = shares(s);
            let shares = (1..DIM).map(|t| (t as f64, mean(lab.seed, &found[t - 1])));
            Series::estimates(format!("layer {}", layers.as_slice()[s]), shares)
                .grade(s as f64 / (layers.len() - 1).max(1) as f64)
        })
        .collect();
    let random = (1..DIM).map(|t| (t as f64, chance(t))).collect();
    curves.push(Series::new("random direction", random).dashed());
    let caption = format!(
        "Relative residual of w̃_t after projection on span{{x₁…x_t}} ({}, mean over {} prompts with 95 % bands, T=200 queries). Early layers have hardly \
         any weights, and those are noise.",
        setting.words,
        last[0].len()
    );
    let y = Axis::linear("share outside the span").range(0.0, 1.05);
    let panel = LinesPanel::new(Axis::linear("in-context pairs t"), y, curves);
    note.figure("span", "Share of the induced weights outside the span", caption, [panel]);
    Ok(())
}
