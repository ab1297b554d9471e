//! N1: is it the same algorithm whatever the seed? Five trainings of one recipe.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::MIDDLE_RULE;
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

const SEEDS: [&str; 5] = ["r1-fast", "r1-seed1", "r1-seed2", "r1-seed3", "r1-seed4"];

struct Trained {
    newton: Compared,
    gd: Compared,
    /// Error over d after all pairs, by layer.
    errors: Vec<(f64, f64)>,
}

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let trained = SEEDS.into_iter().map(|name| measure(lab, name)).collect::<Result<Vec<_>>>()?;
    let slopes: Vec<f64> = trained.iter().map(|t| t.newton.per_step(Trend::Linear).value).collect();
    let following = |of: fn(&Trained) -> &Compared, trend| {
        trained.iter().filter(|t| of(t).fit.as_ref().is_some_and(|f| f.trend == trend)).count()
    };
    let similar = trained.iter().map(|t| t.newton.last_similarity().value).fold(f64::INFINITY, f64::min);
    note.claim("slope", over_runs(&slopes), Within(2.0, 4.5))
        .says("Newton steps per middle layer, mean over five seeds");
    note.claim("newton-linear", following(|t| &t.newton, Trend::Linear), AtLeast(5.0))
        .says("Seeds of five in which a line fits the best Newton steps better than an exponential");
    note.claim("gd-exponential", following(|t| &t.gd, Trend::Exponential), AtLeast(5.0))
        .says("Seeds of five in which an exponential fits the best GD steps better than a line");
    note.claim("similar", similar, AtLeast(0.99))
        .says("Smallest SimE of the last layer with its best Newton step, over five seeds");
    figure(lab, note, &trained);
    table(lab, note, &trained);
    Ok(())
}

fn measure(lab: &Lab, network: &'static str) -> Result<Trained> {
    let setting = Setting { network, ..ISOTROPIC };
    let (prompts, layers) = (setting.prompts(lab)?, setting.layers(lab)?);
    let error = |&layer: &u64| (layer as f64, lab.error(&layers, &prompts, layer, LAST).value);
    Ok(Trained {
        newton: setting.errors(lab, setting.newton)?,
        gd: setting.errors(lab, setting.gd)?,
        errors: layers.steps.as_slice().iter().map(error).collect(),
    })
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
    let best = |of: &Compared| {
        let layers = of.matching.a.as_slice().iter().map(|&layer| layer as f64);
        layers.zip(of.best_steps()).collect::<Vec<_>>()
    };
    let of = |curve: &dyn Fn(&Trained) -> Vec<(f64, f64)>| trained.iter().map(curve).collect();
    let panels = [
        panel("Newton", "best Newton step", Scale::Linear, 0.0, of(&|t| best(&t.newton))),
        panel("Gradient descent", "best GD step", Scale::Log2, 0.5, of(&|t| best(&t.gd))),
        panel("Error", &format!("error/d at t={LAST}"), Scale::Log10, 1e-30, of(&|t| t.errors.clone())),
    ];
    let caption = format!(
        "Five trainings of one recipe ({}). Bands reach from the smallest to the largest of the five; means of \
         GD steps and of errors are geometric. {MIDDLE_RULE}",
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
