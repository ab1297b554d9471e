//! F10: against the logarithm of gradient descent's steps the best matches are a straight line.

use crate::analyses::kit::compared::{Compared, Measure};
use crate::analyses::kit::maps::{best_figure, maps_figure};
use crate::analyses::kit::setting::{Baseline, ISOTROPIC};
use crate::analyses::{Analysis, Lab, Outcome};
use crate::compare::rates::Trend;
use crate::compare::similarity::View;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::Scale;
use crate::stats::line;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F10",
    order: 100,
    title: "Against log₂ of gradient descent's steps the layers are a straight line",
    summary: "The map of F3 with steps that double: what is exponential there is straight here.",
    needs: &["r1"],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::FIGURE
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let baseline = Baseline { steps: "pow2:0..=14", ..ISOTROPIC.gd };
    let gd = Compared::new(lab, &ISOTROPIC, baseline, Measure::Errors(View::default()))?;
    let points: Vec<(f64, f64)> =
        gd.fit.iter().flat_map(|f| &f.points).map(|(layer, step)| (*layer, step.log2())).collect();
    let claims = vec![
        Claim::new(
            "F10.straight",
            Kind::Paper,
            format!(
                "Share of the variation of log₂ of the best GD steps that a line over {} explains",
                gd.range()
            ),
            explained(&points),
            Bound::AtLeast(0.9),
        )
        .quoted("a linear correspondence in log scale")
        .figure("f10-map"),
        gd.slope_claim(
            "F10.doublings",
            Trend::Exponential,
            Bound::AtLeast(0.5),
            "exponentially faster than GD",
            "f10-best",
        ),
    ];
    let figures = vec![
        maps_figure(
            lab,
            "f10-map",
            "Similarity of errors with gradient descent, steps doubling",
            &ISOTROPIC,
            &[&gd],
            "",
        ),
        best_figure("f10-best", &ISOTROPIC, &[(&gd, Scale::Log2)]),
    ];
    Ok(Outcome { claims, figures, tables: vec![] })
}

/// R² of a straight line.
fn explained(points: &[(f64, f64)]) -> f64 {
    let mean = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
    let total: f64 = points.iter().map(|p| (p.1 - mean).powi(2)).sum();
    1.0 - line(points).2 / total
}
