//! Reference numbers of the algorithms: kept so that a change in any of them is noticed.

use crate::analyses::{Analysis, LAST, Lab, Outcome};
use crate::compare::similarity::{Metric, View, of_errors};
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke};
use crate::learners::Trajectory;
use crate::learners::steps::Steps;
use crate::stats::mean;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "REF",
    order: 50,
    title: "Reference numbers and the similarity floor",
    summary: "Errors of Newton and gradient descent at t=40 and similarities of each to least squares, against numbers found \
              independently with 320 prompts. Means over late Newton steps are ruled by a few hard prompts, so their bounds \
              are factors. The floor: any two converged solvers are alike, whatever their methods, so a high similarity \
              at the end of a map says nothing about how they got there.",
    needs: &[],
    run: |lab, note| note.adopt(run(lab)),
    ..Analysis::BEYOND
}];

fn run(lab: &Lab) -> Result<Outcome> {
    let mut claims = Vec::new();
    let prompts = lab.prompts("gaussian")?;
    let newton = lab.trajectory("newton", "gaussian", &Steps::range(0, 24))?;
    let gd = lab.trajectory("gd", "gaussian", &Steps::parse("50,100,400,800")?)?;
    let ols = lab.trajectory("ols", "gaussian", &Steps::single(1))?;
    let ogd = lab.trajectory("ogd", "gaussian", &Steps::single(1))?;
    let errors = [
        (5, 0.20, Bound::near(0.20, 0.15)),
        (9, 2.0e-2, Bound::near(2.0e-2, 0.35)),
        (11, 2.7e-3, Bound::factor(2.7e-3, 2.5)),
        (13, 1.5e-4, Bound::factor(1.5e-4, 100.0)),
        (15, 3.8e-8, Bound::AtMost(1e-5)),
        (18, 1e-28, Bound::AtMost(1e-26)),
    ];
    for (k, quoted, bound) in errors {
        let id = format!("REF.newton-{k}");
        let statement = format!("Newton, {k} steps: error/d at t=40");
        let estimate = lab.error(&newton, &prompts, k, LAST);
        claims
            .push(Claim::of(&id, Kind::Reference, statement, estimate, bound).quoted(format!("{quoted:e}")));
    }
    let errors = [
        (50, 1.2e-3, Bound::factor(1.2e-3, 2.0)),
        (100, 8.8e-5, Bound::factor(8.8e-5, 5.0)),
        (400, 9.5e-10, Bound::AtMost(1e-6)),
    ];
    for (k, quoted, bound) in errors {
        let id = format!("REF.gd-{k}");
        let statement = format!("GD (η=0.01), {k} steps: error/d at t=40");
        let estimate = lab.error(&gd, &prompts, k, LAST);
        claims
            .push(Claim::of(&id, Kind::Reference, statement, estimate, bound).quoted(format!("{quoted:e}")));
    }
    let mut alike =
        |id: &str, what: &str, other: &Trajectory, step: u64, first: usize, quoted: f64| -> Result<()> {
            let map = of_errors(&ols, other, &prompts, View { first }, Metric::Cosine)?;
            let s = other.steps.position(step).expect("recorded");
            let estimate = mean(lab.seed, &map.per_prompt.slice(ndarray::s![0, s, ..]).to_vec());
            let slack = 0.003 + 0.05 * (1.0 - quoted);
            let bound = Bound::Within(quoted - slack, quoted + slack);
            claims.push(
                Claim::of(id, Kind::Reference, what, estimate, bound)
                    .quoted(quoted.to_string())
                    .figure("ref-floor"),
            );
            Ok(())
        };
    alike("REF.floor-newton-5", "SimE(OLS, Newton after 5 steps)", &newton, 5, 1, 0.722)?;
    alike("REF.floor-newton-15", "SimE(OLS, Newton after 15 steps)", &newton, 15, 1, 0.977)?;
    alike("REF.floor-newton-21", "SimE(OLS, Newton after 21 steps)", &newton, 21, 1, 0.995)?;
    alike("REF.floor-gd-50", "SimE(OLS, GD after 50 steps)", &gd, 50, 1, 0.941)?;
    alike("REF.floor-gd-800", "SimE(OLS, GD after 800 steps)", &gd, 800, 1, 0.993)?;
    alike("REF.floor-ogd", "SimE(OLS, online GD), t = 1…40", &ogd, 1, 1, 0.742)?;
    alike("REF.floor-ogd-t0", "SimE(OLS, online GD), t = 0…40 as in the authors' code", &ogd, 1, 0, 0.758)?;

    let skewed = lab.prompts("skewed")?;
    let newton_skewed = lab.trajectory("newton", "skewed", &Steps::range(0, 24))?;
    let gd_skewed = lab.trajectory("gd:eta=0.005", "skewed", &Steps::parse("400,2000")?)?;
    let relative = [
        ("newton", &newton_skewed, 15, 7.8e-3, Bound::factor(7.8e-3, 2.0)),
        ("newton", &newton_skewed, 21, 1.7e-4, Bound::factor(1.7e-4, 3.0)),
        ("newton", &newton_skewed, 24, 5e-7, Bound::AtMost(1e-4)),
        ("gd", &gd_skewed, 400, 3.0e-3, Bound::factor(3.0e-3, 2.0)),
        ("gd", &gd_skewed, 2000, 1.3e-4, Bound::factor(1.3e-4, 3.0)),
    ];
    for (name, trajectory, k, quoted, bound) in relative {
        let id = format!("REF.skewed-{name}-{k}");
        let method = if name == "gd" { "GD (η=0.005)" } else { "Newton" };
        let statement = format!("κ=100, {method}, {k} steps: relative error at t=40");
        let estimate = lab.error(trajectory, &skewed, k, LAST);
        claims
            .push(Claim::of(&id, Kind::Reference, statement, estimate, bound).quoted(format!("{quoted:e}")));
    }
    Ok(Outcome { claims, figures: vec![floor_figure(lab)?], tables: vec![] })
}

/// SimE with least squares along the steps of several algorithms.
fn floor_figure(lab: &Lab) -> Result<Figure> {
    let prompts = lab.prompts("gaussian")?;
    let ols = lab.trajectory("ols", "gaussian", &Steps::single(1))?;
    let curves = [
        ("Newton", "newton", Steps::range(0, 24)),
        ("gradient descent", "gd", Steps::powers_of_two(0, 12)),
        ("conjugate gradient", "cg", Steps::range(0, 25)),
    ];
    let mut series = Vec::new();
    for (label, name, steps) in curves {
        let other = lab.trajectory(name, "gaussian", &steps)?;
        let map = of_errors(&ols, &other, &prompts, View::default(), Metric::Cosine)?;
        let points = steps.as_slice().iter().enumerate().filter(|(_, k)| **k > 0);
        let points = points.map(|(s, &k)| (k as f64, map.mean[[0, s]])).collect();
        series.push(Series::new(label, points).stroke(Stroke::LineMarkers));
    }
    Ok(Figure {
        id: "ref-floor".into(),
        title: "Everything that converges becomes alike".into(),
        caption: format!(
            "Similarity of errors with least squares along the steps (isotropic, d=20, {} prompts).",
            prompts.count()
        ),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("steps", Scale::Log2),
            y: Axis::new("SimE with OLS", Scale::Linear).range(0.3, 1.02),
            series,
            references: vec![],
        })],
    })
}
