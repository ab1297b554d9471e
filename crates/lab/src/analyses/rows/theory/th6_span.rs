//! TH6: every sum of moments keeps its weights in the span of the inputs read.

use crate::analyses::{Analysis, DIM, Lab, Outcome, POINTS, solver};
use crate::compare::forgetting::outside_span;
use crate::compare::similarity::induced_weights;
use crate::data::prompts::Task;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};
use crate::learners::steps::Steps;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "TH6",
    order: 60,
    title: "Sums of moments stay in the span of the inputs",
    summary: "Weights of the form Σ β_s S^s Xᵀy lie in span{x₁…x_t}. Induced weights of several algorithms are projected on \
              that span for t < d; what is left is round-off, for any β. Two learners that are not sums of moments show \
              that the measure can fail: online GD from a random start, and nearest neighbours.",
    needs: &[],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::THEORY
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let count = lab.count.min(64);
    let lengths: Vec<usize> = (1..DIM).collect();
    let questions = Task::new("linear", "gaussian", DIM, POINTS)?.questions(
        lab.seed,
        "eval",
        0,
        count,
        lengths.clone(),
        10 * DIM,
    );
    let curve = |name: &str, step: u64| -> Result<Vec<f64>> {
        let weights = induced_weights(&*solver(name)?, &questions, &Steps::single(step))?;
        let residuals = outside_span(&weights, &questions, 0);
        Ok(residuals.iter().map(|r| r.iter().sum::<f64>() / count as f64).collect())
    };
    let inside = [
        ("Newton, 12 steps", "newton", 12),
        ("GD, 64 steps", "gd", 64),
        ("CG, 5 steps", "cg", 5),
        ("BFGS, 5 steps", "bfgs", 5),
        ("OLS", "ols", 1),
        ("online GD", "ogd", 1),
    ];
    let outside = [("online GD from a random start", "ogd:start=1", 1), ("3 nearest neighbours", "knn", 1)];
    let mut series = Vec::new();
    let mut claims = Vec::new();
    for (group, stroke) in [(&inside[..], Stroke::LineMarkers), (&outside[..], Stroke::Dashed)] {
        for &(label, name, step) in group {
            let residuals = curve(name, step)?;
            let worst = residuals.iter().copied().fold(0.0, f64::max);
            let least = residuals.iter().copied().fold(f64::INFINITY, f64::min);
            let points = lengths.iter().zip(&residuals).map(|(&t, r)| (t as f64, r.max(1e-17))).collect();
            series.push(Series::new(label, points).stroke(stroke));
            let id = format!("TH6.{}", name.replace(":start=1", "-random"));
            claims.push(if stroke == Stroke::Dashed {
                Claim::new(
                    &id,
                    Kind::Reference,
                    format!("{label}: smallest share of the weights outside the span, t < d"),
                    least,
                    Bound::AtLeast(0.01),
                )
                .quoted("not a sum of moments")
                .figure("th6-span")
            } else {
                Claim::new(
                    &id,
                    Kind::Paper,
                    format!("{label}: largest share of the weights outside the span, t < d"),
                    worst,
                    Bound::AtMost(1e-8),
                )
                .quoted("in the span")
                .figure("th6-span")
            });
        }
    }
    let figure = Figure {
        id: "th6-span".into(),
        title: "Share of the induced weights outside the span".into(),
        caption: format!(
            "Relative residual of w̃_t after projection on span{{x₁…x_t}}, mean over {count} prompts, T={} queries. Solid: \
             methods whose weights are sums of moments (or of inputs). Dashed: learners that are not.",
            10 * DIM
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("in-context pairs t", Scale::Linear),
            y: Axis::new("share outside the span", Scale::Log10).range(1e-17, 10.0),
            series,
            references: vec![],
        })],
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}
