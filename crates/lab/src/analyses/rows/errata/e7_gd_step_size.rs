//! E7: the step size of the authors' code diverges on ill-conditioned data.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::problems::spectrum_of;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "E7",
    order: 70,
    title: "Does gradient descent with η = 0.01 converge on ill-conditioned data?",
    summary: "Gradient descent converges when η < 2/λmax(S). With κ = 100 and 40 pairs λmax varies from prompt to \
              prompt, and one prompt beyond the limit ruins every mean. Counted are the prompts on which the step of the \
              authors' code, 0.01, is beyond it. Limits are computed from the spectrum of S of every prompt, trace-normalised and \
              raw.",
    run,
    ..Analysis::ERRATUM
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let trace = lab.prompts("skewed")?;
    let limits = |prompts: &Prompts| -> Vec<f64> {
        let mut limits: Vec<f64> =
            (0..prompts.count()).map(|b| 2.0 / spectrum_of(prompts, b).values.largest()).collect();
        limits.sort_by(f64::total_cmp);
        limits
    };
    let (trace_limits, raw_limits) = (limits(&trace), limits(&*lab.prompts("skewed:scale=raw")?));
    let beyond: Vec<f64> = trace_limits.iter().map(|l| f64::from(u8::from(*l < 0.01))).collect();
    let diverged = |name: &str| -> Result<f64> {
        let gd = lab.trajectory(name, "skewed", &Steps::parse("400,2000")?)?;
        Ok(gd.outcomes[1].diverged as f64)
    };
    let tightest = |limits: &[f64]| {
        bootstrap(lab.seed, limits.len(), |chosen| {
            chosen.iter().map(|&i| limits[i]).fold(f64::INFINITY, f64::min)
        })
    };
    note.claim("beyond", mean(lab.seed, &beyond), AtLeast(1e-3))
        .says("Share of κ=100 prompts on which η = 0.01 exceeds 2/λmax at t=40")
        .ours("η = 0.01 (authors' code)");
    note.claim("diverged", diverged("gd")?, AtLeast(1.0))
        .says("Prompts that GD with η = 0.01 has left for good after 2,000 steps")
        .ours("η = 0.01 (authors' code)");
    note.claim("safe", diverged("gd:eta=0.005")?, AtMost(0.0))
        .says("The same with η = 0.005")
        .ours("safe at t=40: at most 0.0093");
    note.claim("limit-trace", tightest(&trace_limits), Within(0.0075, 0.0105))
        .says("Smallest limit 2/λmax over the prompts, trace-normalised")
        .ours("0.0093")
        .kind(Kind::Reference);
    note.claim("limit-raw", tightest(&raw_limits), Within(1.5e-4, 2.1e-4))
        .says("Smallest limit 2/λmax over the prompts, raw (κ and 1)")
        .ours("1.9×10⁻⁴")
        .kind(Kind::Reference);
    let share = |i: usize| (i + 1) as f64 / trace_limits.len() as f64;
    let points = trace_limits.iter().enumerate().map(|(i, limit)| (*limit, share(i))).collect();
    let series = [Series::new("κ=100, trace-normalised", points)];
    let y = Axis::log10("share of prompts that diverge");
    let panel = LinesPanel::new(Axis::linear("step size η"), y, series)
        .mark_x("η = 0.01", 0.01)
        .mark_x("η = 0.005", 0.005);
    let caption = format!(
        "Share of prompts whose limit 2/λmax(S) at t=40 is below η (κ=100, trace-normalised, {} prompts). Prompts left of \
         the line at 0.01 diverge under the authors' step size.",
        trace.count()
    );
    note.figure("limits", "Limits of the step size, over prompts", caption, [panel]);
    Ok(())
}
