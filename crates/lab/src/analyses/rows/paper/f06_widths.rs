//! F6: how wide a Transformer must be.

use crate::analyses::kit::setting::ISOTROPIC;
use crate::analyses::{Analysis, DIM, LAST, Lab, Outcome, POINTS};
use crate::compare::similarity::{Metric, View, of_errors};
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{At, Axis, Figure, LinesPanel, Panel, Reference, Scale, Series};
use crate::learners::steps::Steps;
use crate::stats::mean;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F6",
    order: 60,
    title: "A Transformer must be as wide as the problem is large",
    summary: "Transformers of 12 layers with one head, 8, 16, 32 and 64 wide, on d = 20. To act as least squares is taken as a SimE with it \
              of at least 0.9; Newton reaches that after 12 steps.",
    needs: &["r6-8", "r6-16", "r6-32", "r6-64"],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::FIGURE
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let data = &ISOTROPIC.data;
    let prompts = lab.sample(data)?;
    let ols = lab.path("ols", data, &Steps::single(1))?;
    let mut claims = Vec::new();
    let mut series = Vec::new();
    let curve = |path: &crate::Trajectory, step: u64| -> Vec<(f64, f64)> {
        (0..POINTS)
            .map(|t| {
                (
                    t as f64,
                    (path.squared_errors(&prompts, step, t).iter().sum::<f64>()
                        / (prompts.count() * DIM) as f64)
                        .max(1e-5),
                )
            })
            .collect()
    };
    for (width, name) in [(8, "r6-8"), (16, "r6-16"), (32, "r6-32"), (64, "r6-64")] {
        let layers = lab.layers(name)?;
        let path = lab.path(name, data, &layers)?;
        let map = of_errors(&path, &ols, &prompts, View::default(), Metric::Cosine)?;
        let alike = mean(lab.seed, &map.per_prompt.slice(ndarray::s![layers.len() - 1, 0, ..]).to_vec());
        let (bound, quoted) = if width < 20 {
            (Bound::AtMost(0.9), "smaller sizes fail")
        } else {
            (Bound::AtLeast(0.9), "32 and 64 mimic OLS")
        };
        claims.push(
            Claim::of(
                &format!("F6.width-{width}"),
                Kind::Paper,
                format!("{width} wide: SimE of the last layer with OLS"),
                alike,
                bound,
            )
            .quoted(quoted)
            .figure("f6-widths"),
        );
        series.push(Series::new(format!("{width} wide"), curve(&path, layers.last())));
    }
    series.push(Series::new("OLS", curve(&ols, 1)));
    let figure = Figure {
        id: "f6-widths".into(),
        title: "Error by pairs read, by the width of the network".into(),
        caption: format!(
            "Mean squared error over d after t pairs, up to t = {LAST} ({}, {} prompts; values below 10⁻⁵ are drawn there).",
            ISOTROPIC.words,
            prompts.count()
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("in-context pairs t", Scale::Linear),
            y: Axis::new("mean squared error / d", Scale::Log10).range(1e-5, 5.0),
            series,
            references: vec![Reference { label: "t = d".into(), at: At::X(DIM as f64) }],
        })],
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}
