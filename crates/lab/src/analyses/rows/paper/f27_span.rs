//! F27: the Transformer's induced weights stay close to the span of the inputs read.

use crate::analyses::kit::setting::ISOTROPIC;
use crate::analyses::{Analysis, DIM, Lab, Outcome};
use crate::compare::forgetting::outside_span;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};
use crate::stats::mean;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F27",
    order: 270,
    cost: crate::analyses::Cost::Minutes,
    title: "The Transformer's weights stay close to the span of its inputs",
    summary: "Any sum of moments has weights in span{x₁…x_t} (TH6). The share of w̃_t outside that span, for t < d, beside the share that a \
              random direction would have, √(1 − t/d). Close is taken as at most a quarter of it, on average.",
    needs: &["r1"],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::FIGURE
}];

fn run(lab: &Lab) -> Result<Outcome> {
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
    let claim = Claim::of(
        "F27.in-span",
        Kind::Paper,
        "Last layer: share of w̃_t outside the span over that of a random direction, mean over t = 1…19",
        mean(lab.seed, &under),
        Bound::AtMost(0.25),
    )
    .quoted("close to the span even when t < d")
    .figure("f27-span");
    let every = layers.len().div_ceil(6);
    let mut chosen: Vec<usize> = (0..layers.len()).rev().step_by(every).collect();
    chosen.reverse();
    let mut series: Vec<Series> = chosen
        .iter()
        .map(|&s| {
            let found = shares(s);
            let points = (1..DIM)
                .map(|t| (t as f64, found[t - 1].iter().sum::<f64>() / found[t - 1].len() as f64))
                .collect();
            Series::new(format!("layer {}", layers.as_slice()[s]), points)
                .grade(s as f64 / (layers.len() - 1).max(1) as f64)
        })
        .collect();
    series.push(
        Series::new("random direction", (1..DIM).map(|t| (t as f64, chance(t))).collect())
            .stroke(Stroke::Dashed),
    );
    let figure = Figure {
        id: "f27-span".into(),
        title: "Share of the induced weights outside the span".into(),
        caption: format!(
            "Relative residual of w̃_t after projection on span{{x₁…x_t}} ({}, mean over {} prompts, T=200 queries). Early layers have hardly \
             any weights, and those are noise.",
            setting.words,
            last[0].len()
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("in-context pairs t", Scale::Linear),
            y: Axis::new("share outside the span", Scale::Linear).range(0.0, 1.05),
            series,
            references: vec![],
        })],
    };
    Ok(Outcome { claims: vec![claim], figures: vec![figure], tables: vec![] })
}
