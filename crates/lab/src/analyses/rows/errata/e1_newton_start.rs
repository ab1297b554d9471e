//! E1: the printed start of Newton's iteration sits on the boundary of divergence.

use crate::analyses::{Analysis, LAST, Lab, Outcome};
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};
use crate::learners::steps::Steps;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "E1",
    order: 10,
    title: "Newton's printed start loses the top eigen-direction",
    summary: "The paper starts from M₀ = αS with α = 2/‖SSᵀ‖₂. The residual of the top eigen-direction is 1 − αλmax² = −1, \
              whose square is 1: it never shrinks, and about 1/d of the error stays for good. Any 0 < α < 2/λmax² \
              converges; here α = 1/‖SSᵀ‖_F, and 1/‖SSᵀ‖₂ for comparison.",
    needs: &[],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::ERRATUM
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let prompts = lab.prompts("gaussian")?;
    let steps = Steps::range(0, 24);
    let variants = [
        ("printed: α = 2/‖SSᵀ‖₂", "newton:alpha=printed", Stroke::Dashed),
        ("right: α = 1/‖SSᵀ‖_F", "newton", Stroke::LineMarkers),
        ("right: α = 1/‖SSᵀ‖₂", "newton:alpha=spectral", Stroke::LineMarkers),
    ];
    let mut series = Vec::new();
    let mut last = Vec::new();
    for (label, name, stroke) in variants {
        let trajectory = lab.trajectory(name, "gaussian", &steps)?;
        let points = steps.as_slice().iter().map(|&k| {
            let errors = trajectory.squared_errors(&prompts, k, LAST);
            (k as f64, errors.iter().sum::<f64>() / errors.len() as f64 / prompts.dim() as f64)
        });
        series.push(Series::new(label, points.collect()).stroke(stroke));
        last.push(lab.error(&trajectory, &prompts, 24, LAST));
    }
    let claims = vec![
        Claim::of(
            "E1.printed",
            Kind::Erratum,
            "As printed (α = 2/‖SSᵀ‖₂), error/d at t=40 after 24 steps is stuck near 1/d",
            last[0],
            Bound::Within(0.03, 0.08),
        )
        .quoted("α = 2/‖SSᵀ‖₂; reference 5.8×10⁻²")
        .figure("e1-newton-start"),
        Claim::of(
            "E1.right",
            Kind::Erratum,
            "With α = 1/‖SSᵀ‖_F, error/d at t=40 after 24 steps is round-off",
            last[1],
            Bound::AtMost(1e-20),
        )
        .quoted("0 < α < 2/λmax² is needed")
        .figure("e1-newton-start"),
        Claim::of(
            "E1.right-spectral",
            Kind::Erratum,
            "With α = 1/‖SSᵀ‖₂, the same",
            last[2],
            Bound::AtMost(1e-20),
        )
        .quoted("0 < α < 2/λmax² is needed")
        .figure("e1-newton-start"),
    ];
    let figure = Figure {
        id: "e1-newton-start".into(),
        title: "Newton from three starts".into(),
        caption: format!(
            "Mean squared error over d at t=40 along the iterations (isotropic, d=20, {} prompts). From the printed \
             start the top eigen-direction is never learnt.",
            prompts.count()
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("Newton iterations", Scale::Linear),
            y: Axis::new("mean squared error / d", Scale::Log10).range(1e-32, 10.0),
            series,
            references: vec![],
        })],
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}
