//! Reference numbers of the algorithms: kept so that a change in any of them is noticed.

use crate::analyses::kit::prelude::*;
use crate::compare::similarity::of_errors;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "REF",
    order: 110,
    seconds: 2.0,
    title: "Do the algorithms give the reference numbers, and where is the floor?",
    summary: "Errors of Newton and gradient descent at t=40 and similarities of each to least squares, against \
              numbers found independently with 320 prompts. Means over late Newton steps are ruled by a few hard \
              prompts, so their bounds are factors. The floor: any two converged solvers are alike, \
              whatever their methods, so a high similarity at the end of a map says nothing about how they got \
              there.",
    run,
    ..Analysis::BEYOND
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let newton = &lab.trajectory("newton", "gaussian", &Steps::range(0, 24))?;
    let gd = &lab.trajectory("gd", "gaussian", &Steps::parse("50,100,400,800")?)?;
    let newton_skewed = &lab.trajectory("newton", "skewed", &Steps::range(0, 24))?;
    let gd_skewed = &lab.trajectory("gd:eta=0.005", "skewed", &Steps::parse("400,2000")?)?;
    // By prefix of the claim, method, step, and the number found with 320 prompts.
    let isotropic = [
        ("newton", "Newton", newton, 5, 0.20, Bound::near(0.20, 0.25)),
        ("newton", "Newton", newton, 9, 2.0e-2, Bound::near(2.0e-2, 0.35)),
        ("newton", "Newton", newton, 11, 2.7e-3, Bound::factor(2.7e-3, 2.5)),
        ("newton", "Newton", newton, 15, 3.8e-8, AtMost(1e-5)),
        ("newton", "Newton", newton, 18, 1e-28, AtMost(1e-26)),
        ("gd", "GD (η=0.01)", gd, 50, 1.2e-3, Bound::factor(1.2e-3, 2.0)),
        ("gd", "GD (η=0.01)", gd, 100, 8.8e-5, Bound::factor(8.8e-5, 5.0)),
        ("gd", "GD (η=0.01)", gd, 400, 9.5e-10, AtMost(1e-6)),
    ];
    let prompts = lab.prompts("gaussian")?;
    for (name, method, of, k, quoted, bound) in isotropic {
        note.claim(&format!("{name}-{k}"), lab.error(of, &prompts, k, LAST), bound)
            .says(format!("{method}, {k} steps: error/d at t=40"))
            .ours(format!("{quoted:e}"))
            .kind(Kind::Reference);
    }
    let ols = lab.trajectory("ols", "gaussian", &Steps::single(1))?;
    let ogd = &lab.trajectory("ogd", "gaussian", &Steps::single(1))?;
    let alike = [
        ("newton-5", "Newton after 5 steps)", newton, 5, 1, 0.722),
        ("newton-15", "Newton after 15 steps)", newton, 15, 1, 0.977),
        ("newton-21", "Newton after 21 steps)", newton, 21, 1, 0.995),
        ("gd-50", "GD after 50 steps)", gd, 50, 1, 0.941),
        ("gd-800", "GD after 800 steps)", gd, 800, 1, 0.993),
        ("ogd", "online GD), t = 1…40", ogd, 1, 1, 0.742),
        ("ogd-t0", "online GD), t = 0…40 as in the authors' code", ogd, 1, 0, 0.758),
    ];
    for (name, what, other, step, first, quoted) in alike {
        let map = of_errors(&ols, other, &prompts, View { first }, Metric::Cosine)?;
        let s = other.steps.position(step).expect("recorded");
        let similarity = mean(lab.seed, &map.per_prompt.slice(ndarray::s![0, s, ..]).to_vec());
        let slack = 0.003 + 0.05 * (1.0 - quoted);
        note.claim(&format!("floor-{name}"), similarity, Within(quoted - slack, quoted + slack))
            .says(format!("SimE(OLS, {what}"))
            .ours(quoted.to_string())
            .kind(Kind::Reference);
    }
    let skewed = [
        ("newton", "Newton", newton_skewed, 15, 7.8e-3, Bound::factor(7.8e-3, 2.0)),
        ("newton", "Newton", newton_skewed, 21, 1.7e-4, Bound::factor(1.7e-4, 3.0)),
        ("newton", "Newton", newton_skewed, 24, 5e-7, AtMost(1e-4)),
        ("gd", "GD (η=0.005)", gd_skewed, 400, 3.0e-3, Bound::factor(3.0e-3, 2.0)),
        ("gd", "GD (η=0.005)", gd_skewed, 2000, 1.3e-4, Bound::factor(1.3e-4, 3.0)),
    ];
    let prompts = lab.prompts("skewed")?;
    for (name, method, of, k, quoted, bound) in skewed {
        note.claim(&format!("skewed-{name}-{k}"), lab.error(of, &prompts, k, LAST), bound)
            .says(format!("κ=100, {method}, {k} steps: relative error at t=40"))
            .ours(format!("{quoted:e}"))
            .kind(Kind::Reference);
    }
    along(lab, note)
}

/// SimE with least squares along the steps of several algorithms.
fn along(lab: &Lab, note: &mut Notebook) -> Result<()> {
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
        series.push(Series::new(label, points).markers());
    }
    let caption = format!(
        "Similarity of errors with least squares along the steps (isotropic, d=20, {} prompts).",
        prompts.count()
    );
    let panel = LinesPanel::new(Axis::log2("steps"), Axis::linear("SimE with OLS").range(0.3, 1.02), series);
    note.figure("floor", "Similarity with least squares, along the steps", caption, [panel]);
    Ok(())
}
