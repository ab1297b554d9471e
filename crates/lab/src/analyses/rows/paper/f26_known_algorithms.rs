//! F26: best-matching steps tell the rates of known algorithms apart.

use crate::analyses::kit::prelude::*;
use crate::compare::rates::BEYOND_DOUBT;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F26",
    paper: Some(("Figure 26", "A.5")),
    headline: Some(Headline {
        rank: 3,
        figure: "newton-gd",
        claims: &["newton-gd-exponential", "newton-gd-slope"],
    }),
    order: 260,
    seconds: 1.5,
    title: "Do best-matching steps reveal the rates of known algorithms?",
    summary: "For each step of Newton the most similar step of another algorithm. A straight line means the same rate; \
              an exponential means the other is exponentially slower. Shown for similarity of errors, and again for \
              similarity of induced weights and for distance instead of angle.",
    needs: &[],
    run,
    ..Analysis::FIGURE
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let data = &ISOTROPIC.data;
    let (steps, powers, few) = (Steps::range(0, 24), Steps::powers_of_two(0, 12), Steps::range(0, 25));
    let newton_and =
        |other: &str, others: &Steps, metric| lab.compare(data, ("newton", &steps), (other, others), metric);
    let gd = newton_and("gd", &powers, Metric::Cosine)?.over((3, 22));
    let newton = newton_and("newton", &steps, Metric::Cosine)?;
    let bfgs = newton_and("bfgs", &few, Metric::Cosine)?.over((7, 20));
    // the paper does not name its line search: the exact one ends after d steps, Armijo's does not
    let armijo = newton_and(ISOTROPIC.bfgs.solver, &Steps::range(0, 50), Metric::Cosine)?.over((7, 20));
    let cg = newton_and("cg", &few, Metric::Cosine)?;
    let l2 = newton_and("gd", &powers, Metric::Distance)?.over((3, 22));
    // weights take T answers per prefix, so fewer prompts do
    let weights = |name: &str, steps: &Steps| lab.weights(name, data, ISOTROPIC.weight_prompts, steps);
    let simw = Comparison::of_weights(&*weights("newton", &steps)?, &*weights("gd", &powers)?);
    let simw = simw.over((3, 22)).resampled(lab.seed);

    let exponential = Trend::Exponential;
    note.claim("newton-gd-exponential", gd.evidence(exponential), Bound::Beyond(BEYOND_DOUBT))
        .says("Newton–GD: an exponential fits the best matches better than a line, a power or a parabola (k = 3…22, BIC difference)")
        .quoted("there is an exponential trend")
        .figure("newton-gd");
    note.claim("newton-gd-slope", gd.per_step(exponential), Within(0.45, 0.55))
        .says("Newton–GD: doublings of GD steps per Newton step")
        .ours("one in two steps: Newton starts from αS, whose condition number is that of S squared")
        .kind(Kind::Reference)
        .figure("newton-gd");
    let armijos = "Armijo's line search";
    note.claim("newton-bfgs-linear", bfgs.evidence(Trend::Linear), Bound::Beyond(BEYOND_DOUBT))
        .says("Newton–BFGS (exact line search): a line fits the late best matches better than an exponential (k = 7…20, BIC \
               difference)")
        .quoted("there a linear trend after there are enough steps for BFGS to approximate second-order information")
        .also(armijos, armijo.evidence(Trend::Linear))
        .figure("newton-bfgs");
    note.claim("newton-bfgs-slope", bfgs.per_step(Trend::Linear), Bound::None)
        .says("Newton–BFGS (exact line search): BFGS steps per Newton step, late (k = 7…20)")
        .ours("the paper has no number")
        .also(armijos, armijo.per_step(Trend::Linear))
        .figure("newton-bfgs");
    note.claim("simw-exponential", simw.evidence(exponential), Bound::Beyond(BEYOND_DOUBT))
        .says("Newton–GD by induced weights: an exponential fits better than a line, a power or a parabola (k = 3…22, BIC difference)")
        .quoted("the same trends when using similarity of induced weights")
        .figure("simw");
    note.claim("l2-exponential", l2.evidence(exponential), Bound::Beyond(BEYOND_DOUBT))
        .says("Newton–GD by ℓ2 distance: an exponential fits better than a line, a power or a parabola (k = 3…22, BIC difference)")
        .quoted("distance gives the same observation")
        .figure("l2");
    let expected = [(5, 8.0), (9, 32.0), (13, 128.0), (17, 512.0), (21, 2048.0)];
    note.claim("gd-steps", farthest(&gd, &expected, |best, step| (best / step).log2()), AtMost(0.0))
        .says("Newton–GD: largest deviation from the reference matches, in doublings")
        .ours("5→8, 9→32, 13→128, 17→512, 21→2048")
        .kind(Kind::Reference);
    let expected = [(5, 2.0), (9, 5.0), (13, 9.0), (17, 14.0), (21, 18.0)];
    note.claim("cg-steps", farthest(&cg, &expected, |best, step| best - step), AtMost(1.0))
        .says("Newton–CG: largest deviation from the reference matches, in steps")
        .ours("5→2, 9→5, 13→9, 17→14, 21→18")
        .kind(Kind::Reference);

    let fitted = |of: &Comparison| of.fit.as_ref().map_or(String::new(), |fit| fit.words("step"));
    let common = format!(
        "isotropic, d=20, {} prompts; outlined: best match of each column, with a whisker where its 95 % bootstrap interval is wider than one step",
        lab.count
    );
    let mut draw = |name: &str, title: &str, words: &str, of: &Comparison| {
        note.figure(name, title, format!("{words} ({common})."), [of.panel("")]);
    };
    let words = format!("SimE of every Newton step with GD after 2⁰…2¹² steps. Fitted: {}", fitted(&gd));
    draw("newton-gd", "Newton against gradient descent", &words, &gd);
    let words =
        "SimE of Newton with itself: the diagonal, whatever the method, so that nothing is claimed of it";
    draw("newton-newton", "Newton against itself", words, &newton);
    let words = format!("SimE with BFGS, exact line search. Fitted: {}", fitted(&bfgs));
    draw("newton-bfgs", "Newton against BFGS", &words, &bfgs);
    let words = format!("SimE with BFGS, Armijo's line search. Fitted: {}", fitted(&armijo));
    draw("newton-bfgs-armijo", "Newton against BFGS with Armijo's line search", &words, &armijo);
    let words = "SimE with CG, which BFGS with exact line search equals on a quadratic until round-off";
    draw("newton-cg", "Newton against conjugate gradient", words, &cg);
    let count = simw.map.prompts();
    let words = format!("SimW, T=200 queries, {count} prompts of those. Fitted: {}", fitted(&simw));
    draw("simw", "Newton against gradient descent, by induced weights", &words, &simw);
    let words = "Root mean square difference of errors; smaller is more alike";
    draw("l2", "Newton against gradient descent, by distance", words, &l2);
    let rows = steps.as_slice().iter().map(|&k| {
        let best = |of: &Comparison| of.step_for(k).map_or("–".into(), |s| s.to_string());
        std::iter::once(k.to_string()).chain([&gd, &simw, &l2, &bfgs, &armijo, &cg].map(best)).collect()
    });
    let columns = ["Newton step", "GD (SimE)", "GD (SimW)", "GD (L2)", "BFGS (exact)", "BFGS (Armijo)", "CG"];
    let caption = "For each Newton step the best step of the other algorithm.";
    note.table("best-matches", "Best-matching steps", caption, columns, rows);
    Ok(())
}

/// The largest distance, by some measure, of the best matches from those expected of steps of Newton.
fn farthest(of: &Comparison, expected: &[(u64, f64)], apart: fn(f64, f64) -> f64) -> f64 {
    worst(expected.iter().map(|&(k, step)| apart(of.best_step(k), step).abs()))
}
