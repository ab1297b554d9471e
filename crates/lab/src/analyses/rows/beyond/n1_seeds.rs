//! N1: is it the same algorithm whatever the seed? Five trainings of one recipe.

use super::n4_recipes::SEEDS;
use super::trained::{Trained, best_by_layer};
use crate::analyses::kit::prelude::*;
use crate::compare::rates::BEYOND_DOUBT;
use crate::stats::{over_runs, over_runs_log};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N1",
    order: 10,
    title: "Do five seeds give the same line against Newton?",
    summary: "The paper looks at one network of each kind. Here the main one is trained five times, from other first \
              weights and on other prompts, and every training is held against Newton and gradient descent on the \
              same prompts.",
    needs: &SEEDS,
    run,
    ..Analysis::BEYOND
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let measure = |network: &'static str| Trained::measure(lab, &Setting { network, ..ISOTROPIC });
    let trained = SEEDS.into_iter().map(measure).collect::<Result<Vec<_>>>()?;
    // what varies most is the seed, not the prompts: intervals are over seeds
    let over = |value: fn(&Trained) -> f64| over_runs(&trained.iter().map(value).collect::<Vec<_>>());
    note.claim("slope", over(|t| t.newton.per_step(Trend::Linear).value), Within(2.5, 3.5))
        .says("Newton steps per layer, mean over five seeds (layers 3 to 9)")
        .ours("About 3, as in F3");
    note.claim(
        "newton-linear",
        over(|t| t.newton.evidence(Trend::Linear).value),
        Bound::Beyond(BEYOND_DOUBT),
    )
    .says(
        "A line fits the best Newton steps better than an exponential: BIC difference, mean over five seeds",
    )
    .ours("As F3.newton-linear");
    note.claim("gd-exponential", over(|t| t.gd.evidence(Trend::Exponential).value), Bound::Beyond(BEYOND_DOUBT))
        .says("An exponential fits the best GD steps better than a line, a power law or a parabola: BIC difference, mean over five seeds")
        .ours("As F3.gd-exponential");
    note.claim("similar", over(|t| t.newton.last_similarity().value), AtLeast(0.99))
        .says("SimE of the last layer with its best Newton step, mean over five seeds")
        .ours("As F3.last-layer");
    note.claim("superlinear", over(|t| t.superlinear.value), AtLeast(0.0))
        .says("Growth from layer to layer of the e-folds by which a layer lowers the median error at t=40, mean over five seeds (layers 3 to 8)")
        .ours("As F2: superlinear");
    figure(lab, note, &trained);
    table(lab, note, &trained);
    Ok(())
}

/// The mean over seeds, geometric on a logarithmic axis, with a band from the smallest to the largest. What is below `least`
/// counts as `least`.
fn banded(curves: &[Vec<(f64, f64)>], scale: Scale, least: f64) -> Series {
    let mean = if scale == Scale::Linear { over_runs } else { over_runs_log };
    let (mut points, mut band) = (Vec::new(), Vec::new());
    for (i, &(x, _)) in curves[0].iter().enumerate() {
        let found = curves.iter().map(|c| c[i].1).filter(|v| v.is_finite());
        let found: Vec<f64> = found.map(|v| v.max(least)).collect();
        let ends = (found.iter().copied().reduce(f64::min), found.iter().copied().reduce(f64::max));
        if let (Some(low), Some(high)) = ends {
            points.push((x, mean(&found).value));
            band.push((low, high));
        }
    }
    Series::new("mean of five seeds", points).band(band).markers()
}

fn figure(lab: &Lab, note: &mut Notebook, trained: &[Trained]) {
    let panel = |title: &str, y: &str, scale: Scale, least: f64, curves: Vec<Vec<(f64, f64)>>| {
        let mean = banded(&curves, scale, least);
        LinesPanel::new(Axis::linear("layer"), Axis::new(y, scale), [mean]).titled(title)
    };
    let of = |curve: &dyn Fn(&Trained) -> Vec<(f64, f64)>| trained.iter().map(curve).collect();
    let panels = [
        panel("Newton", "best Newton step", Scale::Linear, 0.0, of(&|t| best_by_layer(&t.newton))),
        panel("Gradient descent", "best GD step", Scale::Log2, 0.5, of(&|t| best_by_layer(&t.gd))),
        panel("Error", &format!("error/d at t={LAST}"), Scale::Log10, 1e-30, of(&|t| t.errors.clone())),
    ];
    let caption = format!(
        "Five trainings of one recipe ({}). Bands reach from the smallest to the largest of the five; means of \
         GD steps and of errors are geometric.",
        ISOTROPIC.about(lab.count)
    );
    note.figure("seeds", "Best matches and errors by layer, over five seeds", caption, panels);
}

fn table(lab: &Lab, note: &mut Notebook, trained: &[Trained]) {
    let columns = [
        "network",
        "layers fitted",
        "Newton steps per layer",
        "95 %",
        "BIC for a line",
        "last layer's step",
        "SimE there",
        "error/d",
    ];
    let rows = SEEDS.iter().zip(trained).map(|(name, t)| {
        let fit = t.newton.fit.as_ref();
        let interval = fit.and_then(|f| f.linear_interval);
        vec![
            name.to_string(),
            t.newton.layers(),
            fit.map_or("none".into(), |f| format!("{:.2}", f.linear.slope)),
            interval.map_or(String::new(), |(low, high)| format!("{low:.2} to {high:.2}")),
            fit.map_or(String::new(), |f| format!("{:+.1}", f.evidence(Trend::Linear).value)),
            format!("{:.0}", t.newton.last_step().value),
            format!("{:.4}", t.newton.last_similarity().value),
            t.errors.last().map_or(String::new(), |e| format!("{:.2e}", e.1)),
        ]
    });
    let caption = format!("{} prompts, {}.", lab.count, ISOTROPIC.words);
    note.table("seeds", "Each seed against Newton", caption, columns, rows);
}
