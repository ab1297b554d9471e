//! E1: the printed start of Newton's iteration sits on the boundary of divergence.

use crate::analyses::kit::prelude::*;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "E1",
    paper: Some(("Text", "3.1")),
    order: 10,
    seconds: 3.1,
    title: "Does Newton converge from the printed start?",
    summary: "The paper starts from M₀ = αS with α = 2/‖SSᵀ‖₂. The residual of the top eigen-direction is 1 − αλmax² \
              = −1, whose square is 1: it never shrinks, and about 1/d of the error stays for good. Any 0 < α < \
              2/λmax² converges; here α = 1/‖SSᵀ‖_F, and 1/‖SSᵀ‖₂ for comparison.",
    run,
    ..Analysis::ERRATUM
}];

const STARTS: [(&str, &str, Stroke); 3] = [
    ("printed: α = 2/‖SSᵀ‖₂", "newton:alpha=printed", Stroke::Dashed),
    ("right: α = 1/‖SSᵀ‖_F", "newton", Stroke::LineMarkers),
    ("right: α = 1/‖SSᵀ‖₂", "newton:alpha=spectral", Stroke::LineMarkers),
];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let prompts = lab.prompts("gaussian")?;
    let steps = Steps::range(0, 24);
    let mut series = Vec::new();
    let mut last = Vec::new();
    for (label, name, stroke) in STARTS {
        let newton = lab.trajectory(name, "gaussian", &steps)?;
        let error = |&k: &u64| (k as f64, mean_error(&newton, &prompts, k, LAST));
        series.push(Series::new(label, steps.as_slice().iter().map(error).collect()).stroke(stroke));
        last.push(lab.error(&newton, &prompts, 24, LAST));
    }
    note.claim("printed", last[0], Within(0.03, 0.08))
        .says("As printed (α = 2/‖SSᵀ‖₂), error/d at t=40 after 24 steps is stuck near 1/d")
        .quoted("M₀ = αS, where α = 2/‖SSᵀ‖₂");
    note.claim("right", last[1], AtMost(1e-20))
        .says("With α = 1/‖SSᵀ‖_F, error/d at t=40 after 24 steps is round-off")
        .ours("0 < α < 2/λmax² is needed");
    note.claim("right-spectral", last[2], AtMost(1e-20))
        .says("With α = 1/‖SSᵀ‖₂, the same")
        .ours("0 < α < 2/λmax² is needed");
    let caption = format!(
        "Mean squared error over d at t=40 along the iterations (isotropic, d=20, {} prompts). From the printed \
         start the top eigen-direction is never learnt.",
        prompts.count()
    );
    let y = Axis::log10("mean squared error / d").range(1e-32, 10.0);
    let panel = LinesPanel::new(Axis::linear("Newton iterations"), y, series);
    note.figure("newton-start", "Newton from three starts", caption, [panel]);
    Ok(())
}
