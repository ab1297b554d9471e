//! F10: against the logarithm of gradient descent's steps the best matches are a straight line.

use crate::analyses::kit::prelude::*;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F10",
    paper: Some(("Figure 10", "A.2.2")),
    order: 100,
    title: "Are the layers a straight line against log₂ of gradient descent's steps?",
    summary: "The map of F3 with steps that double: what is exponential there would be straight here.",
    needs: &["r1"],
    run,
    ..Analysis::FIGURE
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let gd = ISOTROPIC.errors(lab, Baseline { steps: "pow2:0..=14", ..ISOTROPIC.gd })?;
    let points: Vec<(f64, f64)> =
        gd.fit.iter().flat_map(|f| &f.points).map(|(layer, step)| (*layer, step.log2())).collect();
    let what = "Share of the variation of log₂ of the best GD steps that a line over";
    note.claim("straight", explained(&points), AtLeast(0.9))
        .says(format!("{what} {} explains", gd.layers()))
        .quoted("a linear correspondence in log scale");
    note.slope("doublings", &gd, Trend::Exponential, AtLeast(0.5))
        .quoted("exponentially faster than GD")
        .figure("best");
    let title = "Similarity of errors with gradient descent, steps doubling";
    note.maps("map", title, &ISOTROPIC, &[&gd], "");
    note.best(&ISOTROPIC, &[&gd]);
    Ok(())
}

/// R² of a straight line.
fn explained(points: &[(f64, f64)]) -> f64 {
    let mean = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
    let total: f64 = points.iter().map(|p| (p.1 - mean).powi(2)).sum();
    1.0 - line(points).2 / total
}
