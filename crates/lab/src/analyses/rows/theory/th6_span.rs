//! TH6: every polynomial in S times Xᵀy lies in the span of the inputs read.

use crate::analyses::kit::prelude::*;
use crate::compare::forgetting::outside_span;
use crate::compare::similarity::induced_weights;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "TH6",
    paper: Some(("Text", "B.4")),
    order: 60,
    title: "Do sums of moments stay in the span of the inputs?",
    summary: "Weights of the form Σ β_s S^s Xᵀy lie in span{x₁…x_t}. Induced weights of several algorithms are \
              projected on that span for t < d; what is left should be round-off, for any β. Two learners that are not sums \
              of moments show that the measure can fail: online GD from a random start, and nearest neighbours.",
    run,
    ..Analysis::THEORY
}];

/// What is compared: label, algorithm, and its step.
type Case = (&'static str, &'static str, u64);
const INSIDE: [Case; 6] = [
    ("Newton, 12 steps", "newton", 12),
    ("GD, 64 steps", "gd", 64),
    ("CG, 5 steps", "cg", 5),
    ("BFGS, 5 steps", "bfgs", 5),
    ("OLS", "ols", 1),
    ("online GD", "ogd", 1),
];
const OUTSIDE: [Case; 2] =
    [("online GD from a random start", "ogd:start=1", 1), ("3 nearest neighbours", "knn", 1)];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let (count, queries) = (lab.count.min(64), 10 * DIM);
    let lengths: Vec<usize> = (1..DIM).collect();
    let task = Task::new("linear", "gaussian", DIM, POINTS)?;
    let questions = task.questions(lab.seed, "eval", 0, count, lengths.clone(), queries);
    // [length][prompt]
    let residuals = |name: &str, step: u64| -> Result<Vec<Vec<f64>>> {
        let weights = induced_weights(&*solver(name)?, &questions, &Steps::single(step))?;
        Ok(outside_span(&weights, &questions, 0))
    };
    let everyone: Vec<usize> = (0..count).collect();
    let mean_over =
        |of: &[f64], chosen: &[usize]| chosen.iter().map(|&b| of[b]).sum::<f64>() / chosen.len() as f64;
    let curve = |label: &str, residuals: &[Vec<f64>]| {
        let points = lengths.iter().zip(residuals);
        let points = points.map(|(&t, of)| (t as f64, mean_over(of, &everyone).max(1e-17)));
        Series::new(label, points.collect())
    };
    let mut series = Vec::new();
    for (label, name, step) in INSIDE {
        let found = residuals(name, step)?;
        note.claim(name, worst(found.iter().flatten().copied()), AtMost(1e-8))
            .says(format!("{label}: largest share of the weights outside the span, t < d"))
            .quoted("should lie in the span of the examples");
        series.push(curve(label, &found).markers());
    }
    for (label, name, step) in OUTSIDE {
        let found = residuals(name, step)?;
        let outside =
            bootstrap(lab.seed, count, |chosen| least(found.iter().map(|of| mean_over(of, chosen))));
        note.claim(&name.replace(":start=1", "-random"), outside, AtLeast(0.01))
            .says(format!("{label}: smallest share of the weights outside the span, t < d"))
            .ours("Not a sum of moments")
            .kind(Kind::Reference);
        series.push(curve(label, &found).dashed());
    }
    let caption = format!(
        "Relative residual of w̃_t after projection on span{{x₁…x_t}}, mean over {count} prompts, T={queries} queries. \
         Solid: methods whose weights are sums of moments (or of inputs). Dashed: learners that are not."
    );
    let y = Axis::log10("share outside the span").range(1e-17, 10.0);
    let panel = LinesPanel::new(Axis::linear("in-context pairs t"), y, series);
    note.figure("span", "Share of the induced weights outside the span", caption, [panel]);
    Ok(())
}
