//! E5: gradient descent with a fixed step converges linearly (geometrically), not sublinearly.

use crate::analyses::{Analysis, DIM, LAST, Lab, Outcome};
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};
use crate::learners::steps::Steps;
use crate::linalg::{Spectrum, gram};
use crate::stats::{bootstrap, median_of};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "E5",
    order: 50,
    title: "Gradient descent is geometric, not sublinear",
    summary: "The paper calls the rate of fixed-step gradient descent sublinear. On a quadratic each eigen-direction's error \
              shrinks by the constant factor |1 − ηλ| per step: linear (geometric) convergence, with the rate set by the \
              smallest eigenvalue. Measured here against that prediction, prompt by prompt, and against the best power law.",
    needs: &[],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::ERRATUM
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let prompts = lab.prompts("gaussian")?;
    let steps = Steps::parse("25..=600/25")?;
    let gd = lab.trajectory("gd", "gaussian", &steps)?;
    let rate = |b: usize| {
        let spectrum = Spectrum::of(&gram(&prompts.prompt(b).0[..LAST * DIM], DIM), DIM);
        let smallest = *spectrum.values.last().expect("d values");
        2.0 * (1.0 - 0.01 * smallest).abs().ln()
    };
    // Change of the log squared error per step between 400 and 600 steps, over the prediction.
    let (early, late) = (gd.squared_errors(&prompts, 400, LAST), gd.squared_errors(&prompts, 600, LAST));
    let ratios: Vec<f64> = (0..prompts.count())
        .filter(|&b| late[b] > 1e-24) // below, round-off has taken over
        .map(|b| (late[b] / early[b]).ln() / 200.0 / rate(b))
        .collect();
    let ratio = bootstrap(lab.seed, ratios.len(), |chosen| median_of(&ratios, chosen));
    let medians: Vec<(f64, f64)> = steps
        .as_slice()
        .iter()
        .map(|&k| {
            let errors = gd.squared_errors(&prompts, k, LAST);
            let all: Vec<usize> = (0..errors.len()).collect();
            (k as f64, median_of(&errors, &all) / DIM as f64)
        })
        .collect();
    // A geometric rate is a line in (k, log e), a power law (sublinear) a line in (log k, log e).
    let logs =
        |f: fn(f64) -> f64| -> Vec<(f64, f64)> { medians.iter().map(|(k, e)| (f(*k), e.ln())).collect() };
    let (a, b, geometric) = crate::stats::line(&logs(|k| k));
    let (c, p, power) = crate::stats::line(&logs(f64::ln));
    let claims = vec![
        Claim::of("E5.rate", Kind::Erratum, "Median over prompts of GD's measured log-rate at t=40 over the geometric prediction 2 ln|1 − ηλmin|", ratio, Bound::Within(0.95, 1.05))
            .quoted("sublinear")
            .figure("e5-gd-rate"),
        Claim::new("E5.power-law", Kind::Erratum, "Residual of the best power law over that of the best geometric fit (log scale)", power / geometric, Bound::AtLeast(3.0))
            .quoted("sublinear")
            .figure("e5-gd-rate"),
    ];
    let fitted = |f: &dyn Fn(f64) -> f64| medians.iter().map(|(k, _)| (*k, f(*k))).collect::<Vec<_>>();
    let figure = Figure {
        id: "e5-gd-rate".into(),
        title: "Gradient descent falls on a straight line".into(),
        caption: format!(
            "Median squared error over d at t=40 (isotropic, {} prompts, η = 0.01), with the best geometric and the best \
             power-law fit. Straight on this scale means a constant factor per step.",
            prompts.count()
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("GD steps", Scale::Linear),
            y: Axis::new("median squared error / d", Scale::Log10),
            series: vec![
                Series::new("measured", medians.clone()).stroke(Stroke::Markers),
                Series::new("geometric fit", fitted(&|k| (a + b * k).exp())),
                Series::new("power-law fit (sublinear)", fitted(&|k| (c + p * k.ln()).exp()))
                    .stroke(Stroke::Dashed),
            ],
            references: vec![],
        })],
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}
