//! E5: gradient descent with a fixed step converges linearly (geometrically), not sublinearly.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::problems::spectrum_of;
use crate::stats::median_of;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "E5",
    paper: Some(("Figure 2", "4.2")),
    order: 50,
    title: "Is gradient descent with a fixed step sublinear?",
    summary: "The paper calls the rate of fixed-step gradient descent sublinear. On a quadratic each \
              eigen-direction's error shrinks by the constant factor |1 − ηλ| per step: linear (geometric) \
              convergence, with the rate set by the smallest eigenvalue. Measured here against that prediction, \
              prompt by prompt, and against the best power law.",
    run,
    ..Analysis::ERRATUM
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let prompts = lab.prompts("gaussian")?;
    let steps = Steps::parse("25..=600/25")?;
    let gd = lab.trajectory("gd", "gaussian", &steps)?;
    let rate = |b: usize| {
        let smallest = *spectrum_of(&prompts, b).values.last().expect("d values");
        2.0 * (1.0 - 0.01 * smallest).abs().ln()
    };
    // Change of the log squared error per step between 400 and 600 steps, over the prediction.
    let (early, late) = (gd.squared_errors(&prompts, 400, LAST), gd.squared_errors(&prompts, 600, LAST));
    let ratios: Vec<f64> = (0..prompts.count())
        .filter(|&b| late[b] > 1e-24) // below, round-off has taken over
        .map(|b| (late[b] / early[b]).ln() / 200.0 / rate(b))
        .collect();
    let ratio = bootstrap(lab.seed, ratios.len(), |chosen| median_of(&ratios, chosen));
    let median = |&k: &u64| (k as f64, median_error(&gd, &prompts, k, LAST));
    let medians: Vec<(f64, f64)> = steps.as_slice().iter().map(median).collect();
    // A geometric rate is a line in (k, log e), a power law (sublinear) a line in (log k, log e).
    let logs =
        |f: fn(f64) -> f64| -> Vec<(f64, f64)> { medians.iter().map(|(k, e)| (f(*k), e.ln())).collect() };
    let (a, b, _) = line(&logs(|k| k));
    let (c, p, _) = line(&logs(f64::ln));
    let errors: Vec<(f64, Vec<f64>)> =
        steps.as_slice().iter().map(|&k| (k as f64, gd.squared_errors(&prompts, k, LAST))).collect();
    let power_over_geometric = bootstrap(lab.seed, prompts.count(), |chosen| {
        let logs: Vec<(f64, f64)> = errors.iter().map(|(k, e)| (*k, median_of(e, chosen).ln())).collect();
        let power: Vec<(f64, f64)> = logs.iter().map(|(k, e)| (k.ln(), *e)).collect();
        line(&power).2 / line(&logs).2
    });
    note.claim("rate", ratio, Within(0.95, 1.05))
        .says(
            "Median over prompts of GD's measured log-rate at t=40 over the geometric prediction 2 ln|1 − ηλmin|",
        )
        .quoted("GD converges at a sublinear rate");
    note.claim("power-law", power_over_geometric, AtLeast(3.0))
        .says("Residual of the best power law over that of the best geometric fit (log scale)")
        .quoted("GD converges at a sublinear rate");
    let fitted = |label: &str, f: &dyn Fn(f64) -> f64| {
        Series::new(label, medians.iter().map(|(k, _)| (*k, f(*k))).collect())
    };
    let series = [
        Series::new("measured", medians.clone()).stroke(Stroke::Markers),
        fitted("geometric fit", &|k| (a + b * k).exp()),
        fitted("power-law fit (sublinear)", &|k| (c + p * k.ln()).exp()).dashed(),
    ];
    let caption = format!(
        "Median squared error over d at t=40 (isotropic, {} prompts, η = 0.01), with the best geometric and the best \
         power-law fit. Straight on this scale means a constant factor per step.",
        prompts.count()
    );
    let panel = LinesPanel::new(Axis::linear("GD steps"), Axis::log10("median squared error / d"), series);
    note.figure(
        "gd-rate",
        "Error of gradient descent with a geometric and a power-law fit",
        caption,
        [panel],
    );
    Ok(())
}
